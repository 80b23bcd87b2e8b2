//! [`MultiRequest`]: the options of an acquisition, equal for all of its locks.

use std::time::Duration;

use crate::{
    config::Settings, error::Error, lock::Lock, locking::request::Bounds, owner::OwnerId,
    wire::WireError,
};

/// How long a caller waits for the release of locks that it acquired in vain. After that the
/// release goes on in the background.
pub(super) const GIVE_BACK: Duration = Duration::from_millis(100);

/// The options of an acquisition of several locks.
#[derive(Clone, Copy, Debug)]
pub(super) struct MultiRequest {
    pub(super) owner: Option<OwnerId>,
    pub(super) lease: Option<Duration>,
    pub(super) bounds: Bounds,
}

/// The settings of the client whose servers may take longest to answer.
pub(super) fn most_patient(locks: &[Lock]) -> Option<&Settings> {
    let settings = locks.iter().filter_map(|lock| Some(&lock.state().ok()?.target.engine.settings));
    settings.max_by_key(|settings| settings.command_timeout)
}

pub(super) fn too_few_answers() -> Error {
    WireError::unanswered("too few servers answered in time").into_error("")
}
