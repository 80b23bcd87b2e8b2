//! The foundation of the tests of `redisson-lock`: real servers, broken networks and peers in two languages.
//!
//! The harness does not depend on the crate under test, so a bug of the crate cannot hide itself here.
//!
//! - [`RedisServer`]: a `redis-server` process for one test, which can be paused, killed and restarted.
//! - [`ServerClock`]: its time of day, which the test sets.
//! - [`RedisCluster`] and [`Sentinel`]: several servers, of which one can replace another. [`Servers`] is what tests need of any
//!   of the three.
//! - [`Inspector`]: an independent inspector of a server's keys.
//! - [`Proxy`]: a network between a client and a server that loses exactly what the test tells it to lose.
//! - [`Peer`]: a process that takes locks for a test, in Rust or in Java. A [`Party`] is one owner in it, at one lock.
//! - [`rights`]: the rights of a user, as `docs/operations.md` lists them.
//! - [`assert_nothing_left`]: the last line of a test.
//! - [`control()`]: runs a test of Redisson alone.
//!
//! Nothing waits for ever: what does not come within [`PATIENCE`] is a panic that names it.

mod busy;
mod clean;
#[cfg(target_os = "linux")]
mod clock;
mod cluster;
mod connect;
mod control;
mod inspect;
mod load;
mod monitor;
mod names;
mod party;
mod peer;
mod proxy;
mod resp;
mod rights;
mod sentinel;
mod server;
mod servers;
mod slots;
mod tls;
mod wait;

/// The independent client, for what [`Inspector`] does not ask.
pub use redis;

pub use busy::EndlessScript;
pub use clean::{
    assert_nothing_left, assert_nothing_left_but, assert_nothing_left_where,
    assert_nothing_left_within,
};
#[cfg(target_os = "linux")]
pub use clock::ServerClock;
pub use cluster::{RedisCluster, RedisClusterBuilder};
pub use control::control;
pub use inspect::{Access, Holder, Inspector, LOOK};
pub use load::{Latency, Load, LoadReport, OwnerReport};
pub use monitor::{Commands, Messages};
pub use names::{
    deadlines_key, latch_channel, lock_channel, member_names, permit_timeouts, queue_key,
    read_hold_key, read_write_channel, semaphore_channel, token_key,
};
pub use party::Party;
pub use peer::{
    Answer, Hello, Lang, Peer, PeerArgs, PeerError, Pending, epoch_micros, java_is_required,
    java_or_skip, peer_or_skip, skip_or_panic,
};
pub use proxy::{Fired, Needle, Proxy};
pub use rights::{called, knows, refused, rights, set_user};
pub use sentinel::{Sentinel, SentinelBuilder};
pub use server::{RedisServer, RedisServerBuilder};
pub use servers::Servers;
pub use slots::slot;
pub use tls::TlsFiles;
pub use wait::{PATIENCE, SOON, eventually, soon, within};
