//! [`ReplicaPool`]: connections for calls that replicas have to confirm.
//!
//! `WAIT` blocks everything that follows it on its connection. Such calls therefore use their own
//! connections, one call at a time on each.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, watch},
    time::{Instant, timeout, timeout_at},
};

use super::{
    Confirm,
    answers::{Answer, Failure, FailureKind},
    breaks::Moment,
    connection::{Bound, ConnectionSettings, OnBreak, Options},
    deployment::Endpoint,
    error::WireError,
    link::{FIRST_PAUSE, LONGEST_PAUSE, Link, no_connection},
    script::{Arg, Invocation, Reply},
    session::{Session, quit_all},
};
use crate::{
    backoff::Backoff,
    determinism::select,
    options::{Acknowledged, Replicas},
    redis_error::RedisErrorKind,
};

/// How many calls to one server may wait for replicas at the same time. Further calls wait for
/// them.
const MAX_CONNECTIONS: usize = 32;

/// The connections to one server for calls with `WAIT`. A connection that breaks is not replaced. One that is
/// older than the connection for commands is not used: the address may have led to another server.
pub(super) struct ReplicaPool {
    endpoint: Endpoint,
    settings: ConnectionSettings,
    /// The server's connection for commands.
    commands: Link,
    /// `None`: closed.
    idle: Mutex<Option<Vec<Idle>>>,
    places: Semaphore,
    failing: Mutex<Option<Failing>>,
    /// A connection has had an answer, after some had failed.
    answered: Notify,
    /// Whether calls under way are to end without an answer.
    abandoned: watch::Sender<bool>,
}

/// A connection, and when it was begun.
type Idle = (Arc<Session>, Moment);

/// Since a connection failed, none has had an answer. New ones are begun one at a time, with pauses that grow:
/// a server may end each connection at its first call.
struct Failing {
    why: Failure,
    backoff: Backoff,
    /// When the next one may be begun.
    next: Instant,
}

/// A connection that one call uses. It returns to the pool when the server has sent its last answer
/// to that call. Otherwise it is closed.
struct Checkout<'a> {
    pool: &'a ReplicaPool,
    session: Arc<Session>,
    begun: Moment,
    _place: SemaphorePermit<'a>,
}

impl ReplicaPool {
    pub(super) fn new(endpoint: Endpoint, settings: ConnectionSettings, commands: Link) -> Self {
        let (idle, places) = (Mutex::new(Some(Vec::new())), Semaphore::new(MAX_CONNECTIONS));
        let (failing, abandoned) = (Mutex::new(None), watch::Sender::new(false));
        let answered = Notify::new();
        Self { endpoint, settings, commands, idle, places, failing, answered, abandoned }
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a connection. Waits for a free one for half of the remaining time, and leaves the
    /// other half to the call.
    async fn checkout(&self, by: Instant) -> Result<Checkout<'_>, Failure> {
        let now = Instant::now();
        let half = now + by.saturating_duration_since(now) / 2;
        let place = timeout_at(half, self.places.acquire()).await;
        let place = place.map_err(|_| self.why_failing().unwrap_or_else(too_many))?;
        let _place = place.expect("never closed");
        let (session, begun) = self.usable(by).await?;
        Ok(Checkout { pool: self, session, begun, _place })
    }

    /// A connection that was idle, or a new one.
    async fn usable(&self, by: Instant) -> Result<Idle, Failure> {
        loop {
            let known = match &mut *self.idle() {
                Some(idle) => idle.pop(),
                None => return Err(Failure::gone_before_sending()),
            };
            let answered = self.answered.notified();
            let one = match known {
                Some(known) => known,
                None => {
                    if let Err(next) = self.next_try() {
                        if timeout_at(next.min(by), answered).await.is_err() && next >= by {
                            return Err(self.why_failing().unwrap_or_else(not_in_time));
                        }
                        continue;
                    }
                    let begun = Moment::now();
                    let connected = timeout_at(by, self.connect(by)).await;
                    let connected = connected.unwrap_or_else(|_| Err(not_in_time()));
                    (connected.inspect_err(|error| self.fails(error))?, begun)
                }
            };
            if self.is_of_use(&one) {
                return Ok(one);
            }
        }
    }

    fn is_of_use(&self, (session, begun): &Idle) -> bool {
        !session.is_gone() && self.commands.last_break() < *begun
    }

    async fn connect(&self, by: Instant) -> Result<Arc<Session>, Failure> {
        let ConnectionSettings { driver, runtime, command_timeout, on_break, client_name, .. } =
            &self.settings;
        let options = Options::plain(*command_timeout);
        let client_name = client_name.clone();
        let new = Session::connect(driver, runtime, &self.endpoint, options, client_name).await?;
        if *on_break == OnBreak::End {
            // While the connection for commands is answered, no other server can have this IP
            // address. For a host name that may have several: the head of `link.rs`.
            let now = Instant::now();
            let half = now + by.saturating_duration_since(now) / 2;
            let Ok(answer) = timeout_at(half, self.commands.command("TIME", &[])).await else {
                // The server has just answered over the new one.
                if now.elapsed() >= *command_timeout / 4 {
                    self.commands.give_up();
                }
                return Err(Failure::not_sent("the connection for commands is silent"));
            };
            answer?;
        }
        Ok(new)
    }

    fn failing(&self) -> MutexGuard<'_, Option<Failing>> {
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a connection failed.
    fn fails(&self, why: &Failure) {
        let why = why.clone();
        match &mut *self.failing() {
            Some(failing) => failing.why = why,
            none => {
                let backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
                *none = Some(Failing { why, backoff, next: Instant::now() });
            }
        }
    }

    /// Notes that a connection had an answer.
    fn works(&self) {
        if self.failing().take().is_some() {
            self.answered.notify_waiters();
        }
    }

    /// Begins a try to connect, or says when the next one may be begun.
    fn next_try(&self) -> Result<(), Instant> {
        let (failing, now) = (&mut *self.failing(), Instant::now());
        match failing {
            None => Ok(()),
            Some(failing) if failing.next <= now => {
                failing.next = now + failing.backoff.next();
                Ok(())
            }
            Some(failing) => Err(failing.next),
        }
    }

    /// What a caller is told whose time is over.
    fn why_failing(&self) -> Option<Failure> {
        self.failing().as_ref().map(|failing| no_connection(failing.why.clone()))
    }

    /// Sends one copy of the call, and gives replicas this long to confirm it.
    pub(super) async fn call(
        &self,
        call: &Invocation,
        asking: bool,
        confirm: Confirm,
        bound: Bound,
    ) -> Answer {
        select! {
            biased;
            answer = self.ask(call, asking, confirm, bound) => answer,
            () = self.abandoned() => Err(Failure::gone()),
        }
    }

    async fn ask(&self, call: &Invocation, asking: bool, confirm: Confirm, bound: Bound) -> Answer {
        let checkout = self.checkout(bound.by).await?;
        let session = checkout.session.clone();
        let channels = self.settings.channels;
        let reply = match session.call(call, asking, channels, bound).await {
            Ok(reply) if (confirm.needs_confirmation)(&reply) => reply,
            other => {
                checkout.heard(&other);
                return other;
            }
        };
        let ask = async |name, args: &[Arg]| {
            let answer = timeout_at(bound.by, session.command(name, args)).await;
            answer.unwrap_or_else(|_| Err(Failure::timed_out()))
        };
        let asked = match confirm.replicas {
            Replicas::None => Ok(0),
            Replicas::AtLeast(least) => Ok(least),
            // Without an answer the number of replicas is unknown.
            Replicas::All | Replicas::OneOfAll => {
                let role = ask("ROLE", &[]).await;
                role.and_then(|role| connected(&role).ok_or_else(no_master))
            }
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(error) => {
                checkout.heard(&Err::<(), _>(error.clone()));
                return Err(after_all(error));
            }
        };
        let left = bound.by.saturating_duration_since(Instant::now());
        let timeout = confirm.timeout.min(left).as_millis().max(1) as u64;
        let said = ask("WAIT", &[u64::from(asked).into(), timeout.into()]).await;
        let said = said.map_err(|error| if is_of_replica(&error) { no_master() } else { error });
        checkout.heard(&said);
        let by = match said {
            Ok(reply) => reply.as_int().and_then(|by| u32::try_from(by).ok()).unwrap_or(0),
            Err(error) if error.is_read_only() => return Err(after_all(error)),
            // The call has run. Without an answer no replica is known to have confirmed it.
            Err(error) => {
                log!(warn, %error, "replicas could not be asked");
                0
            }
        };
        let needed = if confirm.replicas == Replicas::OneOfAll { asked.min(1) } else { asked };
        Ok(Reply::Confirmed(Box::new(reply), Acknowledged { by, needed }))
    }

    /// Closes all connections.
    pub(super) fn give_up(&self) {
        if let Some(idle) = &mut *self.idle() {
            idle.clear();
        }
    }

    /// Completes when calls are to end without an answer.
    async fn abandoned(&self) {
        let _ = self.abandoned.subscribe().wait_for(|abandoned| *abandoned).await;
    }

    /// Closes it for good. Calls under way may take this long to end with their answers.
    pub(super) async fn quit(&self, within: Duration) {
        let idle = self.idle().take();
        let sessions = idle.into_iter().flatten().map(|(session, _)| session);
        let unused = self.places.acquire_many(MAX_CONNECTIONS as u32);
        let _ = tokio::join!(quit_all(sessions, within), timeout(within, unused));
        self.abandoned.send_replace(true);
    }
}

impl Checkout<'_> {
    /// Returns the connection to the pool if this is an answer of the server, and of a master.
    fn heard<T>(self, answer: &Result<T, Failure>) {
        let one = (self.session.clone(), self.begun);
        match answer {
            Err(error) if error.is_of_connection() || error.is_cluster_down() => {
                self.pool.fails(error)
            }
            _ => self.pool.works(),
        }
        match answer {
            Err(error) if error.is_of_connection() || error.is_read_only() => self.pool.give_up(),
            _ if !self.pool.is_of_use(&one) => {}
            _ => {
                if let Some(idle) = &mut *self.pool.idle() {
                    idle.push(one);
                }
            }
        }
    }
}

/// A failure after the call had run, as one that says that it may have run.
fn after_all(error: Failure) -> Failure {
    match WireError::from(error.clone()) {
        WireError::NotNow(_) => {
            let kind = error.error_kind();
            Failure::new(FailureKind::Gone, error.text).because(kind)
        }
        WireError::Refused(_) => {
            // The error's code would say that nothing has run.
            let words = error.text.split_once(' ').map_or("", |(_, words)| words);
            Failure::refused(format!("how many replicas there are is not told: {words}"))
                .because(error.error_kind())
        }
        _ => error,
    }
}

fn not_in_time() -> Failure {
    Failure::not_sent("no connection in time")
}

fn too_many() -> Failure {
    Failure::not_sent("too many wait for replicas").because(RedisErrorKind::Overloaded)
}

/// How many replicas a master has, by its ROLE: `master`, an offset, and a list of them. `None`: it is no
/// master.
fn connected(role: &Reply) -> Option<u32> {
    let Reply::Array(parts) = role else { return None };
    let [name, _, Reply::Array(replicas), ..] = &parts[..] else { return None };
    (name.as_text()? == "master").then_some(replicas.len() as u32)
}

/// Whether `WAIT` ended because the server is a replica, or became one meanwhile.
fn is_of_replica(error: &Failure) -> bool {
    error.text.contains("with replica instances") || error.text.starts_with("UNBLOCKED")
}

/// The server has become a replica since it ran the call: its master need not have the hold.
fn no_master() -> Failure {
    Failure::refused("READONLY the server has become a replica".to_owned())
}

#[cfg(test)]
mod tests;
