//! [`Engine`]: the connections, the clock and the background tasks of one client.
//!
//! The tasks hold their parts of it weakly. When the last client, lock and guard are gone, so is
//! the engine. The janitor then completes its jobs and closes the connections.
//!
//! | file | content |
//! |---|---|
//! | [`lifecycle`] | open, closing, closed |
//! | [`janitor`], [`releases`] | jobs in the background; releases that a new master may have missed |
//! | [`watchdog`], [`renewal_schedule`], [`lease`] | renewals; which hold is due; until when a hold is trusted |
//! | [`turns`] | what an observer and the spans see of a hold |
//! | [`subscriptions`], [`poll_intervals`] | channels, counted by their users; how often a waiter asks the server even without a message |
//! | [`batcher`] | calls that travel together |
//! | [`circuit_breaker`] | whether a majority leaves this server alone for a while |
//! | [`announcer`], [`whois`] | what this client announces about itself; what others announce |
//! | [`backoff`] | whether another copy of a call is sent, after a pause |

mod announcer;
mod backoff;
mod batcher;
mod circuit_breaker;
mod janitor;
mod lease;
mod lifecycle;
mod poll_intervals;
mod releases;
mod renewal_schedule;
#[cfg(test)]
pub(crate) mod scripted;
mod subscriptions;
mod turns;
mod watchdog;
mod whois;

use std::{
    sync::{Arc, Mutex, Weak, atomic::AtomicBool},
    time::Duration,
};

use futures::future::OptionFuture;
use tokio::{
    join,
    time::{Instant, sleep, timeout},
};

#[cfg(feature = "_servers")]
pub(crate) use self::whois::MOST_ASKED;
use self::{
    announcer::Announcer, batcher::Batcher, circuit_breaker::CircuitBreaker, releases::Releases,
    watchdog::Watchdog, whois::Whois,
};
pub(crate) use self::{
    backoff::Backoff,
    batcher::Underway,
    janitor::{Busy, Janitor},
    lease::{Lease, trust},
    lifecycle::Lifecycle,
    poll_intervals::{ASK_AGAIN, POLL},
    releases::Freed,
    subscriptions::{Subscription, Subscriptions},
};
use crate::{
    broken::broken,
    config::Settings,
    determinism::select,
    error::Error,
    names,
    options::Replicas,
    owner::Identity,
    protocol::{Protocol, Timely, announcement::Announcement},
    redis_error::{RedisError, RedisErrorKind},
    runtime::{ClientRuntime, RuntimeEnded},
    sometimes::sometimes,
    wire::{Confirm, Invocation, Reply, ServerId, Transport, WireError},
};

/// How often the servers are asked for their time.
const CLOCK_INTERVAL: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) settings: Settings,
    pub(crate) life: Arc<Lifecycle>,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) identity: Identity,
    pub(crate) janitor: Janitor,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) breaker: CircuitBreaker,
    releases: Arc<Releases>,
    batcher: Arc<Batcher>,
    announcer: Option<Arc<Announcer>>,
    whois: Whois,
    /// Whether the log says that questions to holders cannot be read.
    pub(crate) warned_of_unread_questions: AtomicBool,
}

impl Engine {
    /// Starts the background tasks.
    pub(crate) fn start(
        identity: Identity,
        settings: Settings,
        transport: Arc<dyn Transport>,
        subscriptions: Arc<Subscriptions>,
        runtime: ClientRuntime,
    ) -> Arc<Self> {
        let life = Arc::new(Lifecycle::new(runtime.clone()));
        let janitor = Janitor::start(transport.clone(), runtime.clone());
        let watchdog = Arc::new(Watchdog::new(settings.watchdog, settings.command_timeout));
        let timeout = settings.command_timeout;
        let batcher = Arc::new(Batcher::new(transport.clone(), runtime.clone(), timeout));
        let releases = Releases {
            life: life.clone(),
            transport: transport.clone(),
            batcher: batcher.clone(),
            janitor: janitor.clone(),
            kept: Mutex::default(),
        };
        let releases = Arc::new(releases);
        let weak_life = || Arc::downgrade(&life);
        runtime.spawn(subscriptions::task::run(
            weak_life(),
            subscriptions.clone(),
            transport.clone(),
        ));
        let weak_transport = Arc::downgrade(&transport);
        runtime.spawn(watchdog::run(
            weak_life(),
            Arc::downgrade(&watchdog),
            weak_transport.clone(),
        ));
        runtime.spawn(keep_time(weak_life(), weak_transport.clone()));
        let about = settings.about.clone();
        let announcer = about.map(|it| Arc::new(Announcer::new(identity.client(), it, &settings)));
        let whois = Whois::new(identity.client(), announcer.is_some());
        if let Some(announcer) = &announcer {
            let (announcer, watchdog) = (Arc::downgrade(announcer), Arc::downgrade(&watchdog));
            runtime.spawn(announcer::run(weak_life(), announcer, watchdog, weak_transport));
        }
        if transport.may_replace_servers() {
            runtime.spawn(releases::run(Arc::downgrade(&releases), subscriptions.gaps()));
        }
        Arc::new(Self {
            identity,
            breaker: CircuitBreaker::default(),
            settings,
            life,
            transport,
            janitor,
            subscriptions,
            watchdog,
            releases,
            batcher,
            announcer,
            whois,
            warned_of_unread_questions: AtomicBool::new(false),
        })
    }

    /// See [`Batcher::call`].
    pub(crate) fn call(&self, call: Invocation, now: Instant) -> Underway {
        self.batcher.call(call, now)
    }

    /// Sends one copy of a call at `now`. This many replicas are to confirm it if `needs_confirmation`
    /// says so for its reply.
    pub(crate) fn call_confirmed(
        &self,
        call: Invocation,
        now: Instant,
        replicas: Replicas,
        needs_confirmation: fn(&Reply) -> bool,
    ) -> Underway {
        match replicas {
            Replicas::None => self.batcher.call(call, now),
            replicas => {
                let timeout = self.settings.replica_timeout;
                let confirm = Confirm { replicas, timeout, needs_confirmation };
                Underway::Alone(self.transport.call_confirmed(call, confirm), None)
            }
        }
    }

    /// Server time in ms after which a request for this key that is sent now must have no effect.
    pub(crate) fn not_after(&self, key: &[u8], sent: Instant) -> u64 {
        self.useful_until(self.transport.time_at(key, sent))
    }

    /// The same, for a request that is sent at this server time.
    pub(crate) fn useful_until(&self, sent: u64) -> u64 {
        let margin = self.settings.command_timeout.as_millis() as u64;
        sent + if broken("no-not-after") { 1 << 40 } else { margin }
    }

    /// The server's answer to a request for this key, unless the request came too late: then the
    /// estimate of the server's clock was wrong, and is now corrected.
    pub(crate) fn in_time<T>(&self, key: &[u8], answer: Timely<T>) -> Result<T, WireError> {
        match answer {
            Timely::InTime(answer) => Ok(answer),
            Timely::Late(now) => {
                sometimes!("a copy came too late");
                self.transport.observe(key, now);
                Err(WireError::unanswered("the answers come too late"))
            }
        }
    }

    /// See [`Lifecycle::check_open`].
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        self.life.check_open()
    }

    /// See [`Lifecycle::is_closed`].
    pub(crate) fn is_closed(&self) -> bool {
        self.life.is_closed()
    }

    /// See [`Lifecycle::closing`].
    pub(crate) async fn closing(&self) -> Error {
        self.life.closing().await
    }

    /// Everything that outlives a call runs there.
    pub(crate) fn runtime(&self) -> &ClientRuntime {
        &self.life.runtime
    }

    /// See [`Backoff::retry_unless_refused`].
    pub(crate) async fn retry_unless_refused(
        &self,
        error: WireError,
        backoff: &mut Backoff,
        retry_until: Instant,
    ) -> Result<(), WireError> {
        backoff.retry_unless_refused(&self.life.runtime, error, retry_until).await
    }

    /// See [`Backoff::retry_even_if_refused`].
    pub(crate) async fn retry_even_if_refused(
        &self,
        error: WireError,
        backoff: &mut Backoff,
        retry_until: Instant,
    ) -> Result<(), WireError> {
        backoff.retry_even_if_refused(&self.life.runtime, error, retry_until).await
    }

    /// The server that gets the release of a lock: see [`Engine::remember_release`].
    pub(crate) fn server_for_release(&self, protocol: &dyn Protocol) -> Option<ServerId> {
        let may_be_replaced = self.transport.may_replace_servers();
        may_be_replaced.then(|| self.transport.server_id(names::text(protocol.key())))
    }

    /// Notes that a server has answered a release. `server`: `None` if no other ever
    /// replaces it.
    pub(crate) fn remember_release(
        &self,
        server: Option<ServerId>,
        released: impl FnOnce() -> Freed,
    ) {
        if let Some(server) = server {
            self.releases.remember(server, released());
        }
    }

    /// See [`Whois::ask`].
    pub(crate) async fn whois(
        &self,
        holds: &[(&str, &str)],
        by: Instant,
    ) -> Vec<Option<Announcement>> {
        self.whois.ask(&self.transport, holds, by).await
    }

    /// Whether what its callers say about their holds is of any use.
    pub(crate) fn announces(&self) -> bool {
        self.announcer.is_some()
    }

    /// Refuses new calls, tells the holders, and waits until everything is undone.
    pub(crate) async fn close(&self) -> Result<(), Error> {
        self.life.begin_closing();
        let holds_stay = self.watchdog.close();
        let runtime = &self.life.runtime;
        let undone = async {
            let drained = timeout(self.settings.retry_timeout, self.janitor.drained());
            let announcer = self.announcer.as_ref();
            let withdrawn = announcer.map(|announcer| announcer.end(holds_stay, &self.transport));
            join!(drained, OptionFuture::from(withdrawn)).0
        };
        let drained = select! {
            drained = undone => drained,
            () = runtime.ended() => Ok(()),
        };
        self.life.end_closing();
        if runtime.has_ended() {
            return Err(RuntimeEnded.into());
        }
        self.transport.quit().await;
        drained.map_err(|_| {
            let text = "closed, but some locks could not be released in time";
            Error::Redis(RedisError::new(RedisErrorKind::Timeout, text))
        })
    }
}

async fn keep_time(life: Weak<Lifecycle>, transport: Weak<dyn Transport>) {
    loop {
        sleep(CLOCK_INTERVAL).await;
        if Lifecycle::has_ended(&life) {
            return;
        }
        let Some(transport) = transport.upgrade() else { return };
        transport.keep_time().await;
    }
}

#[cfg(test)]
mod tests;
