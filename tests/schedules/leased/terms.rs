//! Times, and the names of keys.

use crate::model::Ms;

/// How long the server keeps the id of a request.
pub(super) const KEPT: Ms = 400;
/// How long a copy may be under way.
pub(super) const IN_TIME: Ms = 20;
/// So much sooner than the lease the trust in it ends.
pub(super) const DRIFT: Ms = 2;
/// So much is the clock of Redisson's K ahead.
pub(super) const AHEAD: Ms = 15;

/// The free permits.
pub(super) const NAME: &str = crate::LOCK;
/// The permits that are out.
pub(super) const OUT: &str = "{lock}:timeout";
pub(super) const REQUESTS: &str = "redisson_lock_requests:{lock}";
pub(super) const CHANNEL: &str = "redisson_sc:{lock}";
