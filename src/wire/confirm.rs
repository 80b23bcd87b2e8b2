//! Calls that replicas have to confirm.
//!
//! `WAIT` keeps everything waiting that is sent behind it on its connection. So such calls go over
//! connections of their own, one call at a time on each.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    types::Value,
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{Confirm, FredConfig, Invocation, Reply, connection, node};
use crate::replicas::{Acknowledged, Replicas};

/// So many calls to one server may wait for replicas at the same time; others wait for them.
const MOST: usize = 32;

/// The connections to one server that may be kept waiting.
pub(super) struct Patient {
    config: FredConfig,
    command_timeout: Duration,
    idle: Mutex<Vec<Client>>,
    places: Semaphore,
}

/// One of them, taken by one call. Given back when the call came to its end in peace.
struct Taken<'a> {
    patient: &'a Patient,
    client: Option<Client>,
    _place: SemaphorePermit<'a>,
}

impl Patient {
    pub(super) fn new(config: FredConfig, command_timeout: Duration) -> Self {
        let (idle, places) = (Mutex::default(), Semaphore::new(MOST));
        Self { config, command_timeout, idle, places }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn take(&self) -> Result<Taken<'_>, FredError> {
        let place = self.places.acquire().await.expect("never closed");
        let known = self.idle().pop();
        let mut taken = Taken { patient: self, client: known, _place: place };
        if taken.client.is_none() {
            let new = connection::client(&self.config, self.command_timeout, 32)
                .map_err(|error| FredError::new(ErrorKind::Config, error.to_string()))?;
            taken.client = Some(new.clone());
            connection::init(new).await?;
        }
        Ok(taken)
    }

    /// Sends one copy of the call and asks replicas for so long.
    pub(super) async fn call(
        &self,
        call: &Invocation,
        asking: bool,
        publish: &'static str,
        confirm: Confirm,
    ) -> node::Answer {
        let mut taken = self.take().await?;
        let client = taken.client.clone().expect("just taken");
        let answer = connection::evaluate(&client, call, asking, publish).await;
        let reply = match answer.and_then(node::reply) {
            Ok(reply) if (confirm.is_due)(&reply) => reply,
            other => {
                taken.give_back();
                return other;
            }
        };
        let command = async |name, args: Vec<Value>| -> Result<Value, FredError> {
            client.custom(connection::custom(name), args).await
        };
        let needed = match confirm.replicas {
            Replicas::None => 0,
            Replicas::AtLeast(least) => least,
            // Without an answer nobody knows how many all are.
            Replicas::All => connected(command("ROLE", Vec::new()).await?),
        };
        let patience = confirm.patience.as_millis() as i64;
        let said = command("WAIT", vec![i64::from(needed).into(), patience.into()]).await;
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
        connection::quit(idle).await;
    }
}

impl Taken<'_> {
    fn give_back(&mut self) {
        if let Some(client) = self.client.take() {
            self.patient.idle().push(client);
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        connection::quit_later(self.client.take());
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        connection::quit_later(std::mem::take(&mut *self.idle()));
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
