//! The times of a schedule.

use crate::model::Ms;

/// How long after an attempt began its copies still count: longer than some leases, and shorter than others.
pub(super) const ATTEMPT: Ms = 120;
