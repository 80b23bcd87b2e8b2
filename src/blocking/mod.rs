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
//! In a pool whose threads run other jobs while a job waits, as rayon's in `join` and `par_iter`, two jobs may be inside:
//! the second re-enters on the same thread. Hold no guard over such a call, or use
//! [`non_reentrant_lock`](Client::non_reentrant_lock), which reports it.
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
//! Each client has one thread, named `redisson-lock`. While it connects to a host name, or with a
//! [password file](crate::Config::password_file), it has another one for some seconds, which looks
//! up the address or reads the file. The thread serves the connections, renews holds and sends the
//! releases of dropped guards, also while no call is under way. A hold without a lease lasts while
//! its guard lives, however long its thread sleeps or computes.
//!
//! A thread that drops its last guard of a lock and takes the lock again waits for the release. Its
//! next hold is a new one, and comes behind those that are in line.
//!
//! The background thread ends after the last client, lock and guard is dropped. It first sends what
//! is queued, for [`Config::retry_timeout`](crate::Config::retry_timeout) at most. Dropping never
//! blocks. A program that ends does not wait for this thread: see [`Client::close`].
//!
//! The child of a `fork` does not have this thread, and its calls never return: connect after a fork.
//!
//! # Async code
//! A call that would block a thread of a tokio runtime which is running async code fails with
//! [`Error::InAsyncCode`](crate::Error::InAsyncCode), and sends nothing. That concerns the body of
//! `#[tokio::main]` and of `Runtime::block_on`, and every task. Use [`Client`](crate::Client)
//! there.
//!
//! Two sorts of async code are not recognised: what is polled within `tokio::task::unconstrained`,
//! and code after a `block_in_place` until its next `.await`. A call there blocks the thread. If the
//! holder of the lock is a task of the same thread, the call may never return.
//!
//! Within `tokio::task::spawn_blocking` and `tokio::task::block_in_place` calls work. After
//! `block_in_place`, do not keep a guard over an `.await`: other async code may run on the thread
//! meanwhile, and would re-enter the lock.
//!
//! Guards, locks and clients may be dropped anywhere.
//!
//! # Thread-local values
//! While a thread ends, it destroys its thread-local values, those of tokio among them. A call in the
//! destructor of a thread-local value may then fail with
//! [`RedisErrorKind::RuntimeEnded`](crate::RedisErrorKind::RuntimeEnded), and sends nothing. A guard
//! that was to be unlocked is released in the background. Drop guards there, and do not unlock them.

mod acquire;
mod background;
mod client;
mod expirable;
mod guard;
mod latch;
mod lock;
mod multi;
mod park;
mod read_write;
mod segmented;
mod semaphore;

pub use self::{
    acquire::{Acquire, TryAcquire},
    client::Client,
    expirable::{AcquireExpirable, ExpirablePermit, ExpirableSemaphore, TryAcquireExpirable},
    guard::{FencedGuard, LockGuard, SingleGuard},
    latch::CountDownLatch,
    lock::{FencedLock, Lock},
    multi::{AcquireMulti, MultiGuard, MultiLock, TryAcquireMulti},
    read_write::ReadWriteLock,
    segmented::{AcquireAny, AnySegment, SegmentGuard, SegmentedLock, TryAcquireAny},
    semaphore::{AcquirePermits, Permit, Semaphore, TryAcquirePermits},
};
