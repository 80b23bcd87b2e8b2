//! What a network, a server, a process and a caller can do to a lock, done to it.
//!
//! Every test has a server of its own and, between client and server, a network that fails when it is told to. No test
//! relies on exact times, for the machine may be busy: they count, compare, and bound generously.

mod blocking;
mod bounds;
mod cancellation;
mod clocks;
mod combined;
mod connecting;
mod connections;
mod demoted;
mod fair;
mod input;
mod kinds;
mod leaving;
mod log;
mod process;
mod refusals;
mod replicas;
mod replies;
mod requests;
mod rights;
mod runtimes;
mod secrets;
mod server;
mod silence;
mod stage;
mod stalled;
mod turmoil;
mod waiters;
mod warnings;
mod words;
