//! The one place that knows how each kind of lock is made and held.

use std::time::Duration;

use redisson_lock::{
    Asked, Client, Error, FencedGuard, FencedLock, Inspection, Lock, LockGuard, Loss, MultiGuard,
    MultiLock, Owner, Remaining, SingleGuard,
};
use serde_json::Value;

use crate::answers::Failure;
use crate::request::{Kind, Op, Request};

/// A lock of any kind.
#[derive(Debug)]
pub(crate) enum AnyLock {
    Single(Lock),
    Fenced(FencedLock),
    Multi(MultiLock),
}

/// What its holder has.
#[derive(Debug)]
pub(crate) enum AnyGuard {
    Single(LockGuard),
    Fenced(FencedGuard),
    Multi(MultiGuard),
}

/// How long to wait for a lock, and how long to keep it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    patience: Patience,
    lease: Option<Duration>,
}

#[derive(Clone, Copy, Debug)]
enum Patience {
    Now,
    Within(Duration),
    Endless,
}

impl AnyLock {
    /// The lock a request means.
    pub(crate) fn of(client: &Client, request: &Request) -> Result<Self, Failure> {
        Self::named(client, request.kind, &request.names()?)
    }

    /// All kinds but those of several locks have one name.
    pub(crate) fn named(client: &Client, kind: Kind, names: &[String]) -> Result<Self, Failure> {
        let name = &names[0];
        let members = || names.iter().map(|name| client.lock(name));
        Ok(match kind {
            Kind::Lock => Self::Single(client.lock(name)),
            Kind::Fair => Self::Single(client.fair_lock(name)),
            Kind::Read => Self::Single(client.read_write_lock(name).read_lock().clone()),
            Kind::Write => Self::Single(client.read_write_lock(name).write_lock().clone()),
            Kind::Fenced => Self::Fenced(client.fenced_lock(name)),
            Kind::NonReentrant => Self::Single(client.non_reentrant_lock(name)),
            Kind::NonReentrantFair => Self::Single(client.non_reentrant_fair_lock(name)),
            Kind::Spin => Self::Single(client.spin_lock(name)),
            Kind::Plain => Self::Single(client.plain_lock(name)),
            Kind::Multi => Self::Multi(MultiLock::all(members())),
            Kind::Majority => Self::Multi(MultiLock::majority(members())),
            Kind::ReadWrite | Kind::None => {
                return Err(Failure::invalid("this kind is for loops"));
            }
            Kind::Semaphore | Kind::ExpirableSemaphore | Kind::Latch => {
                return Err(Failure::invalid("this kind is no lock"));
            }
        })
    }

    /// `None`: it was held for all the time given.
    pub(crate) async fn acquire(
        &self,
        owner: Option<&mut Owner>,
        terms: Terms,
    ) -> Result<Option<AnyGuard>, Error> {
        Ok(match self {
            Self::Single(lock) => take(lock, owner, terms).await?.map(AnyGuard::Single),
            Self::Fenced(lock) => take(lock, owner, terms).await?.map(AnyGuard::Fenced),
            Self::Multi(lock) => take_several(lock, owner, terms).await?.map(AnyGuard::Multi),
        })
    }

    pub(crate) async fn force_unlock(&self) -> Result<bool, Failure> {
        Ok(match self {
            Self::Single(lock) => lock.force_unlock().await?,
            Self::Fenced(lock) => lock.force_unlock().await?,
            Self::Multi(_) => return Err(of_one_lock()),
        })
    }

    pub(crate) async fn is_locked(&self) -> Result<bool, Failure> {
        Ok(match self {
            Self::Single(lock) => lock.is_locked().await?,
            Self::Fenced(lock) => lock.is_locked().await?,
            Self::Multi(_) => return Err(of_one_lock()),
        })
    }

    pub(crate) async fn ttl(&self) -> Result<Remaining, Failure> {
        Ok(match self {
            Self::Single(lock) => lock.ttl().await?,
            Self::Fenced(lock) => lock.ttl().await?,
            Self::Multi(_) => return Err(of_one_lock()),
        })
    }

    pub(crate) async fn inspect(&self) -> Result<Inspection, Failure> {
        Ok(match self {
            Self::Single(lock) => lock.inspect().await?,
            Self::Fenced(lock) => lock.inspect().await?,
            Self::Multi(_) => return Err(of_one_lock()),
        })
    }

    pub(crate) async fn ask_to_release(&self) -> Result<Asked, Failure> {
        Ok(match self {
            Self::Single(lock) => lock.ask_to_release().await?,
            Self::Fenced(lock) => lock.ask_to_release().await?,
            Self::Multi(_) => return Err(of_one_lock()),
        })
    }

    /// The token given out last, or `null`.
    pub(crate) async fn token(&self) -> Result<Value, Failure> {
        match self {
            Self::Single(_) | Self::Multi(_) => {
                Err(Failure::invalid("only a fenced lock has a token"))
            }
            Self::Fenced(lock) => Ok(lock.latest_token().await?.map(|token| token.value()).into()),
        }
    }
}

fn of_one_lock() -> Failure {
    Failure::invalid("this may be asked of one lock, not of several")
}

impl AnyGuard {
    pub(crate) async fn unlock(self) -> Result<(), Error> {
        match self {
            Self::Single(guard) => guard.unlock().await,
            Self::Fenced(guard) => guard.unlock().await,
            Self::Multi(guard) => guard.unlock().await,
        }
    }

    /// That of one lock.
    pub(crate) fn single(&self) -> Option<&LockGuard> {
        match self {
            Self::Single(guard) => Some(guard),
            Self::Fenced(guard) => Some(guard),
            Self::Multi(_) => None,
        }
    }

    /// How a granted acquisition is answered.
    pub(crate) fn answer(&self) -> Value {
        match self {
            Self::Single(_) | Self::Multi(_) => true.into(),
            Self::Fenced(guard) => guard.token().value().into(),
        }
    }

    pub(crate) async fn check(&self) -> Result<(), Error> {
        match self {
            Self::Single(guard) => guard.check().await,
            Self::Fenced(guard) => guard.check().await,
            Self::Multi(guard) => guard.check().await,
        }
    }

    pub(crate) async fn asked_to_release(&self) {
        match self {
            Self::Single(guard) => guard.asked_to_release().await,
            Self::Fenced(guard) => guard.asked_to_release().await,
            Self::Multi(guard) => guard.asked_to_release().await,
        }
    }

    pub(crate) async fn lost(&self) -> Loss {
        match self {
            Self::Single(guard) => guard.lost().await,
            Self::Fenced(guard) => guard.lost().await,
            Self::Multi(guard) => guard.lost().await,
        }
    }
}

impl Terms {
    /// Without a wait it is endless.
    pub(crate) fn new(wait: Option<Duration>, lease: Option<Duration>) -> Self {
        let patience = match wait {
            None => Patience::Endless,
            Some(Duration::ZERO) => Patience::Now,
            Some(wait) => Patience::Within(wait),
        };
        Self { patience, lease }
    }

    pub(crate) fn of(request: &Request) -> Self {
        let patience = match (request.op, request.wait()) {
            (Op::TryLock, None) => Patience::Now,
            (Op::TryLock | Op::Loop, Some(wait)) => Patience::Within(wait),
            _ => Patience::Endless,
        };
        Self { patience, lease: request.lease() }
    }
}

/// Awaits an acquisition, of one lock or of several, on these terms.
macro_rules! take {
    ($lock:expr, $owner:expr, $terms:expr) => {{
        let (lock, owner, terms) = ($lock, $owner, $terms);
        if matches!(terms.patience, Patience::Endless) {
            let mut acquire = lock.lock();
            if let Some(owner) = owner {
                acquire = acquire.by(owner);
            }
            if let Some(lease) = terms.lease {
                acquire = acquire.lease(lease);
            }
            return acquire.await.map(Some);
        }
        let mut acquire = lock.try_lock();
        if let Some(owner) = owner {
            acquire = acquire.by(owner);
        }
        if let Some(lease) = terms.lease {
            acquire = acquire.lease(lease);
        }
        if let Patience::Within(wait) = terms.patience {
            acquire = acquire.wait(wait);
        }
        acquire.await
    }};
}

async fn take<G: SingleGuard>(
    lock: &Lock<G>,
    owner: Option<&mut Owner>,
    terms: Terms,
) -> Result<Option<G>, Error> {
    take!(lock, owner, terms)
}

async fn take_several(
    lock: &MultiLock,
    owner: Option<&mut Owner>,
    terms: Terms,
) -> Result<Option<MultiGuard>, Error> {
    take!(lock, owner, terms)
}
