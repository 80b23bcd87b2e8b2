//! [`Target`]: what holds and waiters of one lock share: engine, protocol, kind, local line. Calls for it
//! start here.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::time::Instant;

use crate::{
    engine::{Engine, Freed},
    error::Error,
    locking::line::LocalLine,
    names,
    observer::{LockKind, Observed},
    options::Replicas,
    owner::HoldId,
    protocol::{Order, Protocol, Timely},
    wire::{Invocation, Reply, ServerId, WireError},
};

/// What holds and waiters of one lock of one client share.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) engine: Arc<Engine>,
    pub(crate) protocol: Arc<dyn Protocol>,
    pub(crate) kind: LockKind,
    /// The local waiters for the lock.
    pub(crate) line: LocalLine,
    /// Whether its holds may be handed off locally.
    pub(crate) hands_off: bool,
    /// Whether local readers may share its holds.
    pub(crate) shares: bool,
    /// How many holds this client has on the lock.
    held: AtomicUsize,
    /// How many holds this client has on the key, by any kind of lock.
    held_on_key: Arc<AtomicUsize>,
}

impl Target {
    pub(crate) fn new(
        engine: Arc<Engine>,
        protocol: Arc<dyn Protocol>,
        kind: LockKind,
        held_on_key: Arc<AtomicUsize>,
    ) -> Self {
        let hands_off = engine.settings.reuse_holds && protocol.swap_script().is_some();
        let shares = engine.settings.reuse_holds && protocol.order() == Order::Shared;
        let (line, held) = Default::default();
        Self { engine, protocol, kind, line, hands_off, shares, held, held_on_key }
    }

    /// The lock's key, as text.
    pub(crate) fn name(&self) -> &str {
        names::text(self.protocol.key())
    }

    /// The observer of an acquisition that begins now.
    pub(crate) fn observed(&self) -> Option<&Observed> {
        self.engine.settings.observer.as_ref().filter(|observed| observed.is_enabled())
    }

    /// Adds to an error what was being done, and to which lock.
    pub(crate) fn with_context(&self, doing: &'static str) -> impl Fn(Error) -> Error {
        let object = Some(("lock", self.name()));
        move |error| error.about(doing, object, &self.engine.settings.server)
    }

    /// As [`with_context`](Self::with_context), for an error of the wire, which it turns into the
    /// caller's [`Error`].
    pub(crate) fn explain(&self, doing: &'static str) -> impl Fn(WireError) -> Error {
        move |error| self.with_context(doing)(error.into_error(self.name()))
    }

    /// Counts a hold.
    pub(crate) fn hold_begins(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
        self.held_on_key.fetch_add(1, Ordering::Relaxed);
    }

    /// The end of a hold that was counted.
    pub(crate) fn hold_ends(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
        self.held_on_key.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn holds_here(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// See [`Engine::not_after`].
    pub(crate) fn not_after(&self, sent: Instant) -> u64 {
        self.engine.not_after(self.protocol.key(), sent)
    }

    /// See [`Engine::in_time`].
    pub(crate) fn in_time<T>(&self, answer: Timely<T>) -> Result<T, WireError> {
        self.engine.in_time(self.protocol.key(), answer)
    }

    /// Asks once, for queries that the caller may repeat itself.
    pub(crate) async fn ask(&self, call: Invocation) -> Result<Reply, Error> {
        self.engine.check_open()?;
        self.engine.transport.call(call).await.map_err(|error| error.into_error(self.name()))
    }

    /// The same, with an answer by this moment.
    pub(crate) async fn ask_by(&self, call: Invocation, by: Instant) -> Result<Reply, Error> {
        self.engine.check_open()?;
        let answer = self.engine.transport.call_by(call, by).await;
        answer.map_err(|error| error.into_error(self.name()))
    }

    /// How many messages have come on the channel of holder `id`, if the client is subscribed to
    /// it.
    pub(crate) fn heard(&self, id: &HoldId) -> Option<u64> {
        self.engine.subscriptions.count(&self.protocol.channel(id)?)
    }

    /// Tells the local waiters that the server has answered, or how it failed to.
    pub(crate) fn say(&self, failure: Option<&WireError>) {
        if !self.line.is_empty() {
            self.line.answers.say(failure, self.name(), Replicas::None);
        }
    }

    /// Tells the local waiters that a hold was released on the server, or is gone.
    pub(crate) fn say_freed(&self) {
        if !self.line.is_empty() {
            self.line.answers.freed();
        }
    }

    /// Notes that the server has answered the release of the hold `id`. See [`Engine::remember_release`].
    pub(crate) fn remember_release(
        &self,
        server: Option<ServerId>,
        id: &HoldId,
        ends: impl FnOnce() -> Instant,
    ) {
        self.engine.remember_release(server, || Freed {
            protocol: self.protocol.clone(),
            id: id.clone(),
            held: self.held_on_key.clone(),
            ends: ends(),
        });
    }
}
