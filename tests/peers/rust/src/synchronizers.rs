//! Semaphores and latches.

use std::time::Duration;

use redisson_lock::{Client, Error, ExpirablePermit, ExpirableSemaphore, Permit, PermitId};
use serde_json::Value;

use crate::answers::{Failure, millis, not_held};
use crate::request::{Kind, Op, Request};

/// Takes permits, if there are any in time.
pub(crate) async fn acquire(client: &Client, request: &Request) -> Result<Option<Permit>, Failure> {
    let semaphore = client.semaphore(request.name()?);
    let n = request.n()?;
    Ok(match request.op {
        Op::Lock => Some(semaphore.acquire(n).await?),
        _ => semaphore.try_acquire(n).wait(request.wait().unwrap_or_default()).await?,
    })
}

/// Gives back permits that this owner has, or so many that anybody may have.
pub(crate) async fn release(
    client: &Client,
    request: &Request,
    mine: &mut Vec<Permit>,
) -> Result<Value, Failure> {
    let n: u32 = request.n()?;
    match mine.iter().position(|permit| permit.num_permits() == n) {
        Some(at) => mine.remove(at).release().await?,
        None => client.semaphore(request.name()?).release(n).await?,
    }
    Ok(Value::Null)
}

/// Waits for a latch.
pub(crate) async fn wait(client: &Client, request: &Request) -> Result<Value, Failure> {
    let latch = client.count_down_latch(request.name()?);
    if request.op == Op::Lock {
        latch.wait().await?;
        return Ok(true.into());
    }
    Ok(latch.wait_timeout(request.wait().unwrap_or_default()).await?.into())
}

/// All else.
pub(crate) async fn ask(client: &Client, request: &Request) -> Result<Value, Failure> {
    let name = request.name()?;
    let (semaphore, latch) = (client.semaphore(name), client.count_down_latch(name));
    Ok(match (request.kind, request.op) {
        (Kind::Semaphore, Op::Set) => semaphore.try_set(request.n()?).await?.into(),
        (Kind::Semaphore, Op::Count) => semaphore.available().await?.into(),
        (Kind::Semaphore, Op::Drain) => semaphore.drain().await?.into(),
        (Kind::Semaphore, Op::Add) => {
            semaphore.add(request.n()?).await?;
            Value::Null
        }
        (Kind::Latch, Op::Set) => latch.try_set(request.n()?).await?.into(),
        (Kind::Latch, Op::Count) => latch.count().await?.into(),
        (Kind::Latch, Op::CountDown) => {
            latch.count_down().await?;
            Value::Null
        }
        (kind, op) => return Err(Failure::invalid(format!("{op:?} is not for {kind:?}"))),
    })
}

/// Takes permits with a lease, if there are any in time.
pub(crate) async fn acquire_leased(
    client: &Client,
    request: &Request,
) -> Result<Option<ExpirablePermit>, Failure> {
    let semaphore = client.expirable_semaphore(request.name()?);
    let wait = match request.op {
        Op::Lock => None,
        _ => Some(request.wait().unwrap_or_default()),
    };
    Ok(take_leased(&semaphore, request.n()?, wait, request.lease()).await?)
}

/// Takes permits, for as long as it takes without a `wait`.
pub(crate) async fn take_leased(
    semaphore: &ExpirableSemaphore,
    n: u32,
    wait: Option<Duration>,
    lease: Option<Duration>,
) -> Result<Option<ExpirablePermit>, Error> {
    match (wait, lease) {
        (None, None) => semaphore.acquire(n).await.map(Some),
        (None, Some(lease)) => semaphore.acquire(n).lease(lease).await.map(Some),
        (Some(wait), None) => semaphore.try_acquire(n).wait(wait).await,
        (Some(wait), Some(lease)) => semaphore.try_acquire(n).wait(wait).lease(lease).await,
    }
}

pub(crate) fn ids(permit: &ExpirablePermit) -> Value {
    permit.ids().iter().map(ToString::to_string).collect()
}

fn permits(request: &Request) -> Result<Vec<PermitId>, Failure> {
    let ids = request.ids.iter().map(|id| id.parse());
    Ok(ids.collect::<Result<_, Error>>()?)
}

/// Gives back these permits: by their guard, if this owner has it.
pub(crate) async fn release_leased(
    client: &Client,
    request: &Request,
    mine: &mut Vec<ExpirablePermit>,
) -> Result<Value, Failure> {
    let ids = permits(request)?;
    match mine.iter().position(|permit| permit.ids() == ids) {
        Some(at) => mine.remove(at).release().await?,
        None if client.expirable_semaphore(request.name()?).release(ids).await? => {}
        None => return Err(not_held()),
    }
    Ok(Value::Null)
}

/// All else about an expirable semaphore.
pub(crate) async fn ask_leased(client: &Client, request: &Request) -> Result<Value, Failure> {
    let semaphore = client.expirable_semaphore(request.name()?);
    let first = || {
        let ids = permits(request)?;
        ids.first().copied().ok_or_else(|| Failure::invalid("ids are missing"))
    };
    Ok(match request.op {
        Op::Set => semaphore.try_set(request.n()?).await?.into(),
        Op::SetTotal => {
            semaphore.set(request.n()?).await?;
            Value::Null
        }
        Op::Add => {
            semaphore.add(request.n()?).await?;
            Value::Null
        }
        Op::Count => semaphore.available().await?.into(),
        Op::Acquired => semaphore.acquired().await?.into(),
        Op::Permits => semaphore.permits().await?.into(),
        Op::RemainingMs => millis(semaphore.ttl_of(first()?).await?).into(),
        Op::SetLease => {
            let lease = request.lease().ok_or_else(|| Failure::invalid("lease_ms is missing"))?;
            semaphore.set_lease(first()?, lease).await?.into()
        }
        op => return Err(Failure::invalid(format!("{op:?} is not for an expirable semaphore"))),
    })
}
