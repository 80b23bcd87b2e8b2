//! Faults of the network, the server, the process and the caller.
//!
//! Every test has its own server, and between client and server a network that fails on demand. No test relies on exact times,
//! because the machine may be busy. The tests count, compare, and use generous bounds.

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
