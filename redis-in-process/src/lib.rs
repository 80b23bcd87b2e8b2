//! A Redis server in process, on a clock that the test sets.
//!
//! [`Server`] runs the commands and the Lua that a lock of this crate and of Redisson's calls, with Redis' own answers and
//! errors. It has no socket, no thread and no clock of its own: the same calls at the same moments come to the same answers.
//! Its tests compare it with a real Redis 7.0, after every step of random schedules.
//!
//! What it is not: a cluster, a replica that follows a master, or a Redis with all commands. A command that it does not have is a
//! panic, or an error that says so ([`Server::answer_missing`]).
//!
//! ```
//! use redis_in_process::{Reply, Server};
//!
//! let mut server = Server::new();
//! server.command(&["set", "greeting", "hello", "px", "1000"]);
//! assert_eq!(server.command(&["get", "greeting"]), Reply::Bulk(b"hello".to_vec()));
//! server.set_now(2_000_000); // in µs
//! assert_eq!(server.command(&["get", "greeting"]), Reply::Nil);
//! ```

mod commands;
mod glob;
mod interpreter;
mod keyspace;
mod number;
mod pubsub;
mod refusal;
mod reply;
mod server;

pub use commands::Executed;
pub use keyspace::{Entry, Value};
pub use pubsub::{Channel, Message, Subscriber};
pub use refusal::Refusal;
pub use reply::Reply;
pub use server::{Server, Snapshot};

/// By what a server knows a script, in hex.
fn sha1(source: &[u8]) -> String {
    sha1_smol::Sha1::from(source).digest().to_string()
}
