//! The server in the process of the test, which peers reach through its port.

use harness::redis::{Client, Connection};
use harness::{Inspector, PeerArgs, Servers};
use redisson_lock::test_util::{Port, TestServer};

/// A server of the module `test_util`.
pub(crate) struct InProcess {
    port: Port,
}

impl InProcess {
    pub(crate) fn start() -> Self {
        Self { port: TestServer::new().listen().expect("a port") }
    }
}

impl Servers for InProcess {
    fn peer_args(&self) -> PeerArgs {
        PeerArgs::redis(self.port.url())
    }

    fn inspector(&self) -> Inspector {
        Inspector::new(self.client_of(""))
    }

    fn client_of(&self, _key: &str) -> Connection {
        let client = Client::open(self.port.url()).expect("a URL");
        client.get_connection().expect("a connection")
    }
}
