//! [`MultiRequest`]: what a caller asks for, of all locks alike.

use std::time::Duration;

use crate::{locking::request::Bounds, owner::OwnerId};

/// How long a caller waits until what was taken in vain is given back. It goes on in the background.
pub(super) const GIVE_BACK: Duration = Duration::from_millis(100);

/// What a caller asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct MultiRequest {
    pub(super) owner: Option<OwnerId>,
    pub(super) lease: Option<Duration>,
    pub(super) bounds: Bounds,
}
