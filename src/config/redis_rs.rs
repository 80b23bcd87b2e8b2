//! Settings that are taken over from a client of redis-rs.

use std::net::Ipv6Addr;

use redis::ConnectionAddr;

use super::Config;
use crate::{error::Error, options::Driver, wire::socket_url};

impl Config {
    /// Takes over the server, the database and the credentials of a client of redis-rs, and sets
    /// [`Driver::RedisRs`]. The other settings get their defaults. Does no I/O: the locks have
    /// connections of their own.
    ///
    /// # Errors
    /// [`Error::Config`] when the database is not between 0 and 255, or is not 0 on a Unix socket;
    /// when the path of a socket is not UTF-8; when TLS is used, but no TLS feature is compiled; or
    /// when the client has TLS certificates of its own or accepts any certificate. redis-rs does
    /// not show certificates: use [`from_url`](Self::from_url) and [`tls`](Self::tls) then.
    ///
    /// # Examples
    /// ```
    /// use redisson_lock::Config;
    ///
    /// let redis = redis::Client::open("redis://:secret@redis.example:6380/2")?;
    /// let config = Config::from_redis_rs(&redis)?;
    /// assert_eq!(config.get_server(), "redis://redis.example:6380/2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn from_redis_rs(client: &redis::Client) -> Result<Self, Error> {
        let refused = |why: &str| Error::Config(format!("this client of redis-rs {why}"));
        let info = client.get_connection_info();
        let settings = info.redis_settings();
        let database = match settings.db() {
            0 => String::new(),
            database => format!("/{database}"),
        };
        let at = |host: &str, port| match host.parse::<Ipv6Addr>() {
            Ok(_) => format!("[{host}]:{port}{database}"),
            Err(_) => format!("{host}:{port}{database}"),
        };
        let url = match info.addr() {
            ConnectionAddr::Tcp(host, port) => format!("redis://{}", at(host, *port)),
            ConnectionAddr::TcpTls { host, port, insecure: false, tls_params: None } => {
                format!("rediss://{}", at(host, *port))
            }
            ConnectionAddr::Unix(path) if database.is_empty() => {
                socket_url(path.to_str().ok_or_else(|| refused("has a path that is not UTF-8"))?)
            }
            ConnectionAddr::Unix(_) => return Err(refused("has a socket and a database")),
            _ => return Err(refused("has TLS options: set them by Config::tls")),
        };
        Ok(Self {
            username: settings.username().map(str::to_owned),
            password: settings.password().map(str::to_owned),
            ..Self::from_url(url)?.driver(Driver::RedisRs)
        })
    }
}

#[cfg(test)]
mod tests {
    use redis::Client;

    use super::*;

    fn read(url: &str) -> Result<Config, Error> {
        Config::from_redis_rs(&Client::open(url).unwrap())
    }

    #[test]
    fn what_a_client_connects_to_is_taken_over() {
        for (theirs, ours) in [
            ("redis://h", "redis://h:6379/0"),
            ("redis://h:1/7", "redis://h:1/7"),
            ("redis://[::1]:1/255", "redis://[::1]:1/255"),
            ("redis+unix:///run/a%25%23b.sock", "redis+unix:///run/a%#b.sock"),
        ] {
            let (deployment, settings) = read(theirs).unwrap().into_settings().unwrap();
            let shown = read(theirs).unwrap().get_server();
            assert_eq!((&*shown, settings.driver), (ours, Driver::RedisRs), "{theirs}");
            assert!(!deployment.uses_tls && deployment.credentials.password.is_none());
        }
        let (deployment, _) = read("redis://u:p%40%2F@h").unwrap().into_settings().unwrap();
        assert_eq!(deployment.credentials.username.as_deref(), Some("u"));
        assert_eq!(deployment.credentials.password.as_deref(), Some("p@/"));
    }

    #[test]
    fn what_cannot_be_taken_over_is_refused() {
        for url in ["redis://h/256", "redis://h/-1", "redis+unix:///run/s?db=3"] {
            assert!(matches!(read(url), Err(Error::Config(_))), "{url}");
        }
    }
}
