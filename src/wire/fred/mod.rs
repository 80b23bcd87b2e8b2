//! The driver over fred. Only this folder names fred.
//!
//! Two of fred's defaults would break locks and are always overridden: a command may be sent again (here:
//! never), and nothing times out (here: everything does). It is not told to reconnect: its pauses would not
//! grow while each new connection ends at once.
//!
//! This crate does not ask for fred's feature `custom-reconnect-errors`, but cargo gives it to a whole program
//! if one part asks for it. Then `READONLY` and `LOADING` end a connection as `CLUSTERDOWN` does.
//!
//! fred is used for one server at a time only. Its cluster client turns a redirection into an error
//! that does not say whether the command ran. It sends to any node when it misses the right one,
//! loses sharded subscriptions silently, and lets all nodes wait for one. Its Sentinel client looks
//! for the master only when a connection breaks.

mod answers;
mod connection;
mod login;

use ::fred::types::config::{Config, Server, ServerConfig};
use futures::{FutureExt, TryFutureExt};

use super::{
    connection::{Connecting, Driver, Options},
    deployment::{Endpoint, Place},
    tls_library::Connector,
};

/// Makes connections with fred.
pub(super) struct FredDriver {
    #[cfg_attr(not(feature = "_tls"), expect(dead_code, reason = "it is never there"))]
    tls: Option<Connector>,
}

impl FredDriver {
    /// With or without TLS.
    pub(super) fn new(tls: Option<Connector>) -> Self {
        Self { tls }
    }

    /// fred's configuration for one server.
    fn config(&self, endpoint: Endpoint) -> Config {
        let Endpoint { place, credentials, database, certified_for: _name, .. } = endpoint;
        let server = match place {
            Place::UnixSocket(path) => ServerConfig::Unix { path },
            Place::Tcp(address) => ServerConfig::Centralized {
                server: Server {
                    host: address.host.into(),
                    port: address.port,
                    #[cfg(feature = "_tls")]
                    tls_server_name: _name.map(Into::into),
                },
            },
        };
        Config {
            server,
            username: credentials.username,
            password: credentials.password,
            database,
            #[cfg(feature = "_tls")]
            tls: self.tls.clone().map(Into::into),
            ..Config::default()
        }
    }
}

impl Driver for FredDriver {
    fn connect(&self, endpoint: Endpoint, options: Options) -> Connecting {
        login::connect(self.config(endpoint), options).map_err(answers::failure).boxed()
    }
}
