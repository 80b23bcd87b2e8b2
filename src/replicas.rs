//! How many replicas have to confirm a hold.

use serde::{Deserialize, Serialize};

/// How many replicas must have a hold before it is granted.
///
/// Redis replicates behind the caller's back: after a failover the new master may not know a lock that
/// the old one had just granted. To ask replicas for confirmation (`WAIT`) makes that less likely,
/// not impossible: the replica that is promoted may be another one, or the confirmed hold may be released and
/// granted to the next, who is then not confirmed yet. Where it must not happen, see
/// [`fenced_lock`](crate::Client::fenced_lock).
///
/// Acquisitions and re-entries are confirmed; renewals and releases are not.
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
