//! Redisson-compatible distributed locks on Redis: Rust services take the same locks as the Java
//! services beside them. Same keys, same fields, same channels, same wake-ups.
//!
//! ```no_run
//! use redisson_lock::{Client, Config};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Config::from_url("redis://127.0.0.1:6379")?).await?;
//! let lock = client.lock("order:42"); // in Java: redisson.getLock("order:42")
//!
//! let guard = lock.lock().await?; // waits; renewed while the guard lives
//! guard.while_held(async { /* the critical section */ }).await?; // stops when the lock is lost
//! guard.unlock().await?; // or drop it: then the release is sent in the background
//! client.close().await?; // waits for releases in the background: a `main` that ends does not
//! # Ok(())
//! # }
//! ```
//!
//! # Who decides what
//! **The server decides who holds a lock. The client only decides when to stop trusting that it
//! does.** A lock is a hash with a TTL, and its field names the holder. When the TTL expires the lock is
//! free, even if the client has not noticed. Taking, re-entering, renewing and releasing are scripts that
//! run on the server as one step each.
//!
//! **Who holds is a value.** An acquisition without an owner is its own holder, so two futures of
//! one task exclude each other, as with tokio's `Mutex`. An [`Owner`] is what a thread is to
//! Redisson's `RLock`: whoever passes the same one by [`.by(&mut owner)`](Acquire::by) takes the
//! lock once more. Task and thread identity plays no role.
//!
//! **Every effect on the server belongs to one value, and dropping that value undoes it**: a hold
//! ([`LockGuard`]), a place in line and a subscription (the future of [`Lock::lock`]), a renewal
//! (the guard again).
//!
//! # Kinds of lock
//! | [`Client`] method | re-entry by the same [`Owner`] | order of waiters | woken by | what a crash costs the others | what Redisson does otherwise |
//! |---|---|---|---|---|---|
//! | [`lock`](Client::lock) | yes | none between processes | a message; each process wakes its first waiter | the lease of the hold (30 s with the watchdog) | re-entry and partial release may shorten the TTL |
//! | [`fair_lock`](Client::fair_lock) | yes | arrival at the server | a message to the next in line alone | a holder: its lease; the waiters of a process: [`Config::fair_wait`] (10 s, at most 13), once for all of them | goes by its clients' clocks; a dead waiter costs 5 min; one that is interrupted stays in line for so long |
//! | [`read_write_lock`](Client::read_write_lock), read | yes; also under the owner's own write | none; readers share | a message after a write; all go at once | its own lease, whatever other readers do | its renewals shorten the TTL that all readers share (ours raise it again); a re-entry that is given back takes its lease with it, where ours keeps the longest one until the hold ends: re-entries share one key, for a key of each would be cut off by a late copy of another one's release |
//! | the same, write | yes; [`Error::WouldDeadlock`] for an owner that reads | none: it waits for a moment without readers | a message | its lease, or that of a read under it if longer | re-entry adds a whole lease to the TTL; a reader that asks to write waits for ever; going over to reading tells no waiting reader; a writer about to fall asleep misses the message and waits for the TTL |
//! | [`fenced_lock`](Client::fenced_lock) | yes, with the token of the outer hold | none | as `lock` | as `lock` | a re-entry gets a new token; `lockAndGetToken(lease)` ignores its lease |
//! | [`non_reentrant_lock`](Client::non_reentrant_lock) | [`Error::WouldDeadlock`] | none | as `lock` | as `lock` | other failures may be reported as a re-entry |
//! | [`non_reentrant_fair_lock`](Client::non_reentrant_fair_lock) | [`Error::WouldDeadlock`] | as `fair_lock` | as `fair_lock` | as `fair_lock` | as `fair_lock` |
//! | [`spin_lock`](Client::spin_lock) | yes | none between processes | nobody: pauses of 1 to 128 ms, or as [you say](SpinBackoff) | as `lock` | every waiting thread asks, not only the first of a process; a release wakes no waiters of the plain lock |
//!
//! All but the read/write lock are the same hash on the server: of one name only one of them is held at a
//! time, by whichever kind it was taken, and an owner that holds it by one kind re-enters by
//! another. A read/write lock is another hash: do not give it the name of a lock of another kind. (Acquiring it
//! fails with [`Error::WrongKind`] then; the others wait until it is free.)
//!
//! **Several locks as one.** [`MultiLock::all`] takes locks of any kind, client and server, all or none, and no two callers
//! wait for each other, however they name them. [`MultiLock::majority`] takes one name on several independent servers, and
//! outlives the loss of a minority of them (Redis calls that RedLock). What that gives and what it does not stands
//! [with it](MultiLock#what-a-majority-gives-and-what-not).
//!
//! **Fair locks and clocks.** The line goes by the server's clock. One that is set forward by more than
//! [`Config::fair_wait`], or back by more than twice that, puts all our waiters out of line at once: they stand
//! in line again as they look, within 3 s, and their order is lost. Redisson's peers bring their own: one
//! whose clock is ahead by more than half of [`Config::fair_wait`] may put our waiters out of line (they
//! stand in line again, at its end); one whose clock is behind by more than its own
//! `fairLockWaitTimeout` is put out itself. Exclusion does not depend on it. [`Config::redisson_fair_wait`]
//! must be no shorter than the longest wait the Redisson peers use.
//!
//! **Read/write locks and mixed leases.** A read hold with a fixed lease is looked after as well: every third
//! of [`Config::watchdog`] its remaining time is told to the server again, for a renewal of a Redisson
//! reader may have cut it short.
//!
//! # The states of a hold
//! ```text
//! (nothing) --acquire--> held --unlock, drop--> (nothing)
//!                        |  ^
//!                        |  `--renewal confirmed: trusted for longer
//!                        `--trust over, key gone, client closed--> lost
//! ```
//! A renewal without an answer changes nothing: it is tried again until trust is over. What is lost
//! stays lost: a new acquisition is a new hold. See [`Loss`] for the reasons.
//!
//! # The trust window
//! A hold is trusted until *(the moment the last confirmed request was **sent**) + lease − (1 % of the
//! lease + 2 ms)*, on the monotonic clock. The server counted its TTL from a later moment, so
//! trust ends before the key does, by 302 ms or more for the 30 s of the default watchdog. (Redis counts a
//! TTL by the wall clock of its machine: [set forward](#what-this-does-not-promise), it ends keys early.)
//! [`LockGuard::lost`] tells at that moment at the latest; [`LockGuard::while_held`] stops the work.
//!
//! A lock taken without a lease is leased for [`Config::watchdog`] and renewed every third of it, in
//! batches of up to 100 locks, while its guard lives. A lock taken with a lease is never renewed.
//!
//! # Waiting
//! Check, subscribe, check again, then wait for a message, the TTL or the deadline, whichever is
//! first. Within one process and lock, waiters stand in one line, first come, first served, and
//! only its head asks the server (a newcomer asks once where nobody waits yet). Between processes there
//! is no order, as with Redisson's `RLock`, but for fair locks: there every waiter stands in the
//! server's line. Readers that waited for a writer get in together.
//! No waiter relies on messages for more than 3 s at a time, and after every gap in them
//! everyone looks for himself.
//!
//! # What happens on failure
//! | failure | what follows |
//! |---|---|
//! | a reply is lost | the request is sent again under the same holder id, and counts once |
//! | a request lands long after we moved on | past its not-after (Redis's own clock) it does nothing; before that, it is undone |
//! | some of several locks are taken, and one cannot be | they are given back before the answer, or in the background |
//! | a future is dropped | what it had acquired, or may yet acquire, is released in the background |
//! | a message is lost, the subscriber connection breaks | waiters look by themselves, within 3 s |
//! | the server does not answer | holders are told when trust is over; acquisitions and releases end with [`Error::Redis`] after [`Config::retry_timeout`], questions after [`Config::command_timeout`] |
//! | the server refuses for a while: it loads, fails over, is full (`OOM`) or cannot save (`MISCONF`) | calls wait for it as for one that does not answer; [`Error::Redis`] names all that is waited for |
//! | the server refuses for good: a right is missing, credentials are wrong | the caller is told at once |
//! | a release, a renewal, or the undoing of an acquisition is refused, for whatever reason | it is repeated in the background, at least every 2 s, until the lease is over |
//! | the server restarts empty | holders are told by their next renewal: [`Loss::Removed`]; without the watchdog, when they ask or their lease ends |
//! | the server evicts a lock's key for want of memory, or its clock is set forward | as when it restarts empty; until the holder is told, another may hold the lock |
//! | scripts are flushed | they are sent anew |
//! | this process is killed | its locks end with their TTL: the watchdog time, or the lease |
//! | this process sleeps past its lease | it is told when it wakes; what it writes before it looks is not protected |
//!
//! # What this does not promise
//! - **No lock of this kind keeps a sleeping holder from writing.** Between the last look at the
//!   guard and the write, the process may stop for longer than the lease. Where that must not
//!   happen, the storage has to refuse the stale writer: by the [token](FencedGuard::token) of a fenced
//!   lock (`examples/fencing`), or a version column.
//! - **A token is no better than the server that counts.** Its counter is a key like others: a server that
//!   evicts it, or comes back without it, begins anew at 1, and after a failover two holders may have
//!   [the same token](FencedGuard::token).
//! - **A server that evicts keys frees locks**: under `volatile-*` policies they are the first to go, for they
//!   have a TTL. Set `maxmemory-policy noeviction`; a client that finds another one, and is allowed to ask
//!   (`INFO memory`), says so to the log when it connects.
//! - **A server's clock that is set forward frees locks early**, of every kind: TTLs go by wall clock. So
//!   does a promoted replica whose clock is ahead. Holders are told by their next renewal, or when they ask.
//!   Let clocks be slewed, not stepped.
//! - **A failover may lose a lock.** Redis replicates asynchronously: a promoted replica may not
//!   know of the last acquisition, and grants it again. A [majority](MultiLock::majority) of
//!   independent servers does not depend on one, but on time all the more.
//! - **A failover may bring a released lock back.** A promoted replica that has not heard of the last
//!   releases holds those locks still. Behind sentinels and in a cluster a client sends the new master once more
//!   what it released on the old one: all of its last 10 s there, up to 16 384 of them. An earlier release, one of a
//!   client that has been closed or has died since, and one of Redisson's are not repeated: everybody
//!   waits for what is left of that lease ([`Lock::force_unlock`] ends it). A shorter [`Config::watchdog`] or
//!   lease shortens it.
//! - **No order between processes** but by fair locks, and no upper bound on a wait but the one you set.
//! - **A suspended machine's monotonic clock may stand still** (Linux does not count suspend): after
//!   a suspend, trust may be counted too long, until the next renewal.
//!
//! # Logging
//! By `tracing`. `warn`: a lock lost and why; a renewal that fails; a dropped guard whose release
//! failed; a wait that is long, or for a lock this client itself holds; waiters that poll because they
//! cannot subscribe; messages that were missed; a server that does not answer; a connection that is lost; a
//! server that may evict locks. `info`: a connection that is back; subscriptions renewed after a gap;
//! releases that a new master had not heard of.
//!
//! Lines name locks and holders. No line has a password in it. fred writes to the `log` crate, under targets
//! that begin with `fred`; most programs can do without (`fred=off`). Its feature `network-logs`, turned on
//! by whatever part of a program, writes all that is sent, passwords included.

mod acquire;
mod client;
mod config;
mod engine;
mod error;
mod guard;
mod inspection;
mod lock;
mod locking;
mod multi;
mod names;
mod options;
mod owner;
mod protocol;
mod read_write;
mod replicas;
mod runtime;
#[cfg(test)]
mod sim;
mod wire;

/// Its pieces of code compile, or do not, as it says.
#[cfg(doctest)]
#[doc = include_str!("must_use.md")]
struct MustUse;

/// Its pieces of code compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub use crate::{
    acquire::{Acquire, TryAcquire},
    client::Client,
    config::Config,
    error::{Error, Loss, RedisError},
    guard::{FencedGuard, FencingToken, Guard, LockGuard},
    inspection::{Access, Holder, Inspection, Remaining, Waiter},
    lock::{FencedLock, Lock},
    multi::{MultiAcquire, MultiGuard, MultiLock, MultiTryAcquire},
    options::SpinBackoff,
    owner::Owner,
    read_write::ReadWriteLock,
    replicas::Replicas,
    wire::{ShardedPubsub, Tls},
};
