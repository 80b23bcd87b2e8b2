//! [`Counter`]: one semaphore or latch of one client, and the requests that change it.
//!
//! A request has an id, and all its copies have the same. The server keeps the ids of the requests
//! that took effect, so that a second copy changes nothing. It forgets an id after [`KEPT`], or when
//! a later request says that no copy is under way any more.

use std::sync::{Arc, Weak};

use tokio::time::{Instant, sleep_until};

use super::{
    line::CounterLine,
    once::{KEPT, Once, repeatable_for},
    settled::{Settled, Unclaimed},
};
use crate::{
    determinism::{DashMap, select},
    engine::{Backoff, Engine},
    error::Error,
    locking::copies::Copies,
    names,
    owner::HoldId,
    protocol::{Countable, RequestArgs, Timely, cancelled, done, number_of},
    wire::{Invocation, Reply, WireError},
};

const KEPT_MS: u64 = KEPT.as_millis() as u64;

/// One counter of one client. All handles to it share this.
#[derive(Debug)]
pub(crate) struct Counter<P: Countable> {
    pub(crate) engine: Arc<Engine>,
    pub(crate) protocol: P,
    pub(super) line: CounterLine,
    /// Requests of which all copies were answered.
    settled: Settled,
    registry: Arc<Counters<P>>,
}

impl<P: Countable> Counter<P> {
    pub(crate) fn name(&self) -> &str {
        names::text(self.protocol.key())
    }

    /// Adds to an error what was being done, and to what.
    pub(crate) fn with_context(&self, doing: &'static str) -> impl Fn(Error) -> Error {
        let object = Some((P::WHAT, self.name()));
        move |error| error.about(doing, object, &self.engine.settings.server)
    }

    /// Runs a request to its end, even if its caller goes away. `doing`: what an error says was
    /// being done.
    pub(crate) async fn finish<T: Send + 'static>(
        &self,
        doing: &'static str,
        request: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        self.engine.janitor.finish_if_dropped(request).await.map_err(self.with_context(doing))
    }

    pub(super) fn new_request(&self) -> Once {
        Once::new(self.engine.identity.next(), repeatable_for(&self.engine))
    }

    /// The call of a request, for a copy that is sent now. Also returns the ids that it has the server
    /// forget. If it does not, they are to be [kept](Self::keep_settled) for a later request.
    pub(super) fn copy(
        &self,
        request: &mut Once,
        sent: Instant,
        call: impl FnOnce(&P, &RequestArgs<'_>) -> Invocation,
    ) -> (Invocation, Vec<HoldId>) {
        let settled = self.settled.take_some();
        let now = self.engine.transport.time_at(self.protocol.key(), sent);
        let not_after = request.send(now, self.engine.useful_until(now));
        let request = RequestArgs { id: &request.id, not_after, kept: KEPT_MS, settled: &settled };
        (call(&self.protocol, &request), settled)
    }

    /// No copy of this request is under way any more.
    pub(super) fn settle(&self, id: HoldId) {
        self.settled.add([id]);
    }

    /// The server has perhaps not forgotten these ids.
    pub(super) fn keep_settled(&self, ids: Vec<HoldId>) {
        self.settled.add(ids);
    }

    /// Reads the answer to a copy that had the server forget these ids.
    pub(super) fn read<T>(
        &self,
        request: &mut Once,
        settled: Vec<HoldId>,
        answer: Result<Timely<T>, WireError>,
    ) -> Result<T, WireError> {
        if answer.as_ref().is_err_and(WireError::is_unclear) {
            request.may_have_run();
        }
        let answer = answer.and_then(|answer| self.in_time(answer));
        if answer.is_err() {
            self.keep_settled(settled);
        }
        answer
    }

    /// See [`Engine::in_time`].
    pub(super) fn in_time<T>(&self, answer: Timely<T>) -> Result<T, WireError> {
        self.engine.in_time(self.protocol.key(), answer)
    }

    /// Sends copies of a request that counts once, until one is answered or the time for retries is
    /// over. `since`: when the call began, if it has waited for the server before. Also returns whether
    /// an earlier copy may still run. It does nothing if the answer is that the request took effect,
    /// because the server knows its id then.
    pub(super) async fn send_until_answered<T>(
        &self,
        request: &mut Once,
        since: Option<Instant>,
        call: impl Fn(&P, &RequestArgs<'_>) -> Invocation,
        read: fn(Reply) -> Result<Timely<T>, WireError>,
    ) -> Result<(T, bool), WireError> {
        let engine = &self.engine;
        let (retry_timeout, most) = (engine.settings.retry_timeout, request.repeatable_until());
        let mut copies = Copies::since(since, |begun| (begun + retry_timeout).min(most));
        let mut unclear = false;
        loop {
            let sent = copies.sent();
            let (copy, settled) = self.copy(request, sent, &call);
            let reply = copies.send(engine.call(copy, sent)).await;
            match self.read(request, settled, reply.and_then(read)) {
                Ok(answer) => {
                    if !unclear {
                        self.settle(request.id.clone());
                    }
                    return Ok((answer, unclear));
                }
                Err(error) if engine.is_closed() => return Err(error),
                Err(error) => {
                    unclear |= error.is_unclear();
                    copies.again(error, engine).await?;
                }
            }
        }
    }

    /// Sends a new request that creates the counter. Returns whether it did. If not, no late copy of
    /// it does.
    pub(crate) async fn create(
        self: Arc<Self>,
        call: impl Fn(&P, &RequestArgs<'_>) -> Invocation,
    ) -> Result<bool, Error> {
        let mut request = self.new_request();
        let created = match self.send_until_answered(&mut request, None, call, done).await {
            Ok((false, true)) => self.cancel(&request.id).await,
            answer => answer.map(|(is_done, _)| is_done),
        };
        created.map_err(|error| error.into_error(self.name()))
    }

    /// Cancels a request that did nothing, of which a copy may still run. Returns whether a copy did
    /// something meanwhile. When this ends, even with an error, no copy does anything, unless the
    /// client is closing.
    pub(super) async fn cancel(&self, id: &HoldId) -> Result<bool, WireError> {
        // No copy is of use for longer than that.
        let give_up = Instant::now() + 2 * self.engine.settings.command_timeout;
        let answer = self.send_undo(give_up, |counter, kept| counter.cancel(id, kept)).await;
        if answer.is_err() {
            select! {
                () = sleep_until(give_up) => {}
                _ = self.engine.closing() => {}
            }
        }
        Ok(!answer?)
    }

    /// Sends the call that undoes or cancels a request, until the server answers it. Fails when that
    /// did not happen before `give_up`, or the client is closed. `call` is told how long the server
    /// is to keep the id, in ms. The answer is that of [`cancelled`].
    pub(super) async fn send_undo(
        &self,
        give_up: Instant,
        call: impl Fn(&P, u64) -> Invocation,
    ) -> Result<bool, WireError> {
        let engine = &self.engine;
        let mut backoff = Backoff::persistent();
        loop {
            let answer = engine.transport.call(call(&self.protocol, KEPT_MS)).await;
            match answer.and_then(|reply| cancelled(&reply)) {
                Err(error) if !engine.is_closed() => {
                    engine.retry_even_if_refused(error, &mut backoff, give_up).await?;
                }
                answer => return answer,
            }
        }
    }

    /// Undoes a request that took this many permits, or may yet. `permits`: negative if it adds some.
    /// Returns whether that is done.
    pub(super) async fn undo(&self, permits: i64, call: impl Fn(&P, u64) -> Invocation) -> bool {
        let undone = self.send_undo(Instant::now() + KEPT, call).await;
        if let Err(error) = &undone
            && !self.engine.is_closed()
        {
            log!(warn, name = self.name(), permits, %error, "could not return permits");
        }
        undone.is_ok()
    }

    /// Reads the number. Without an answer it asks again until then.
    pub(crate) async fn number_by(&self, retry_until: Instant) -> Result<i64, Error> {
        let engine = &self.engine;
        let mut copies = Copies::new(Instant::now(), retry_until);
        loop {
            engine.check_open()?;
            let answer = copies.send(engine.transport.call(self.protocol.read())).await;
            let error = match answer.and_then(|reply| number_of(&reply)) {
                Ok(number) => return Ok(number),
                Err(error) => error,
            };
            engine.check_open()?;
            copies.again_for(error, engine, self.name()).await?;
        }
    }

    /// Reads the number once, for callers that may repeat it themselves.
    pub(crate) async fn number(&self) -> Result<i64, Error> {
        let reply = self.engine.transport.call(self.protocol.read()).await;
        let number = reply.and_then(|reply| number_of(&reply));
        number.map_err(|error| error.into_error(self.name()))
    }
}

impl<P: Countable> Drop for Counter<P> {
    fn drop(&mut self) {
        self.registry.unclaimed.put(self.name(), self.settled.take_all());
        // A newer one may have replaced it.
        let counters = &self.registry.by_name;
        counters.remove_if(self.name(), |_, counter| counter.strong_count() == 0);
    }
}

/// The counters of one client that are in use.
#[derive(Debug)]
pub(crate) struct Counters<P: Countable> {
    by_name: DashMap<String, Weak<Counter<P>>>,
    /// What those left that were in use.
    unclaimed: Unclaimed,
}

impl<P: Countable> Default for Counters<P> {
    fn default() -> Self {
        Self { by_name: DashMap::default(), unclaimed: Unclaimed::default() }
    }
}

impl<P: Countable> Counters<P> {
    /// The one counter of this name. All callers share its line.
    pub(crate) fn get(
        self: &Arc<Self>,
        engine: &Arc<Engine>,
        name: &str,
    ) -> Result<Arc<Counter<P>>, Error> {
        let what = P::WHAT;
        if name.is_empty() {
            return Err(Error::Invalid(format!("the name of a {what} must not be empty")));
        }
        let name = format!("{}{name}", engine.settings.prefix);
        let protocol = P::new(&name);
        if engine.transport.is_cluster() {
            let slot = |key: &str| engine.transport.slot(key.as_bytes());
            let apart = [protocol.channel(), protocol.requests()].map(slot) != [slot(&name); 2];
            if apart || !P::is_for_a_cluster(&name) {
                return Err(Error::Invalid(format!(
                    "the key and the channel of a {what} named {name:?} would not share a slot of the cluster: use a name without braces{}",
                    P::REMEDY
                )));
            }
        }
        let mut place = self.by_name.entry(name).or_default();
        if let Some(counter) = place.upgrade() {
            return Ok(counter);
        }
        let counter = Arc::new(Counter {
            settled: Settled::new(self.unclaimed.take(place.key())),
            engine: engine.clone(),
            protocol,
            line: CounterLine::default(),
            registry: self.clone(),
        });
        *place = Arc::downgrade(&counter);
        Ok(counter)
    }
}
