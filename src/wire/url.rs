//! Redis URLs.

use fred::types::config::ServerConfig;

use super::FredConfig;
use crate::error::Error;

/// Reads a Redis URL.
pub(crate) fn check_url(url: &str) -> Result<FredConfig, Error> {
    // fred takes rediss:// without TLS compiled in for redis://, and sends passwords in the clear.
    let tls =
        cfg!(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"));
    let scheme = url.trim_start().to_ascii_lowercase();
    if scheme.starts_with("rediss") || scheme.starts_with("valkeys") {
        if !tls {
            return Err(Error::Config(
                "a rediss:// URL needs one of the features tls-rustls, tls-rustls-ring, tls-native"
                    .into(),
            ));
        }
        choose_cryptography();
    }
    // The form other clients use for a Unix socket.
    let url = match url.strip_prefix("unix://") {
        Some(path) => format!("redis+unix://{path}"),
        None => url.to_owned(),
    };
    let config = FredConfig::from_url(&url)
        .map_err(|error| Error::Config(format!("the URL: {}", error.details())))?;
    match &config.server {
        ServerConfig::Sentinel { service_name, .. } if service_name.is_empty() => {
            Err(Error::Config("a Sentinel URL needs ?sentinelServiceName=...".into()))
        }
        _ => Ok(config),
    }
}

/// rustls panics where several sorts of cryptography are compiled in, for other parts of the program
/// perhaps, and none is chosen. A choice that was made stands.
fn choose_cryptography() {
    #[cfg(feature = "tls-rustls")]
    let _ = fred::rustls::crypto::aws_lc_rs::default_provider().install_default();
    #[cfg(feature = "tls-rustls-ring")]
    let _ = fred::rustls::crypto::ring::default_provider().install_default();
}

/// The address of the server, and the database on it.
pub(crate) fn server_name(config: &FredConfig) -> String {
    let mut hosts: Vec<_> = config.server.hosts().iter().map(ToString::to_string).collect();
    hosts.sort_unstable();
    format!("{}/{}", hosts.join(","), config.database.unwrap_or(0))
}
