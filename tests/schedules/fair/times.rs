//! The times of a schedule. One virtual millisecond stands for 100 real ones.

use crate::model::Ms;

/// How long a waiter of ours keeps its place unseen, and how often it shows itself.
pub(super) const WAIT: Ms = 100;
pub(super) const HEARTBEAT: Ms = 30;
/// How far a Java clock may be wrong.
pub(super) const SKEW: i64 = 50;
/// How long the copies of an attempt count.
pub(super) const ATTEMPT: Ms = 60;

/// The first is over before anybody looks by himself.
pub(super) const LEASES: [Ms; 4] = [20, 60, 150, 400];
