//! [`Replicas`]: how many replicas must confirm a hold.

use serde::{Deserialize, Serialize};

/// How many replicas must confirm a hold before it is granted.
///
/// Redis replicates asynchronously. After a failover the new master may not know a lock that the
/// old one had just granted. Confirmation by replicas (`WAIT`) makes that less likely, but not
/// impossible:
/// - The promoted replica may not be one of those that confirmed. With [`All`](Self::All) it is
///   then one that was not connected to the master at that moment.
/// - After a failover the new master may have no replica for a while. A server that is cut off or
///   came back empty may take itself for a master without replicas. There `All` means none, and
///   `AtLeast(1)` is refused.
/// - Acquisitions and re-entries are confirmed, renewals are not. A promoted replica that missed a
///   renewal frees the lock at the end of the lease before, unless the holder renews it there in
///   time.
///
/// A hold that is [handed off](crate::Config::pass_on) was confirmed when it was first granted.
///
/// If the new master missed a release, the lock stays held until its lease ends. That delays
/// others, but does not break exclusion.
///
/// Where two holders must not both write, the storage has to refuse one of them by its
/// [token](crate::FencedGuard::token). After a failover two holders may have the same token. The
/// storage then tells them apart by their holder ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replicas {
    /// The master's answer is enough.
    #[default]
    None,
    /// At least this many.
    AtLeast(u32),
    /// All replicas that are connected to the master at that moment, which may be none. (Redisson
    /// asks all, and accepts one.)
    All,
}

/// The replicas' answer.
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
