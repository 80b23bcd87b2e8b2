//! What must never happen, for any kind of lock.

use std::fmt;

/// The ways a lock can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Two clients believe to hold at the same moment.
    TwoHolders,
    /// A client believes to hold what the server does not keep for it, and nobody broke the lock by force.
    Vanished,
    /// The server keeps a hold of somebody who is done with it, and nobody is going to take it away.
    Orphan,
    /// A key that never expires.
    NoTtl,
    /// A script of ours made a hold shorter.
    TtlFell,
    /// The lock, or what keeps one hold of it alive, expires while its holder still trusts it.
    TtlTooShort,
    /// The lock stays for longer than any hold of it lasts.
    TtlTooLong,
    /// A fencing token that is not greater than all before it, or is not the hold's own.
    BadToken,
    /// A script said "yours" of what is not, or "not yours" of what is.
    FalseAnswer,
    /// A copy changed who holds, or how often, after its not-after.
    TooLate,
    /// Everything has been said and answered, and the server counts otherwise than the holder.
    WrongCount,
    /// A client was told that it had lost what it had not lost.
    FalseAlarm,
    /// Somebody took the lock before a waiter who stood there earlier.
    OutOfOrder,
    /// A waiter who was alive lost its place.
    Evicted,
    /// The queue and the deadlines name different waiters.
    QueueTorn,
    /// A script moved somebody's deadline by other than what it should.
    WrongDeadline,
    /// A waiter of Redisson's was told to wait for less than no time, which is for ever to it.
    NegativeWait,
    /// The lock was freed, or opened to readers, and whoever waits for that was not told.
    NotWoken,
    /// All who wait sleep for ever.
    Stuck,
    /// A waiter who is not there any more holds up the others for too long.
    DeadAtHead,
    /// A client was told "released" of a hold that had been lost before it asked.
    FalseRelease,
    /// A request of ours counted more than once, or after it was undone.
    CountedTwice,
    /// A script of ours changed the TTL of a counter.
    TtlChanged,
    /// A message that Redisson would not understand, or that is not true.
    BadMessage,
}

/// One failure, in words.
#[derive(Debug, Clone)]
pub(crate) struct Violation {
    pub(crate) kind: Kind,
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.what)
    }
}
