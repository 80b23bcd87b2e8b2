//! The same locks for code that is not async: calls block the calling thread.
//!
//! ```no_run
//! use redisson_lock::{Config, blocking::Client};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(Config::from_url("redis://127.0.0.1:6379")?)?;
//! let lock = client.lock("order:42");
//!
//! let guard = lock.lock().run()?; // waits; the watchdog renews while the guard lives
//! let again = lock.lock().run()?; // the same thread re-enters, as in Java
//! again.unlock()?;
//! guard.unlock()?;
//! client.close()?; // waits for the releases of dropped guards
//! # Ok(())
//! # }
//! ```
//!
//! The words are those of the async API. Where that awaits, this calls: the builders of an
//! acquisition end with `run()`.
//!
//! # The owner is the thread
//! The calling OS thread is the owner of what it acquires, as in Java. A thread that holds a lock
//! re-enters it, and other threads wait. There is no [`Owner`](crate::Owner) to pass.
//!
//! Guards are therefore not `Send`:
//!
//! ```compile_fail,E0277
//! # fn f(lock: redisson_lock::blocking::Lock) -> Result<(), redisson_lock::Error> {
//! let guard = lock.lock().run()?;
//! std::thread::spawn(move || guard.unlock()); // error: another thread is another owner
//! # Ok(())
//! # }
//! ```
//!
//! They are `Sync`: other threads may ask `guard.is_held()`.
//!
//! # The background thread
//! Each client has one thread, named `redisson-lock`. It serves the connections, renews holds and
//! sends the releases of dropped guards, also while no call is under way. A hold without a lease
//! lasts while its guard lives, however long its thread sleeps or computes.
//!
//! The thread ends after the last client, lock and guard is dropped. It first sends what is queued,
//! for [`Config::retry_timeout`](crate::Config::retry_timeout) at most. Dropping never blocks. A
//! program that ends does not wait for this thread: see [`Client::close`].
//!
//! # Async code
//! A call that would block a thread of a tokio runtime which is running async code fails with
//! [`Error::InAsyncCode`](crate::Error::InAsyncCode), and sends nothing. That concerns the body of
//! `#[tokio::main]` and of `Runtime::block_on`, and every task. Use [`Client`](crate::Client)
//! there.
//!
//! Within `tokio::task::spawn_blocking` and `tokio::task::block_in_place` calls work. After
//! `block_in_place`, do not keep a guard over an `.await`: other async code may run on the thread
//! meanwhile, and would re-enter the lock.
//!
//! Guards, locks and clients may be dropped anywhere.

mod acquire;
mod background;
mod client;
mod guard;
mod lock;
mod multi;
mod park;
mod read_write;

pub use self::{
    acquire::{Acquire, TryAcquire},
    client::Client,
    guard::{FencedGuard, Guard, LockGuard},
    lock::{FencedLock, Lock},
    multi::{MultiAcquire, MultiGuard, MultiLock, MultiTryAcquire},
    read_write::ReadWriteLock,
};
