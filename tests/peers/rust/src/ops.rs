//! The operations and their answers.

use std::collections::HashMap;

use redisson_lock::{
    Access, Asked, Client, Error, ExpirablePermit, Inspection, Loss, Owner, Permit, Remaining,
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::answers::{Failure, millis, not_held};
use crate::locks::{AnyGuard, AnyLock, Terms};
use crate::request::{Kind, Op, Request, missing};
use crate::synchronizers;

/// One owner's side: who it is, and what it holds.
#[derive(Debug)]
pub(crate) struct Thread {
    client: Client,
    owner: Owner,
    /// The newest guard last.
    guards: HashMap<(Kind, Vec<String>), Vec<AnyGuard>>,
    permits: HashMap<String, Vec<Permit>>,
    leased: HashMap<String, Vec<ExpirablePermit>>,
}

impl Thread {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            owner: client.owner(),
            client,
            guards: HashMap::new(),
            permits: HashMap::new(),
            leased: HashMap::new(),
        }
    }

    /// Takes a lock. May be dropped at any time.
    pub(crate) async fn acquire(&mut self, request: &Request) -> Result<Value, Failure> {
        match request.kind {
            Kind::Semaphore => {
                let permit = synchronizers::acquire(&self.client, request).await?;
                let granted = permit.is_some();
                self.permits.entry(request.name()?.to_owned()).or_default().extend(permit);
                return Ok(granted.into());
            }
            Kind::ExpirableSemaphore => {
                let permit = synchronizers::acquire_leased(&self.client, request).await?;
                let answer = permit.as_ref().map_or(false.into(), synchronizers::ids);
                self.leased.entry(request.name()?.to_owned()).or_default().extend(permit);
                return Ok(answer);
            }
            Kind::Latch => return synchronizers::wait(&self.client, request).await,
            _ => {}
        }
        let lock = AnyLock::of(&self.client, request)?;
        let guard = lock.acquire(Some(&mut self.owner), Terms::of(request)).await?;
        let answer = match &guard {
            Some(guard) => guard.answer(),
            None if request.kind == Kind::Fenced => Value::Null,
            None => false.into(),
        };
        self.guards.entry(key(request)?).or_default().extend(guard);
        Ok(answer)
    }

    /// All that is no acquisition.
    pub(crate) async fn perform(&mut self, request: &Request) -> Result<Value, Failure> {
        match request.op {
            Op::Unlock if request.kind == Kind::Semaphore => {
                let mine = self.permits.entry(request.name()?.to_owned()).or_default();
                synchronizers::release(&self.client, request, mine).await
            }
            Op::Unlock if request.kind == Kind::ExpirableSemaphore => {
                let mine = self.leased.entry(request.name()?.to_owned()).or_default();
                synchronizers::release_leased(&self.client, request, mine).await
            }
            Op::Lost if request.kind == Kind::ExpirableSemaphore => {
                let wait = request.wait().ok_or_else(|| missing("wait_ms"))?;
                let mine = self.leased.get(request.name()?).and_then(|mine| mine.last());
                let lost = timeout(wait, mine.ok_or_else(not_held)?.lost()).await;
                Ok(lost.map_or(Value::Null, |why| loss(why).into()))
            }
            Op::Unlock => {
                let guard =
                    self.guards.get_mut(&key(request)?).and_then(Vec::pop).ok_or_else(not_held)?;
                guard.unlock().await?;
                Ok(Value::Null)
            }
            Op::IsHeld => Ok((self.hold_count(request).await? > 0).into()),
            Op::HoldCount => Ok(self.hold_count(request).await?.into()),
            Op::Lost => {
                let wait = request.wait().ok_or_else(|| missing("wait_ms"))?;
                let guard = self.newest(request)?.ok_or_else(not_held)?;
                Ok(timeout(wait, guard.lost()).await.map_or(Value::Null, |why| loss(why).into()))
            }
            Op::Asked => {
                let wait = request.wait().ok_or_else(|| missing("wait_ms"))?;
                let guard = self.newest(request)?.ok_or_else(not_held)?;
                Ok(timeout(wait, guard.asked_to_release()).await.is_ok().into())
            }
            _ => ask(&self.client, request).await,
        }
    }

    /// As the server sees it.
    async fn hold_count(&self, request: &Request) -> Result<u32, Failure> {
        AnyLock::of(&self.client, request)?;
        let guards = self.guards.get(&key(request)?).map_or(&[][..], Vec::as_slice);
        let Some(guard) = guards.last() else {
            return Ok(0);
        };
        match guard.check().await {
            Ok(()) => Ok(match guard {
                AnyGuard::Single(guard) => guard.hold_count(),
                AnyGuard::Fenced(guard) => guard.hold_count(),
                AnyGuard::Multi(_) => guards.len().try_into().expect("a small number"),
            }),
            Err(Error::NotHeld { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn newest(&self, request: &Request) -> Result<Option<&AnyGuard>, Failure> {
        Ok(self.guards.get(&key(request)?).and_then(|held| held.last()))
    }
}

/// What may be asked by anybody.
pub(crate) async fn ask(client: &Client, request: &Request) -> Result<Value, Failure> {
    Ok(match request.op {
        Op::Hello => {
            json!({ "impl": "redisson-lock", "version": version(), "client": client.id() })
        }
        _ if request.kind == Kind::ExpirableSemaphore => {
            synchronizers::ask_leased(client, request).await?
        }
        Op::ForceUnlock => AnyLock::of(client, request)?.force_unlock().await?.into(),
        Op::IsLocked => AnyLock::of(client, request)?.is_locked().await?.into(),
        Op::RemainingMs => millis(AnyLock::of(client, request)?.ttl().await?).into(),
        Op::Inspect => inspection(&AnyLock::of(client, request)?.inspect().await?),
        Op::Ask => match AnyLock::of(client, request)?.ask_to_release().await? {
            Asked::Sent { holders, listening, .. } => {
                json!({ "holders": holders, "listening": listening })
            }
            _ => Value::Null,
        },
        Op::Token => AnyLock::of(client, request)?.token().await?,
        Op::Set | Op::Count | Op::CountDown | Op::Add | Op::Drain => {
            synchronizers::ask(client, request).await?
        }
        Op::SetTotal | Op::Acquired | Op::Permits | Op::SetLease => {
            return Err(Failure::invalid("this is for an expirable semaphore"));
        }
        Op::Lock
        | Op::TryLock
        | Op::Cancel
        | Op::Unlock
        | Op::IsHeld
        | Op::HoldCount
        | Op::Lost
        | Op::Asked
        | Op::Loop
        | Op::Traffic
        | Op::Calm
        | Op::Rest
        | Op::Close => unreachable!("{:?} is done elsewhere", request.op),
    })
}

fn key(request: &Request) -> Result<(Kind, Vec<String>), Failure> {
    Ok((request.kind, request.names()?))
}

fn loss(why: Loss) -> String {
    format!("{why:?}").to_lowercase()
}

fn inspection(seen: &Inspection) -> Value {
    let holders: Vec<_> = seen
        .holders
        .iter()
        .map(|holder| {
            let access = match holder.access {
                Access::Shared => "shared",
                Access::Exclusive => "exclusive",
            };
            json!({
                "id": holder.id, "count": holder.count, "ours": holder.ours, "access": access
            })
        })
        .collect();
    let queue: Vec<_> = seen
        .queue
        .iter()
        .map(|waiter| {
            let kept_for = waiter.kept_for.map(|time| millis(Remaining::Held(time)));
            json!({ "id": waiter.id, "ours": waiter.ours, "kept_for_ms": kept_for })
        })
        .collect();
    json!({ "holders": holders, "remaining_ms": millis(seen.remaining), "queue": queue })
}

/// Of the crate, not of this program.
fn version() -> &'static str {
    include_str!("../../../../Cargo.toml")
        .lines()
        .find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'))
        .unwrap_or("unknown")
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_is_found() {
        let version = super::version();
        assert!(version.starts_with(|c: char| c.is_ascii_digit()), "{version}");
    }
}
