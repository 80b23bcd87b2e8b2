//! Calls that replicas have to confirm.
//!
//! `WAIT` keeps everything waiting that is sent behind it on its connection. So such calls go over
//! connections of their own, one call at a time on each.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::Value,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    Confirm, FredConfig, Invocation, Reply, WireError,
    connection::{self, Broken},
    line::Line,
    node,
};
use crate::replicas::{Acknowledged, Replicas};

/// So many calls to one server may wait for replicas at the same time; others wait for them.
const MOST: usize = 32;

/// The connections to one server that may be kept waiting.
pub(super) struct Patient {
    config: FredConfig,
    terms: node::Terms,
    /// The connection beside these.
    commands: Line,
    idle: Mutex<Vec<Line>>,
    places: Semaphore,
}

/// One of them, taken by one call. Given back when the call came to its end in peace.
struct Taken<'a> {
    patient: &'a Patient,
    line: Option<Line>,
    _place: SemaphorePermit<'a>,
}

impl Patient {
    pub(super) fn new(config: FredConfig, terms: node::Terms, commands: Line) -> Self {
        let (idle, places) = (Mutex::default(), Semaphore::new(MOST));
        Self { config, terms, commands, idle, places }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Line>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self) -> Result<Taken<'_>, FredError> {
        let place = self.places.acquire().await.expect("never closed");
        let known = std::iter::from_fn(|| self.idle().pop()).find(|line| !line.is_gone());
        let mut taken = Taken { patient: self, line: known, _place: place };
        if taken.line.is_none() {
            let new = Line::new(&self.config, &self.terms, 32)
                .map_err(|error| FredError::new(ErrorKind::Config, error.to_string()))?;
            taken.line = Some(new.clone());
            new.connect().await?;
            if self.terms.broken == Broken::IsGone {
                // While the other is answered, nobody else can have come to its address.
                self.commands.command("TIME", Vec::new()).await?;
            }
        }
        Ok(taken)
    }

    /// Sends one copy of the call and asks replicas for so long.
    pub(super) async fn call(
        &self,
        call: &Invocation,
        asking: bool,
        confirm: Confirm,
    ) -> node::Answer {
        let mut taken = self.take().await?;
        let line = taken.line.clone().expect("just taken");
        let publish = self.terms.publish;
        let answer = line.ask(connection::evaluate(line.client(), call, asking, publish)).await;
        let reply = match answer.and_then(node::reply) {
            Ok(reply) if (confirm.is_due)(&reply) => reply,
            other => {
                taken.give_back();
                return other;
            }
        };
        let needed = match confirm.replicas {
            Replicas::None => 0,
            Replicas::AtLeast(least) => least,
            // Without an answer nobody knows how many all are.
            Replicas::All => connected(line.command("ROLE", Vec::new()).await.map_err(after_all)?),
        };
        let patience = confirm.patience.as_millis() as i64;
        let said = line.command("WAIT", vec![i64::from(needed).into(), patience.into()]).await;
        // The call has run; without an answer nobody is known to have confirmed it.
        let by = match said.and_then(|said| said.convert::<i64>()) {
            Ok(by) => {
                taken.give_back();
                u32::try_from(by).unwrap_or(0)
            }
            Err(error) => {
                tracing::warn!(%error, "replicas could not be asked");
                0
            }
        };
        Ok(Reply::Confirmed(Box::new(reply), Acknowledged { by, needed }))
    }

    pub(super) async fn quit(&self) {
        let idle = std::mem::take(&mut *self.idle());
        connection::quit(idle.iter().map(|line| line.client().clone())).await;
    }
}

impl Taken<'_> {
    fn give_back(&mut self) {
        if let Some(line) = self.line.take() {
            self.patient.idle().push(line);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let runtime = &self.patient.terms.runtime;
        connection::quit_later(runtime, self.line.take().map(|line| line.client().clone()));
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut *self.idle());
        let clients = idle.iter().map(|line| line.client().clone());
        connection::quit_later(&self.terms.runtime, clients);
    }
}

/// Of what could not be asked once the call had run: that it may have run.
fn after_all(error: FredError) -> FredError {
    match node::classify(error.clone()) {
        WireError::NotNow(_) => FredError::new(ErrorKind::IO, error.details().to_owned()),
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
