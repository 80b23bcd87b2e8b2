//! Calls that replicas have to confirm.
//!
//! `WAIT` keeps everything waiting that is sent behind it on its connection. So such calls go over
//! connections of their own, one call at a time on each.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::Value,
};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::{Instant, timeout_at},
};

use super::{
    Confirm,
    answers::{Answer, classify, is_of_connection, not_sent, reply, timed_out},
    connection::{self, Bound, Broken, ConnectionSettings, Session},
    deployment::Endpoint,
    error::WireError,
    link::Link,
    login,
    script::{Invocation, Reply},
};
use crate::replicas::{Acknowledged, Replicas};

/// So many calls to one server may wait for replicas at the same time; others wait for them.
const MOST: usize = 32;

/// The connections to one server that may be kept waiting. Each breaks but once.
pub(super) struct ReplicaPool {
    endpoint: Endpoint,
    settings: ConnectionSettings,
    /// The connection beside these.
    commands: Link,
    /// `None`: closed.
    idle: Mutex<Option<Vec<Arc<Session>>>>,
    places: Semaphore,
}

/// One of them, taken by one call. Given back when the server has said its last word to that call, else ended.
struct Checkout<'a> {
    pool: &'a ReplicaPool,
    session: Arc<Session>,
    _place: SemaphorePermit<'a>,
}

impl ReplicaPool {
    pub(super) fn new(endpoint: Endpoint, settings: ConnectionSettings, commands: Link) -> Self {
        let (idle, places) = (Mutex::new(Some(Vec::new())), Semaphore::new(MOST));
        Self { endpoint, settings, commands, idle, places }
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Arc<Session>>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a place for half of the time that is left: the other half is for the call itself.
    async fn take(&self, by: Instant) -> Result<Checkout<'_>, FredError> {
        let now = Instant::now();
        let half = now + by.saturating_duration_since(now) / 2;
        let place = timeout_at(half, self.places.acquire()).await;
        let place = place.map_err(|_| not_sent("too many wait for replicas"))?;
        let _place = place.expect("never closed");
        let next = || match &mut *self.idle() {
            Some(idle) => Ok(idle.pop()),
            None => Err(not_sent("the connection is gone")),
        };
        let mut known = next()?;
        while known.as_ref().is_some_and(|session| session.is_gone()) {
            known = next()?;
        }
        let session = match known {
            Some(session) => session,
            None => self.connect(by).await?,
        };
        Ok(Checkout { pool: self, session, _place })
    }

    async fn connect(&self, by: Instant) -> Result<Arc<Session>, FredError> {
        let ConnectionSettings { runtime, command_timeout, .. } = &self.settings;
        let (time, broken) = (*command_timeout, Broken::IsGone);
        let connecting = async {
            let new = login::connect(runtime, &self.endpoint, time, 32, broken).await?;
            if self.settings.broken == Broken::IsGone {
                // While the other is answered, nobody else can have come to its address.
                self.commands.command("TIME", Vec::new()).await?;
            }
            Ok(new)
        };
        let connected = timeout_at(by, connecting).await;
        connected.unwrap_or_else(|_| Err(not_sent("no connection in time")))
    }

    /// Sends one copy of the call and asks replicas for so long.
    pub(super) async fn call(
        &self,
        call: &Invocation,
        asking: bool,
        confirm: Confirm,
        bound: Bound,
    ) -> Answer {
        let taken = self.take(bound.by).await?;
        let session = taken.session.clone();
        let publish = self.settings.publish;
        let answer = connection::evaluate(session.client(), call, asking, publish, bound);
        let answer = session.ask(answer).await;
        let reply = match answer.and_then(reply) {
            Ok(reply) if (confirm.is_due)(&reply) => reply,
            other => {
                taken.heard(&other);
                return other;
            }
        };
        let ask = async |name, args| {
            let answer = timeout_at(bound.by, session.command(name, args)).await;
            answer.unwrap_or_else(|_| Err(timed_out()))
        };
        let needed = match confirm.replicas {
            Replicas::None => 0,
            Replicas::AtLeast(least) => least,
            // Without an answer nobody knows how many all are.
            Replicas::All => match ask("ROLE", Vec::new()).await {
                Ok(role) => connected(role),
                Err(error) => {
                    taken.heard(&Err::<(), _>(error.clone()));
                    return Err(after_all(error));
                }
            },
        };
        let left = bound.by.saturating_duration_since(Instant::now());
        let patience = confirm.patience.min(left).as_millis().max(1) as i64;
        let said = ask("WAIT", vec![i64::from(needed).into(), patience.into()]).await;
        let said = said.and_then(|said| said.convert::<i64>());
        taken.heard(&said);
        // The call has run; without an answer nobody is known to have confirmed it.
        let by = said.unwrap_or_else(|error| {
            tracing::warn!(%error, "replicas could not be asked");
            0
        });
        let by = u32::try_from(by).unwrap_or(0);
        Ok(Reply::Confirmed(Box::new(reply), Acknowledged { by, needed }))
    }

    /// None of them is used any more.
    pub(super) fn give_up(&self) {
        if let Some(idle) = &mut *self.idle() {
            idle.clear();
        }
    }

    pub(super) async fn quit(&self) {
        // Those under way end with their calls.
        let idle = self.idle().take();
        connection::quit_all(idle.into_iter().flatten()).await;
    }
}

impl Checkout<'_> {
    /// It can be used again when this is what the server said.
    fn heard<T>(self, answer: &Result<T, FredError>) {
        match answer {
            Err(error) if is_of_connection(error) => self.pool.give_up(),
            _ => {
                if let Some(idle) = &mut *self.pool.idle() {
                    idle.push(self.session.clone());
                }
            }
        }
    }
}

/// Of what could not be asked once the call had run: that it may have run.
fn after_all(error: FredError) -> FredError {
    match classify(error.clone()) {
        WireError::NotNow(_) => FredError::new(ErrorKind::IO, error.details().to_owned()),
        WireError::Refused(_) => {
            // Its code would say that nothing has run.
            let words = error.details().split_once(' ').map_or("", |(_, words)| words);
            let text = format!("how many replicas there are is not told: {words}");
            FredError::new(ErrorKind::Unknown, text)
        }
        _ => error,
    }
}

/// How many replicas a master has, by its ROLE: `master`, an offset, and a list of them.
fn connected(role: Value) -> u32 {
    match role {
        Value::Array(parts) => match parts.get(2) {
            Some(Value::Array(replicas)) => replicas.len() as u32,
            _ => 0,
        },
        _ => 0,
    }
}
