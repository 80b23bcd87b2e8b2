//! What a crash costs, where Redisson differs, how waiters wait, and what happens on each failure.
//!
//! # The states of a hold
//! ```text
//! (nothing) --acquire--> held --unlock, drop--> (nothing)
//!                        |  ^
//!                        |  `--renewal confirmed: trusted for longer
//!                        `--trust over, key gone, client closed--> lost
//! ```
//! A renewal without an answer changes nothing. It is retried until the trust window ends. A lost hold
//! stays lost: a new acquisition makes a new hold.
//!
//! # The trust window
//! A hold is trusted until *(the moment the last confirmed request was **sent**) + lease − (1 % of the
//! lease + 2 ms)*, on the monotonic clock. The server starts counting the TTL later than that moment.
//! Trust therefore ends before the key does: by 302 ms or more with the default watchdog of 30 s. (A
//! server clock that is [set forward](crate#what-this-does-not-promise) ends keys early.)
//!
//! When trust ends, [`LockGuard::lost`] completes, and [`LockGuard::while_held`] and
//! [`LockGuard::run`] stop the work.
//!
//! The watchdog renews holds without a lease, in batches of up to 100. It never prolongs a hold with a
//! lease. A re-entry with a longer lease does. So does a [`MultiLock`], whose lease counts from its
//! last lock.
//!
//! # Waiting
//! A waiter asks the server, subscribes to the lock's channel, and asks again. Then it waits for a
//! message, the end of the TTL, or its deadline, whichever comes first.
//!
//! The waiters of one client for one lock form a local line, first come, first served. Only the first
//! of them asks the server. A newcomer asks at once if the line is empty. Two kinds differ: with a
//! fair lock every waiter stands in the server's line, and readers that waited for a writer get in
//! together.
//!
//! No waiter relies on messages alone for more than 3 s. After a gap in the messages every waiter asks
//! the server itself.
//!
//! # What happens on failure
//! | failure | consequence |
//! |---|---|
//! | A reply is lost. | The request is sent again with the same holder id, and counts once. |
//! | A request arrives late. | After its not-after time (server clock) it does nothing. If it took effect before, it is undone. |
//! | One of several locks cannot be acquired. | Those already acquired are released before the answer, or in the background. |
//! | A future is dropped. | What it acquired, or may still acquire, is released in the background. |
//! | A message is lost, or the connection for messages breaks. | Waiters ask the server themselves, within 3 s. |
//! | The server does not answer. | Holders are told when trust ends. Acquisitions and releases fail with [`Error::Redis`] after [`Config::retry_timeout`]. A `try_lock` without a wait and queries fail after [`Config::command_timeout`]. |
//! | The server refuses for a while: it loads, fails over, is full (`OOM`) or cannot save (`MISCONF`). | Calls wait as for a server that does not answer. [`Error::Redis`] lists these errors. |
//! | The server refuses for good: missing right, wrong credentials. | The caller gets the error at once. A client that is connected again and again fails to log in has no connection: its calls fail when their time is over. |
//! | A release, a renewal or an undo is refused. | It is retried in the background, at least every 2 s, until the lease ends. |
//! | The server restarts empty. | Holders are told [`Loss::Removed`] by the next renewal. A hold with a lease learns of it when it asks, or when its lease ends. |
//! | The server evicts a lock's key, or its clock is set forward. | As when it restarts empty. Until the holder is told, another may hold the lock. |
//! | Scripts are flushed. | They are sent again. |
//! | This process is killed. | Its locks end with their TTL. |
//! | This process is stopped past its lease, and the machine runs on. | It is told when it runs again. Writes before it looks are not protected. |
//! | The machine is suspended past the lease, or its hypervisor stops it and its clock. | [The monotonic clock may have stood still](crate#what-this-does-not-promise). A hold is told by its first renewal after the wake-up: up to a third of [`Config::watchdog`] later. A hold with a lease is told when it asks the server, or when the lease has passed on that clock. Writes until then are not protected. |
//!
//! # What a crash costs the other callers
//! - **All locks but fair and read/write locks**: the rest of the holder's lease.
//! - **Fair locks**: the rest of the holder's lease. The dead waiters of one process cost
//!   [`Config::fair_wait`] (10 s by default, about 13 s at most) once, however many they were. A waiter of
//!   Redisson does not see that they are dead. If no client of this crate asks for the lock or releases
//!   it, it also waits [`Config::redisson_fair_wait`] (300 s by default) for each of Redisson's waiters
//!   that stood before them, even if that one had left long before.
//! - **Read**: the rest of the reader's own lease, whatever other readers do. Readers of a Redisson
//!   before 3.44, which has no package `org.redisson.renewal`, are an exception: their renewals keep a
//!   dead reader's key alive, too.
//! - **Write**: the rest of the writer's lease, or of a read under that write if it is longer.
//!
//! # Where Redisson differs
//! These differences concern holds and waiters of Redisson. Exclusion depends on none of them but
//! those of **Read**.
//! - **`lock`**: a re-entry or a partial release may shorten the TTL.
//! - **`fair_lock`**: deadlines use the clocks of the clients. A dead or interrupted waiter stays in
//!   line for 5 min by default.
//! - **Read**: a renewal sets the TTL that all readers share, and may shorten it. A `MultiLock` or
//!   RedLock with a lease that contains a read side sets it to that lease. This crate's next renewal
//!   raises it again. If the TTL ends before, a writer gets the lock beside the readers. A third of
//!   [`Config::watchdog`] must therefore be well below the `lockWatchdogTimeout` of the Redisson clients,
//!   and below the shortest such lease. Releasing a re-entry also drops the re-entry's lease; here the
//!   hold keeps the longest lease until it ends.
//! - **Write**: a re-entry adds a whole lease to the TTL. A reader that asks to write waits for ever.
//!   Going from writing to reading wakes no waiting reader. A writer that is about to sleep can miss
//!   the message, and then waits for the TTL.
//! - **`fenced_lock`**: a re-entry gets a new token. `lockAndGetToken(lease)` ignores the lease.
//! - **`non_reentrant_lock`**: other failures may be reported as a re-entry.
//! - **`spin_lock`**: every waiting thread polls, not only the first of a process. A release wakes no
//!   waiter of the reentrant lock of this name.
//!
//! # Fair locks and clocks
//! A fair lock's line uses the server's clock. Exclusion does not depend on that clock, but the order
//! does:
//! - If it is set forward by more than [`Config::fair_wait`], or back by more than twice that, all
//!   waiters of this crate lose their places at once. They stand in line again within 3 s, in a new
//!   order.
//! - If it is set forward beyond the deadlines of Redisson's waiters, they lose their places too, and get
//!   no message of it. They sleep until the TTL that they were last told has passed.
//! - A Redisson client whose clock is ahead by more than half of [`Config::fair_wait`] may drop this
//!   crate's waiters from the line. They stand in line again, at its end.
//! - A Redisson client whose clock is behind by more than its own `fairLockWaitTimeout` loses its own
//!   place.
//!
//! [`Config::redisson_fair_wait`] must be at least the longest `fairLockWaitTimeout` of the Redisson
//! clients, and at least the longest wait of their fair `tryLock(wait)`. Such a wait takes the place of
//! `fairLockWaitTimeout`.
//!
//! A Redisson `MultiLock` with a lease gives the line a TTL. A waiter of this crate raises it when it
//! asks, every 3/10 of [`Config::fair_wait`], or every 3 s if that is less. Where only waiters of Redisson stand, or with a shorter
//! lease, the line vanishes when that TTL ends. So does one in which no waiter of this crate has asked
//! for 5 000 times [`Config::redisson_fair_wait`] (17 days by default): as those who all have died.
//!
//! # Read holds with a lease
//! Each request for a read hold asks at most for the rest of its lease. Its remaining time is sent
//! again every third of [`Config::watchdog`], because a Redisson client may have shortened the TTL. The
//! server counts that time from when it runs the request. If another's
//! script (`BUSY`) or `CLIENT PAUSE` delays that, it keeps the hold for so much longer. The holder
//! is told of the end in time.
//!
//! [`Config::command_timeout`]: crate::Config::command_timeout
//! [`Config::fair_wait`]: crate::Config::fair_wait
//! [`Config::redisson_fair_wait`]: crate::Config::redisson_fair_wait
//! [`Config::retry_timeout`]: crate::Config::retry_timeout
//! [`Config::watchdog`]: crate::Config::watchdog
//! [`Error::Redis`]: crate::Error::Redis
//! [`LockGuard::lost`]: crate::LockGuard::lost
//! [`LockGuard::run`]: crate::LockGuard::run
//! [`LockGuard::while_held`]: crate::LockGuard::while_held
//! [`Loss::Removed`]: crate::Loss::Removed
//! [`MultiLock`]: crate::MultiLock
