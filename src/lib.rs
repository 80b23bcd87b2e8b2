//! Redisson-compatible distributed locks on Redis. Rust services take the same locks as the Java
//! services beside them: keys, hash fields, channels and wake-up messages are Redisson's.
//!
//! ```no_run
//! use redisson_lock::{Client, Config};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::from_url("redis://127.0.0.1:6379")?;
//! let client = Client::connect(config).await?;
//! let lock = client.lock("order:42"); // as redisson.getLock("order:42")
//!
//! let guard = lock.lock().await?; // waits for the lock
//! // Runs the critical section, and stops it if the lock is lost.
//! guard.while_held(async { println!("working") }).await?;
//! // A dropped guard is released as well, in the background.
//! guard.unlock().await?;
//! // Waits for the releases in the background.
//! client.close().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # Terms
//! - **Lock**: a key on the server, usually a hash with a TTL. A field of the hash names the holder.
//! - **Lease**: the time for which the server keeps a lock for its holder. The server counts it as the
//!   TTL of the key. When the TTL expires the lock is free, even if the holder has not noticed.
//! - **Hold**: one grant of a lock to one holder, from the acquisition to the release or the loss. A
//!   [`LockGuard`] stands for a hold.
//! - **Owner**: what a thread is to Redisson. An acquisition [by an `Owner`](Acquire::by) that already
//!   has a hold re-enters that hold. An acquisition without an owner is its own holder, so two of them
//!   exclude each other, even in one task. Task and thread identity plays no role.
//! - **Watchdog**: the background task that renews holds taken without a lease. It extends each of
//!   them to [`Config::watchdog`] (30 s by default) every third of that time, while a guard lives.
//! - **Loss**: the end of a hold that was not released. [`Loss`] lists the reasons.
//! - **Waiter**: an acquisition that waits for a lock. The waiters of one client form a local line.
//! - **Shared hold**: readers of one client have one hold on a read/write lock together. See
//!   [`ReadWriteLock`].
//! - **Hand-off**: an unlock that gives the hold to the next local waiter, without a round trip if neither
//!   has an owner or a token. See
//!   [`Config::reuse_holds`].
//!
//! The server decides who holds a lock. The client decides only when to stop trusting its hold. Every
//! acquisition, re-entry, renewal and release is one Lua script, which the server runs as one step.
//!
//! Dropping a guard or a future undoes its effects on the server. A dropped guard releases its hold. A
//! dropped acquisition gives up its place in line and its subscription, and releases what it acquired.
//!
//! # Kinds of lock
//! | [`Client`] method | re-entry by the same [`Owner`] | order of waiters | wake-up |
//! |---|---|---|---|
//! | [`lock`](Client::lock) | yes | local line; none between processes | message to the first waiter of each process |
//! | [`fair_lock`](Client::fair_lock) | yes | arrival at the server | message to the next waiter |
//! | [`read_write_lock`](Client::read_write_lock), read | yes, also under the owner's own write | none; readers share | message after a write, to all readers |
//! | [`read_write_lock`](Client::read_write_lock), write | yes; an error for an owner that only reads | none; needs a moment without readers | message |
//! | [`fenced_lock`](Client::fenced_lock) | yes, with the outer hold's token | as `lock` | as `lock` |
//! | [`non_reentrant_lock`](Client::non_reentrant_lock) | an error | as `lock` | as `lock` |
//! | [`non_reentrant_fair_lock`](Client::non_reentrant_fair_lock) | an error | as `fair_lock` | as `fair_lock` |
//! | [`spin_lock`](Client::spin_lock) | yes | as `lock` | none: [pauses](SpinBackoff) of 1 to 128 ms |
//! | [`plain_lock`](Client::plain_lock) | an error | as `lock` | message after a release by this crate; pauses of 5 to 100 ms |
//!
//! The error is [`Error::WouldDeadlock`].
//!
//! All kinds but the read/write lock and the plain lock are the same hash on the server. Only one of
//! them is held under one name at a time. An owner that holds it by one kind re-enters it by
//! another, but not as a fenced lock ([`Error::Invalid`]), unless its hold has a token.
//!
//! A plain lock is a string: the lock of clients without Redisson. A lock of another kind never has
//! its name at the same time: acquiring it fails with [`Error::WrongKind`].
//!
//! A read/write lock is a different hash. Do not give it the name of a lock of another kind: acquiring
//! it then fails with [`Error::WrongKind`], and acquiring the other kind waits until the read/write
//! lock is free.
//!
//! Three kinds are no locks: [`semaphore`](Client::semaphore), a counter of permits without holders,
//! [`expirable_semaphore`](Client::expirable_semaphore), whose permits have ids and leases, and
//! [`count_down_latch`](Client::count_down_latch), a count that callers wait for. Observers and metrics
//! do not see them.
//!
//! [`MultiLock::all`] acquires several locks, all or none, without deadlock.
//! [`MultiLock::majority`] (RedLock) acquires one name on most of several independent servers. See
//! [what it gives](MultiLock#what-a-majority-gives-and-what-not). [`Client::segmented`] spreads one name
//! over several locks.
//!
//! What a crash costs the other callers of each kind, where Redisson differs, how waiters wait, and what
//! happens on each failure: [how it works](how_it_works).
//!
//! # Feature flags
//! Only `fred` is on by default. One driver is needed, `fred` or `redis-rs`. `rediss://` URLs need one
//! of the `tls-*` features; without it [`Config::from_url`] refuses such a URL.
//!
//! | feature | gives | needs to build |
//! |---|---|---|
//! | `fred` | the driver over [fred](https://crates.io/crates/fred), the default: see [`Driver`] | |
//! | `redis-rs` | the driver over [redis-rs](https://crates.io/crates/redis), and [`Config::driver`] to choose it; alone with `default-features = false` | |
//! | `tls-rustls` | TLS by rustls with aws-lc-rs | a C compiler |
//! | `tls-rustls-ring` | TLS by rustls with ring | a C compiler |
//! | `tls-native` | TLS by the system's library (OpenSSL on Linux) | on Linux, OpenSSL's headers and `pkg-config` |
//! | `redisson-yaml` | `Config::from_redisson_yaml`: the file of the Java services | |
//! | `blocking` | `blocking`: the same locks for code that is not async | |
//! | `metrics` | `metrics::MetricsObserver`: counters, gauges and histograms by the crate `metrics` | |
//! | `test-util` | `test_util::TestServer`: a Redis in the process, for tests of applications | a C compiler |
//!
//! # Examples
//! | task | example | program in `examples/` |
//! |---|---|---|
//! | acquire, work, release | [`LockGuard::while_held`] | `quickstart.rs` |
//! | wait for a limited time | [`Lock::try_lock`] | `try_lock.rs` |
//! | re-enter a lock | [`Client::owner`] | `reentry.rs` |
//! | react to a loss | [`LockGuard::lost`] | `lost_lock.rs` |
//! | tell operators who holds a lock, and what for | [`Config::announce`], [`LockGuard::note`] | |
//! | give a lock back when another asks for it | [`LockGuard::asked_to_release`] | |
//! | run work that may fail, tell errors apart | [`LockGuard::run`], [`RedisError::kind`] | `work.rs` |
//! | shut down cleanly | [`Client::close`] | `shutdown.rs` |
//! | take several locks | [`MultiLock`](MultiLock#examples) | `multi_lock.rs` |
//! | read and write | [`ReadWriteLock`](ReadWriteLock#examples) | |
//! | refuse stale writers | [`Client::fenced_lock`] | `fencing/`, by `cargo run -p fencing` |
//! | cache a costly value, keep a copy of a row, sell from a stock | | `patterns/`, by `cargo run --release -p patterns -- all` |
//! | limit how many work at a time | [`ExpirableSemaphore`](ExpirableSemaphore#examples), [`Semaphore`](Semaphore#examples) | |
//! | wait for others to be ready | [`Client::count_down_latch`] | |
//! | use TLS | [`Tls`](Tls#examples) | |
//! | lock without async code (feature `blocking`) | `blocking` | `blocking.rs` |
//! | a job that cron starts on several hosts at once | `blocking` | `batch_job/`, by `cargo run -p batch_job 2026-01-31` |
//!
//! `cargo run --example quickstart` in the repository runs the first program. It needs a Redis server
//! on this machine, or its URL in `REDIS_URL`.
//!
//! # What this does not promise
//! - **No lock of this kind keeps a sleeping holder from writing.** Between a look at the guard and the
//!   write, the process may stop for longer than the lease. Where that must not happen, the storage has
//!   to refuse the stale writer, by the [token](FencedGuard::token) of a fenced lock or by a version
//!   column.
//! - **A token is only as durable as its counter.** The counter is a key. If the server evicts or loses
//!   it, tokens start again at 1. After a failover two holders may have
//!   [the same token](FencedGuard::token).
//! - **A server that evicts keys frees locks.** Under `volatile-*` policies locks go first, because
//!   they have a TTL. Set `maxmemory-policy noeviction`. A client that finds `maxmemory` with another
//!   policy warns in the log when it connects. It asks by `INFO memory`, which may be refused.
//! - **A server clock that is set forward frees locks early.** This concerns every kind, because Redis
//!   counts TTLs by the wall clock. A promoted replica whose clock is ahead has the same effect.
//!   Holders are told by their next renewal, or when they ask. Slew clocks; do not step them.
//! - **A failover may lose a lock.** Redis replicates asynchronously. A promoted replica may not have
//!   the last acquisition, and grants the lock again. A [majority](MultiLock::majority) of independent
//!   servers does not depend on one server, but depends more on time.
//! - **A failover may bring a released lock back.** A promoted replica without the last releases still
//!   holds those locks. Behind sentinels and in a cluster, a client repeats its releases on the new
//!   master: those that the old master answered in its last 10 s, up to 16 384. Other releases are not
//!   repeated: earlier ones, Redisson's, and those of a client that has been closed or has died. Such a
//!   lock stays held until its lease ends, or until [`Lock::force_unlock`]. A shorter
//!   [`Config::watchdog`] or lease limits the delay.
//! - **There is no order between processes**, except with fair locks. There is no upper bound on a
//!   wait, except the one you set.
//! - **A monotonic clock may stand still while the machine is suspended**, as on Linux: a laptop that
//!   sleeps, a virtual machine that is paused or moved. After the wake-up a hold may be trusted although
//!   another has the lock. It is told by its next renewal, up to a third of [`Config::watchdog`] later. A
//!   hold with a lease is not renewed: it is told when the lease has passed on that clock.
//!   [`LockGuard::check`] asks the server. Only a storage that compares tokens refuses all late writes.
//!
//! # Observing
//! An [`Observer`](observer::Observer) is told of waits, grants, hand-offs, releases, losses, renewals and
//! failed releases: see [`Config::observer`]. The feature `metrics` makes metrics of them.
//!
//! # Logging
//! The crate logs through `tracing`:
//! - `error`: a background clean-up panicked; an observer panicked.
//! - `warn`:
//!   - A lock or a permit is lost, and why. A renewal fails.
//!   - In the background: a release or an undo of a lock fails; permits are not returned; a change of a
//!     semaphore or a latch is given up; the close of a client whose last handle was dropped fails.
//!   - A wait is long, or is for a lock that this client holds itself, or for a key without a TTL. A
//!     waiter is not polled, and others are let past it.
//!   - A server does not answer, cannot be connected to, takes no writes or may evict locks. A
//!     connection is lost. Nobody says which servers serve the locks. Servers of another deployment
//!     answer. Replicas could not be asked.
//!   - Messages were missed. Waiters poll because they cannot subscribe.
//!   - The client may not [announce](Config::announce) itself. A question to a holder may not be read.
//! - `info`: a connection is back; a client with [`lazy_connect`](Config::lazy_connect) is connected;
//!   subscriptions are renewed after a gap; other servers serve the locks; releases are repeated on a
//!   new master; fields of Redisson's YAML have no use here.
//! - `debug`: a script is sent because the server did not know it; a connection cannot be made yet;
//!   connections have no name; announcements cannot be written or read; questions to a holder are not
//!   read yet.
//!
//! Two spans are open at `DEBUG`, with the fields `lock`, `kind` and `holder`: `acquire` while an
//! acquisition is under way, with its `outcome`, and `hold` from the grant to the release, with its
//! `end`. The warning of a loss is inside its `hold` span. Without a subscriber for `DEBUG` they cost
//! one atomic load each.
//!
//! Log lines name locks and holders, and contain no password. The driver fred logs through the `log`
//! crate, with targets that begin with `fred`. Most programs can turn these off (`fred=off`). If any
//! crate of the program enables fred's feature `network-logs`, fred logs everything that is sent,
//! passwords included. The driver redis-rs logs nothing.

// docs.rs says which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
// Without a driver there is one error, and nothing beside it.
#![cfg_attr(not(any(feature = "fred", feature = "redis-rs")), allow(warnings))]

#[cfg(not(any(feature = "fred", feature = "redis-rs")))]
compile_error!(
    "redisson-lock needs a driver: enable the feature `fred` (the default) or `redis-rs`"
);

#[macro_use]
mod logging;

mod acquire;
mod backoff;
#[cfg(feature = "blocking")]
pub mod blocking;
mod broken;
mod client;
mod config;
mod counters;
mod counting;
mod determinism;
#[cfg(doctest)]
mod doctests;
mod engine;
mod error;
mod fenced_guard;
mod guard;
pub mod how_it_works;
#[cfg(any(test, feature = "test-util"))]
mod in_process;
mod inspection;
mod lock;
mod locking;
#[cfg(feature = "metrics")]
pub mod metrics;
mod multi;
mod names;
pub mod observer;
mod options;
mod owner;
mod permit_id;
mod protocol;
mod read_write;
mod redis_error;
mod run;
mod runtime;
mod segmented;
#[cfg(feature = "_servers")]
#[doc(hidden)]
pub mod servers;
#[cfg(test)]
mod sim;
mod sometimes;
#[cfg(feature = "test-util")]
pub mod test_util;
mod warnings;
mod wire;

pub use crate::{
    acquire::{Acquire, TryAcquire},
    client::Client,
    config::Config,
    counters::{
        expirable::{AcquireExpirable, ExpirablePermit, ExpirableSemaphore, TryAcquireExpirable},
        latch::CountDownLatch,
        permit::Permit,
        semaphore::{AcquirePermits, Semaphore, TryAcquirePermits},
    },
    error::{Error, Loss},
    fenced_guard::{FencedGuard, FencingToken},
    guard::{LockGuard, SingleGuard},
    inspection::{
        Access, Announced, ExpirableInspection, Holder, Inspection, PermitOut, Remaining, Waiter,
    },
    lock::{Asked, FencedLock, Lock},
    multi::{AcquireMulti, MultiGuard, MultiLock, TryAcquireMulti},
    options::{Driver, Replicas, ShardedPubsub, SpinBackoff},
    owner::Owner,
    permit_id::PermitId,
    read_write::ReadWriteLock,
    redis_error::{RedisError, RedisErrorKind},
    run::{Guard, RunError},
    segmented::{AcquireAny, AnySegment, SegmentGuard, SegmentedLock, TryAcquireAny},
    wire::Tls,
};
