//! The plain lock beside clients without Redisson: the `Lock` of redis-py, and `SET NX PX` by hand in a JVM.

mod alone;
mod crowd;
mod elsewhere;
mod pairs;

use std::time::Duration;

use harness::{Inspector, Lang, Party, Peer, RedisServer, Servers, peer_or_skip};

/// A holder that nothing renews, or that died, has the lock for so long.
const LEASE: Duration = Duration::from_secs(6);

/// Longer than a waiter sleeps between two looks, with slack for a busy machine.
const PROMPT: Duration = Duration::from_secs(2);

/// Servers, and two processes that share their locks.
struct Stage {
    servers: Box<dyn Servers>,
    /// Where the owners count what they do.
    counters: RedisServer,
    peers: [Peer; 2],
}

impl Stage {
    /// On one server. `None`: one of the languages cannot be had here, which was said aloud.
    async fn of(test: &str, langs: [Lang; 2]) -> Option<Self> {
        Self::on(Box::new(RedisServer::start()), test, langs).await
    }

    async fn on(servers: Box<dyn Servers>, test: &str, langs: [Lang; 2]) -> Option<Self> {
        let counters = RedisServer::start();
        let mut peers = Vec::new();
        for lang in langs {
            let args = servers.peer_args().counters(counters.url());
            let args =
                if lang == Lang::Rust { args.watchdog(Duration::from_secs(3)) } else { args };
            peers.push(peer_or_skip(test, lang, &args).await?);
        }
        let peers = peers.try_into().expect("two");
        Some(Self { servers, counters, peers })
    }

    fn redis(&self) -> Inspector {
        self.servers.inspector()
    }

    /// An owner in each process, at this lock.
    fn owners(&self, name: &str) -> [Party; 2] {
        self.peers.each_ref().map(|peer| peer.party("owner", "plain", name))
    }
}

/// The same test for every mix in which this crate takes part, and for two JVMs: what holds for them is true of such clients.
macro_rules! mixes {
    ($($test:ident;)*) => {$(
        mod $test {
            use harness::Lang::{Java, Python, Rust};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn rust_rust() {
                super::$test(stringify!($test), [Rust, Rust]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn rust_java() {
                super::$test(stringify!($test), [Rust, Java]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn java_rust() {
                super::$test(stringify!($test), [Java, Rust]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn java_java() {
                super::$test(stringify!($test), [Java, Java]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn rust_python() {
                super::$test(stringify!($test), [Rust, Python]).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn python_rust() {
                super::$test(stringify!($test), [Python, Rust]).await;
            }
        }
    )*};
}
pub(crate) use mixes;
