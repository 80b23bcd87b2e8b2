//! Several servers, a network in front of each, and clients of all.

use std::time::Duration;

use futures::future::join_all;
use harness::{Proxy, RedisServer, assert_nothing_left, within};
use redisson_lock::{Client, Config, Lock};
use tokio::time::timeout;

/// More than anything takes here that does not hang, on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

pub(crate) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// How long crowds go on.
pub(crate) fn seconds() -> Duration {
    let wanted = std::env::var("MULTI_SECONDS").ok();
    let seconds = wanted.map_or(6, |wanted| wanted.parse().expect("MULTI_SECONDS is a number"));
    Duration::from_secs(seconds)
}

/// Servers that know nothing of each other.
pub(crate) struct Fleet {
    pub(crate) servers: Vec<RedisServer>,
    pub(crate) proxies: Vec<Proxy>,
}

/// One user: a client of each server.
pub(crate) type User = Vec<Client>;

impl Fleet {
    pub(crate) async fn new(count: usize) -> Self {
        let servers: Vec<_> = (0..count).map(|_| RedisServer::start()).collect();
        let proxies = join_all(servers.iter().map(|server| Proxy::start(server.port()))).await;
        Self { servers, proxies }
    }

    /// Clients that are renewed, and give up, sooner than by default.
    pub(crate) async fn user(&self) -> User {
        self.user_with(|config| config.watchdog(ms(1_200)).command_timeout(ms(500))).await
    }

    pub(crate) async fn user_with(&self, terms: impl Fn(Config) -> Config) -> User {
        let connect = self.proxies.iter().map(|proxy| {
            let config = Config::from_url(proxy.url()).unwrap().retry_timeout(ms(2_000));
            Client::connect(terms(config))
        });
        join_all(connect).await.into_iter().map(Result::unwrap).collect()
    }

    /// The last line of a test: nothing is left on any server that lives.
    pub(crate) async fn end(self, users: impl IntoIterator<Item = User>) {
        let mut dead = Vec::new();
        for (server, proxy) in self.servers.iter().zip(&self.proxies) {
            proxy.heal();
            let is_dead = is_dead(server);
            if !is_dead {
                server.resume();
            }
            dead.push(is_dead);
        }
        for user in users {
            for (client, dead) in user.iter().zip(&dead) {
                let closed = timeout(BOUND, client.close()).await.expect("a close that ends");
                assert!(*dead || closed.is_ok(), "{closed:?}");
            }
        }
        for (server, _) in self.servers.iter().zip(dead).filter(|(_, dead)| !dead) {
            assert_nothing_left(server).await;
        }
    }
}

/// A stopped server still takes connections.
fn is_dead(server: &RedisServer) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", server.port())).is_err()
}

/// The lock of this name on each server.
pub(crate) fn locks(user: &User, name: &str) -> Vec<Lock> {
    user.iter().map(|client| client.lock(name)).collect()
}

/// The future's output, if it comes at all.
pub(crate) async fn bounded<T>(what: &str, future: impl IntoFuture<Output = T>) -> T {
    within(BOUND, what, future).await
}
