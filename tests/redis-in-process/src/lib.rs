//! A Redis server in process, on a clock that the test sets.
//!
//! [`Server`] runs the commands and the Lua that a lock of this crate and of Redisson's calls, with Redis' own answers and
//! errors. It has no socket, no thread and no clock of its own: the same calls at the same moments come to the same answers.
//! `tests/like_redis.rs` compares it with a real server.
//!
//! What it is not: a cluster, a replica that follows a master, or a Redis with all commands. A command that it does not have is a
//! panic, never an answer.

mod commands;
mod glob;
mod interpreter;
mod keyspace;
mod number;
mod pubsub;
mod refusal;
mod reply;
mod server;

pub use keyspace::{Entry, Value};
pub use pubsub::{Channel, Message, Subscriber};
pub use refusal::Refusal;
pub use reply::Reply;
pub use server::{Server, Snapshot};

/// By what a server knows a script, in hex.
fn sha1(source: &[u8]) -> String {
    sha1_smol::Sha1::from(source).digest().to_string()
}
