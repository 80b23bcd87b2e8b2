//! A Redis server in the process, for tests of an application (feature `test-util`).
//!
//! [`TestServer`] runs the scripts of this crate on a server that is a value in memory. No
//! `redis-server` is needed. The clients are real [`Client`](crate::Client)s: the application under test gets one
//! and knows nothing of it. The test decides what goes wrong.
//!
//! ```
//! use redisson_lock::{Error, test_util::TestServer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let server = TestServer::new();
//! let client = server.client().await?;
//! let lock = client.lock("order:42");
//!
//! let stranger = server.hold("order:42"); // another service has the lock
//! assert!(lock.try_lock().await?.is_none());
//!
//! drop(stranger); // it releases the lock
//! let guard = lock.try_lock().await?.expect("the lock is free");
//!
//! server.take_away("order:42"); // as an operator or a failover does
//! assert!(guard.unlock().await.is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # Time
//! The server has the clock of the runtime on which [`TestServer::new`] is called. If that clock is
//! [paused](https://docs.rs/tokio/latest/tokio/time/fn.pause.html), so are all leases, and tokio
//! moves the clock on whenever all tasks wait. A test then needs no real time to wait for a lease, a
//! watchdog or a timeout. tokio's feature `test-util` is needed for that:
//!
//! ```
//! use redisson_lock::{Loss, test_util::TestServer};
//!
//! # fn main() {
//! # tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap().block_on(async {
//! # async fn test() -> Result<(), redisson_lock::Error> {
//! // #[tokio::test(start_paused = true)]
//! let server = TestServer::new();
//! let guard = server.client().await?.lock("order:42").lock().await?;
//! server.take_away("order:42");
//! // The next renewal finds that out. It is due in 10 s, which take no real time.
//! assert_eq!(guard.lost().await, Loss::Removed);
//! # Ok(())
//! # }
//! # test().await.unwrap()
//! # })
//! # }
//! ```
//!
//! Make one server in each test, none in a `static`: it keeps the clock of the first runtime.
//!
//! Without a paused clock, a short [watchdog](crate::Config::watchdog) tells a loss soon: a third of
//! it passes until the next renewal. With 1 s that is about 0.33 s. If the machine stalls for longer than the watchdog's
//! time, holds are lost although nothing went wrong in the test.
//!
//! ```
//! # use std::time::Duration;
//! use redisson_lock::{Config, Loss, test_util::TestServer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), redisson_lock::Error> {
//! let server = TestServer::new();
//! let config = Config::default().watchdog(Duration::from_secs(1));
//! let guard = server.client_with(config).await?.lock("order:42").lock().await?;
//! server.take_away("order:42");
//! assert_eq!(guard.lost().await, Loss::Removed);
//! # Ok(())
//! # }
//! ```
//!
//! # What goes wrong
//! | in production | in a test |
//! |---|---|
//! | another service has the lock | [`TestServer::hold`] |
//! | its process dies | [`Stranger::crash`] |
//! | a hold is gone: a failover, an operator, an eviction | [`TestServer::take_away`] |
//! | Redis does not answer | [`TestServer::stall`] |
//! | Redis is down | [`TestServer::stop`] |
//! | Redis starts again without its data | [`TestServer::restart_empty`] |
//! | an answer is lost | [`TestServer::lose_replies`] |
//! | a message is lost | [`TestServer::lose_messages`] |
//! | Redis refuses | [`TestServer::refuse`], [`TestServer::fail_next`] |
//! | the clock of the server jumps | [`TestServer::advance`] |
//!
//! # Limits
//! The server is one server without replicas, and behaves like Redis 7.0. What it answers is compared
//! with a real one, command by command, in the tests of this crate. Clusters, sentinels, logins and
//! TLS are not there. A client takes no address from its [`Config`](crate::Config), and ignores these settings.
//!
//! The feature compiles Lua from its sources. That needs a C compiler, and about 8 s of one core.

mod host;
mod link;
mod port;
mod refusal;
mod resp;
mod server;
mod session;
mod state;
mod stranger;
mod upkeep;

pub use self::{port::Port, refusal::Refusal, server::TestServer, stranger::Stranger};
