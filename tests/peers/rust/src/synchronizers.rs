//! Semaphores and latches, which have no owner.

use redisson_lock::{Client, Permit};
use serde_json::Value;

use crate::answers::Failure;
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
