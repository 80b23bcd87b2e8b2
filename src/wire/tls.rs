//! The names that certificates are checked for.

use fred::types::config::Server;

use super::FredConfig;

/// One of the servers. With TLS it is to prove that it is this host, or what the user has said of that.
#[cfg(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"))]
pub(super) fn server_at(base: &FredConfig, host: &str, port: u16) -> Server {
    use std::net::IpAddr;

    use fred::types::config::TlsHostMapping;

    let configured = base.server.hosts();
    let is_it = |server: &&Server| *server.host == *host && server.port == port;
    if let Some(server) = configured.iter().find(is_it)
        && server.tls_server_name.is_some()
    {
        return server.clone();
    }
    let name = match (&base.tls, host.parse::<IpAddr>()) {
        (Some(tls), Ok(ip)) => {
            let by_name = configured.iter().find(|server| server.host.parse::<IpAddr>().is_err());
            let first = by_name.map(|server| &*server.host);
            match &tls.hostnames {
                TlsHostMapping::None => None,
                TlsHostMapping::DefaultHost => first.map(str::to_owned),
                TlsHostMapping::Custom(mapping) => mapping.map(&ip, first.unwrap_or(host)),
            }
        }
        _ => None,
    };
    Server::new_with_tls(host, port, name)
}

/// One of the servers.
#[cfg(not(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native")))]
pub(super) fn server_at(_base: &FredConfig, host: &str, port: u16) -> Server {
    Server::new(host, port)
}
