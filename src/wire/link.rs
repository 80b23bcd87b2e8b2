//! [`Link`]: a lasting connection to one server: a session, and after its end the next one.
//!
//! A session that does not answer is given up. Its task is aborted, because it may be blocked in a
//! write, and a new session is made.
//!
//! Behind sentinels ([`OnBreak::End`]) a link makes no new session. It is gone, and the whole node
//! is replaced. The sentinels are asked before the new one is connected to, and once more afterwards.
//! The reason is a master that was killed, replaced and started again: it takes itself for the master
//! until the sentinels demote it. It is empty, and no other client uses it.
//!
//! An address may lead to another server after a connection broke. When the connection for commands was made
//! again, the one for messages is, too, unless it broke by itself, and so are those of the
//! [`ReplicaPool`](super::replicas::ReplicaPool). The opposite is not true: while the connection for commands
//! is answered, nobody asks whether its address leads elsewhere by now.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use super::{
    Event,
    answers::{Answer, Failure, FailureKind},
    breaks::{Breaks, Moment},
    connection::{ConnectionSettings, Heard, Listener, OnBreak, Options},
    deployment::Endpoint,
    script::Arg,
    session::{Lifetime, QUIT_TIMEOUT, Session},
};
use crate::backoff::Backoff;

/// The pauses between tries to reconnect double from the first to the longest.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(20);
pub(super) const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A session that has lasted for so long is replaced at once, and the pauses begin anew. One that ends sooner
/// counts as a failed try: a server may end each session at its first call. It is no longer than the times
/// after which sessions are given up: [`FOLLOW_AFTER`], and `READ_ONLY_PAUSE` of the node.
const LASTING: Duration = Duration::from_millis(500);

/// How long after the connection for commands was made again the one for messages follows, unless it breaks
/// meanwhile: both are mostly lost at about the same time.
const FOLLOW_AFTER: Duration = Duration::from_millis(500);

/// A lasting connection to one server, for commands or for messages.
#[derive(Clone)]
pub(super) struct Link(Arc<Shared>);

struct Shared {
    endpoint: Endpoint,
    settings: ConnectionSettings,
    sort: Sort,
    state: watch::Sender<State>,
    breaks: Arc<Breaks>,
    /// Whether a task will look whether it is to follow the link for commands.
    follows: AtomicBool,
}

enum Sort {
    /// With the link for messages, which has to lead to the same server.
    Commands(Link),
    /// Its events go to the sink.
    Subscriber,
}

impl Sort {
    /// Asks for a first answer. Fails without one: over fred, a connection that the server ended during the login
    /// may count as made. Any answer will do but that the server does not know EVALSHA. A call must not be the first
    /// to find that out: the server repeats its arguments, cut in the middle of a character perhaps, and fred
    /// then gives later replies to the wrong calls.
    async fn greet(&self, session: &Session) -> Result<(), Failure> {
        let question = match self {
            // Without arguments it is refused whatever the rights of the user, and while the server loads or lets
            // its clients wait.
            Self::Commands(_) => "EVALSHA",
            Self::Subscriber => "PING",
        };
        let answer = session.command(question, &[]).await;
        match session.unless_a_sentinel(answer).await {
            Err(error) if error.is_of_connection() || error.kind == FailureKind::Config => {
                Err(error)
            }
            Err(error) if question == "EVALSHA" && error.text.contains("unknown command") => {
                Err(Failure::refused("ERR unknown command 'EVALSHA': locks are scripts"))
            }
            _ => Ok(()),
        }
    }
}

enum State {
    /// No session: a first one, or the next one, is being made. The last failure is kept.
    Pending(Option<Failure>),
    Up(Arc<Session>),
    /// No session will be made: another node takes its place.
    Gone,
    Closed,
}

impl Link {
    /// A link for messages, without a session.
    pub(super) fn subscriber(endpoint: Endpoint, settings: ConnectionSettings) -> Self {
        Self::new(endpoint, settings, Sort::Subscriber)
    }

    /// A link for commands to the same server, without a session.
    pub(super) fn commands(subscriber: &Self) -> Self {
        let Shared { endpoint, settings, .. } = &*subscriber.0;
        Self::new(endpoint.clone(), settings.clone(), Sort::Commands(subscriber.clone()))
    }

    fn new(endpoint: Endpoint, settings: ConnectionSettings, sort: Sort) -> Self {
        let (state, breaks) = (watch::Sender::new(State::Pending(None)), Arc::default());
        let follows = AtomicBool::new(false);
        Self(Arc::new(Shared { endpoint, settings, sort, state, breaks, follows }))
    }

    /// Makes the first session. Whenever one ends, a task makes the next one.
    pub(super) async fn connect(&self) -> Result<(), Failure> {
        let lifetime = self.connect_once().await?;
        self.0.settings.runtime.spawn(keep_up(Arc::downgrade(&self.0), lifetime));
        Ok(())
    }

    /// Makes a session. The result completes at its end.
    async fn connect_once(&self) -> Result<Lifetime, Failure> {
        let Shared { endpoint, settings, sort, state, .. } = &*self.0;
        let options = Options {
            command_timeout: settings.command_timeout,
            listener: matches!(sort, Sort::Subscriber).then(|| listener(settings)),
        };
        let runtime = &settings.runtime;
        let client_name = settings.client_name.clone();
        let connecting =
            Session::connect(&settings.driver, runtime, endpoint, options, client_name);
        // Boxed, because it is rare and deep: types are nested through a caller's whole program.
        let session = connecting.boxed().await?;
        sort.greet(&session).boxed().await?;
        let again = self.0.breaks.made();
        let is_open = state.send_if_modified(|state| {
            let is_open = !matches!(state, State::Closed);
            if is_open {
                *state = State::Up(session.clone());
            }
            is_open
        });
        if !is_open {
            session.quit(QUIT_TIMEOUT).await;
            return Err(Failure::gone());
        }
        if let (Sort::Commands(subscriber), true) = (sort, again) {
            subscriber.follow(&self.0.breaks);
        }
        Ok(session.lifetime())
    }

    /// The session, if there is one.
    pub(super) fn session(&self) -> Option<Arc<Session>> {
        match &*self.0.state.borrow() {
            State::Up(session) => Some(session.clone()),
            _ => None,
        }
    }

    /// Waits for a session.
    pub(super) async fn wait(&self, by: Instant) -> Result<Arc<Session>, Failure> {
        let mut state = self.0.state.subscribe();
        let settled = state.wait_for(|state| !matches!(state, State::Pending(_)));
        if let Ok(settled) = timeout_at(by, settled).await {
            return match settled.as_deref() {
                Ok(State::Up(session)) => Ok(session.clone()),
                _ => Err(Failure::gone_before_sending()),
            };
        }
        Err(match &*self.0.state.borrow() {
            State::Pending(Some(why)) => no_connection(why.clone()),
            _ => Failure::not_sent("there is no connection"),
        })
    }

    /// Waits for a session, for the usual time.
    pub(super) async fn session_or_wait(&self) -> Result<Arc<Session>, Failure> {
        match self.session() {
            Some(session) => Ok(session),
            None => self.wait(Instant::now() + self.0.settings.command_timeout).boxed().await,
        }
    }

    /// Whether nothing can be sent over it any more.
    pub(super) fn is_gone(&self) -> bool {
        matches!(*self.0.state.borrow(), State::Gone | State::Closed)
    }

    pub(super) async fn command(&self, name: &'static str, args: &[Arg]) -> Answer {
        self.session_or_wait().await?.command(name, args).await
    }

    /// Ends a session that does not answer. A new one is made, except behind sentinels.
    pub(super) fn give_up(&self) {
        let mut given_up = None;
        self.0.state.send_if_modified(|state| {
            if let State::Up(session) = state {
                given_up = Some(session.clone());
                *state = self.0.without();
            }
            given_up.is_some()
        });
        if let Some(session) = given_up {
            session.abandon();
        }
    }

    /// The link for commands, whose breaks these are, leads to some server again. If this connection did not
    /// break, it is given up soon: it may lead to another one.
    fn follow(&self, commands: &Arc<Breaks>) {
        if self.0.follows.swap(true, Ordering::AcqRel) {
            return;
        }
        let (link, commands) = (Arc::downgrade(&self.0), Arc::downgrade(commands));
        self.0.settings.runtime.spawn(async move {
            sleep(FOLLOW_AFTER).await;
            let (Some(link), Some(commands)) = (link.upgrade().map(Link), commands.upgrade())
            else {
                return;
            };
            link.0.follows.swap(false, Ordering::AcqRel);
            let breaks = &link.0.breaks;
            if !breaks.is_lost() && breaks.last() < commands.last_lost() {
                link.give_up();
            }
        });
    }

    /// When its connection was last made or lost. Another connection from before may lead to another server.
    pub(super) fn last_break(&self) -> Moment {
        self.0.breaks.last()
    }

    /// Notes why there is no session yet.
    fn note_failure(&self, error: Failure) {
        self.0.state.send_if_modified(|state| {
            if let State::Pending(why) = state {
                *why = Some(error);
            }
            // No caller waits for this change.
            false
        });
    }

    /// Closes it for good. Calls under way may take this long to end with their answers.
    pub(super) async fn quit(&self, within: Duration) {
        let state = self.0.state.send_replace(State::Closed);
        if let State::Up(session) = state {
            session.quit(within).await;
        }
    }
}

impl Shared {
    /// Notes that its session has ended.
    fn note_end(&self) {
        self.breaks.lost();
        // Otherwise it was given up or closed.
        let is_lost = self.state.send_if_modified(|state| {
            let is_up = matches!(state, State::Up(_));
            if is_up {
                *state = self.without();
            }
            is_up
        });
        if is_lost && matches!(self.sort, Sort::Subscriber) {
            log!(warn, server = self.endpoint.name(), "the connection to redis is lost");
        }
        self.settings.refresh_requested.notify_one();
    }

    /// The state after its session has ended.
    fn without(&self) -> State {
        match self.settings.on_break {
            OnBreak::Reconnect => State::Pending(None),
            OnBreak::End => State::Gone,
        }
    }
}

/// What a caller is told whose time is over, if this is why there is no session.
pub(super) fn no_connection(why: Failure) -> Failure {
    let why = why.while_connecting().error();
    Failure::not_sent(format!("there is no connection: {}", why.text())).because(why.kind())
}

/// Makes a new session each time one has ended, until the link is gone. Only this task does so.
async fn keep_up(shared: Weak<Shared>, mut lifetime: Lifetime) {
    let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        let is_lasting = lifetime.await >= LASTING;
        let Some(()) = shared.upgrade().map(|shared| shared.note_end()) else { return };
        if is_lasting {
            backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        } else {
            sleep(backoff.next()).await;
        }
        lifetime = loop {
            let link = shared.upgrade().map(Link);
            let Some(link) = link.filter(|link| !link.is_gone()) else { return };
            match link.connect_once().await {
                Ok(lifetime) => {
                    if matches!(link.0.sort, Sort::Subscriber) {
                        let server = link.0.endpoint.name();
                        log!(info, server, "redis is connected to again");
                        (link.0.settings.sink)(Event::Gap);
                    }
                    break lifetime;
                }
                Err(error) => {
                    log!(debug, %error, "cannot connect again yet");
                    link.note_failure(error);
                }
            }
            drop(link);
            sleep(backoff.next()).await;
        };
    }
}

/// Passes on what a subscriber connection hears.
fn listener(settings: &ConnectionSettings) -> Listener {
    let sink = settings.sink.clone();
    Box::new(move |heard| match heard {
        Heard::Message(channel) => sink(Event::Message(channel)),
        Heard::Dropped(missed) => {
            log!(warn, missed, "messages were lost, everyone looks again");
            sink(Event::Gap);
        }
    })
}

#[cfg(test)]
mod tests;
