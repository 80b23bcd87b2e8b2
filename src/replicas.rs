//! How many replicas have to confirm a hold.

use serde::{Deserialize, Serialize};

/// How many replicas must have a hold before it is granted.
///
/// Redis replicates behind the caller's back: after a failover the new master may not know a lock that
/// the old one had just granted. To ask replicas for confirmation (`WAIT`) makes that less likely,
/// not impossible:
/// - The replica that is promoted may not be one of those that confirmed. With [`All`](Self::All) it is one that
///   was not connected to the master at that moment.
/// - After a failover the new master may have no replica for a while, and one that is cut off, or came back
///   empty, believes to be master and has none: `All` are none then. `AtLeast(1)` is refused there.
/// - Acquisitions and re-entries are confirmed, renewals are not: a promoted replica that missed one frees the lock when
///   the renewal before ends, unless the holder can renew it there in time.
///
/// A hold that is passed on to the next caller of the process as it is ([`Config::pass_on`](crate::Config::pass_on))
/// was confirmed when the first one got it.
///
/// A release that the new master missed keeps the lock until its lease ends; nobody has it then. Where two
/// holders must not write, the storage has to refuse one of them by its
/// [token](crate::FencedGuard::token). After a failover two may have the same token: the storage tells them
/// apart by who holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replicas {
    /// None: the master's word is enough.
    #[default]
    None,
    /// So many at least.
    AtLeast(u32),
    /// All that are connected to the master at that moment; there may be none. Redisson asks for
    /// all, and is content with one.
    All,
}

/// What replicas said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Acknowledged {
    pub(crate) by: u32,
    pub(crate) needed: u32,
}

impl Acknowledged {
    pub(crate) fn is_enough(self) -> bool {
        self.by >= self.needed
    }
}
