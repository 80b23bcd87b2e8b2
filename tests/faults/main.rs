//! Faults of the network, the server, the process and the caller.
//!
//! Every test has its own server, and between client and server a network that fails on demand. No test relies on exact times,
//! because the machine may be busy. The tests count, compare, and use generous bounds.

mod announcing;
mod asking;
mod blocking;
mod bounds;
mod busy;
mod cancellation;
#[cfg(target_os = "linux")]
mod clock_steps;
mod clocks;
#[cfg(target_os = "linux")]
mod clocks_apart;
mod combined;
mod connecting;
mod connections;
mod counters;
mod demoted;
#[cfg(target_os = "linux")]
mod disk;
mod dropped;
mod error_kinds;
mod fair;
mod forced;
mod held;
mod input;
mod kinds;
mod leaving;
mod log;
mod memory;
mod names;
mod one_way;
mod operator;
mod process;
mod refusals;
mod replicas;
mod replies;
mod requests;
mod rights;
mod runtimes;
mod secrets;
mod server;
mod settings;
mod silence;
mod stage;
mod stalled;
mod turmoil;
mod waiters;
mod warnings;
mod words;
mod work;
mod wrong_scheme;
