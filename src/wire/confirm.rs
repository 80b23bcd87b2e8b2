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
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::{Confirm, FredConfig, Invocation, Reply, node};
use crate::replicas::{Acknowledged, Replicas};

/// So many calls to one server may wait for replicas at the same time; others wait for them.
const MOST: usize = 32;

/// How long a goodbye may take.
const QUIT_TIMEOUT: Duration = Duration::from_secs(1);

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
            let new = node::client(&self.config, self.command_timeout, 32)
                .map_err(|error| FredError::new(ErrorKind::Config, error.to_string()))?;
            taken.client = Some(new.clone());
            // In a task of its own: fred cannot quit what has begun to connect and is not yet running.
            let connecting = tokio::spawn(async move { new.init().await.map(drop) });
            connecting.await.expect("connecting does not panic")?;
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
        let mut answers = ask(&client, "EVALSHA", call, asking, publish).await?;
        if matches!(&answers.0, Err(error) if error.details().starts_with("NOSCRIPT")) {
            answers = ask(&client, "EVAL", call, asking, publish).await?;
        }
        let (answer, role) = answers;
        let needed = match confirm.replicas {
            Replicas::None => 0,
            Replicas::AtLeast(least) => least,
            Replicas::All => role.map_or(0, connected),
        };
        let reply = match answer.and_then(node::reply) {
            Ok(reply) if (confirm.is_due)(&reply) => reply,
            other => {
                taken.give_back();
                return other;
            }
        };
        let args = vec![i64::from(needed), confirm.patience.as_millis() as i64];
        let args: Vec<Value> = args.into_iter().map(Value::from).collect();
        let said: Result<i64, _> =
            client.custom(node::custom("WAIT"), args).await.and_then(|said: Value| said.convert());
        // The call has run; without an answer nobody is known to have confirmed it.
        let by = match said {
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
        futures::future::join_all(idle.iter().map(|client| timeout(QUIT_TIMEOUT, client.quit())))
            .await;
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
        if let (Some(client), Ok(runtime)) =
            (self.client.take(), tokio::runtime::Handle::try_current())
        {
            runtime.spawn(async move {
                let _ = timeout(QUIT_TIMEOUT, client.quit()).await;
            });
        }
    }
}

impl Drop for Patient {
    fn drop(&mut self) {
        let idle = std::mem::take(&mut *self.idle());
        if let (false, Ok(runtime)) = (idle.is_empty(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(async move {
                for client in idle {
                    let _ = timeout(QUIT_TIMEOUT, client.quit()).await;
                }
            });
        }
    }
}

type Answers = (Result<Value, FredError>, Result<Value, FredError>);

/// The call, and behind it who is connected.
async fn ask(
    client: &Client,
    name: &'static str,
    call: &Invocation,
    asking: bool,
    publish: &'static str,
) -> Result<Answers, FredError> {
    let script = match name {
        "EVALSHA" => call.script.sha(),
        _ => bytes::Bytes::from_static(call.script.source.as_bytes()),
    };
    let pipeline = client.pipeline();
    if asking {
        let _: () = pipeline.custom(node::custom("ASKING"), Vec::<Value>::new()).await?;
    }
    let _: () = pipeline.custom(node::custom(name), node::values(script, call, publish)).await?;
    let _: () = pipeline.custom(node::custom("ROLE"), Vec::<Value>::new()).await?;
    let mut answers = pipeline.try_all::<Value>().await;
    let lost = || Err(FredError::new(ErrorKind::Canceled, "Canceled."));
    let role = answers.pop().unwrap_or_else(lost);
    let answer = match (answers.pop(), &role) {
        (Some(answer), _) => answer,
        // One error for all of them.
        (None, Err(error)) => Err(error.clone()),
        (None, Ok(_)) => lost(),
    };
    Ok((answer, role))
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
