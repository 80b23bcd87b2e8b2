//! [`Guard`]: a guard of any kind.

use crate::{Error, LockGuard, Loss, MultiGuard, guard::FencedGuard};

/// A guard of any kind.
pub(super) enum Guard {
    One(LockGuard),
    Fenced(FencedGuard),
    Several(MultiGuard),
}

impl Guard {
    pub(super) async fn unlock(self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.unlock().await,
            Self::Fenced(guard) => guard.unlock().await,
            Self::Several(guard) => guard.unlock().await,
        }
    }

    pub(super) async fn lost(&self) -> Loss {
        match self {
            Self::One(guard) => guard.lost().await,
            Self::Fenced(guard) => guard.lost().await,
            Self::Several(guard) => guard.lost().await,
        }
    }

    pub(super) async fn check(&self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.check().await,
            Self::Fenced(guard) => guard.check().await,
            Self::Several(guard) => guard.check().await,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        match self {
            Self::One(guard) => guard.is_held(),
            Self::Fenced(guard) => guard.is_held(),
            Self::Several(guard) => guard.is_held(),
        }
    }

    pub(super) fn token(&self) -> Option<u64> {
        match self {
            Self::Fenced(guard) => Some(guard.token().value()),
            _ => None,
        }
    }
}
