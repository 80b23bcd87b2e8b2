//! The times of a schedule.

use crate::model::Ms;

/// The lease of a hold without one, renewed every third of it.
pub(super) const WATCHDOG: Ms = 90;
/// How long after an attempt began its copies still count: longer than some leases, and shorter than others.
pub(super) const ATTEMPT: Ms = 120;
