//! A server, as fred is told of it.

use fred::types::config::{Config, Server, ServerConfig};

use crate::wire::deployment::{Address, Endpoint, Place};

/// fred's configuration for one server.
pub(in crate::wire) fn config(endpoint: &Endpoint) -> Config {
    let server = match &endpoint.place {
        Place::UnixSocket(path) => ServerConfig::Unix { path: path.clone() },
        Place::Tcp(address) => ServerConfig::Centralized { server: server(address, endpoint) },
    };
    Config {
        server,
        username: endpoint.credentials.username.clone(),
        password: endpoint.credentials.password.clone(),
        database: endpoint.database,
        #[cfg(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"))]
        tls: endpoint.tls.as_ref().map(|(connector, _)| connector.for_fred()),
        ..Config::default()
    }
}

#[cfg(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"))]
fn server(Address { host, port, .. }: &Address, endpoint: &Endpoint) -> Server {
    let name = endpoint.tls.as_ref().and_then(|(_, name)| name.clone());
    Server::new_with_tls(host.as_str(), *port, name)
}

#[cfg(not(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native")))]
fn server(Address { host, port, .. }: &Address, endpoint: &Endpoint) -> Server {
    debug_assert!(endpoint.tls.is_none(), "there is no connector");
    Server::new(host.as_str(), *port)
}
