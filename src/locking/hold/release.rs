//! The release of a hold, which lowers its hold count and frees the lock at 0.
//!
//! The caller's own retries follow the table in [`wire::error`](crate::wire::WireError). If they end
//! without a result, `free` repeats the release in the background, after every error, until the lease has
//! ended. The janitor runs it.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Hold, cleanup::sweep};
use crate::{
    engine::Backoff,
    error::{Error, Loss},
    locking::{budget::Others, copies::Copies},
    observer::HoldEnd,
    protocol,
    sometimes::sometimes,
    wire::WireError,
};

/// The result of releasing one share of a hold.
#[derive(Debug)]
#[must_use = "the hand-off has to know of it"]
pub(crate) struct Released {
    /// The guard's result.
    pub(crate) result: Result<(), Error>,
    /// Whether it was the last share.
    pub(crate) ended: bool,
    /// What the server has said. `None`: nothing.
    pub(crate) told: Option<Told>,
}

/// What the server has said of a release.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Told {
    /// When the copy was sent that it has answered.
    pub(crate) sent: Instant,
    /// Whether the lock is free. Other readers may have it still.
    pub(crate) freed: bool,
    pub(crate) others: Others,
}

impl Hold {
    /// Releases one share. The last one frees the lock. If the server does not answer in time, the
    /// release is repeated in the background. `since`: when the call began, if it has waited for
    /// something else.
    ///
    /// `None`: another change of the hold count has no answer yet, and the time is over. Nothing was
    /// done.
    pub(crate) async fn release(
        self: &Arc<Self>,
        watched: bool,
        since: Option<Instant>,
    ) -> Option<Released> {
        let give_up = self.target.engine.settings.retry_timeout.min(self.lease.longest());
        let copies = Copies::since(since, |begun| begun + give_up);
        let (mut count, mut copies) = self.counting(copies).await?;
        let to = count.saturating_sub(1);
        let ended = to == 0;
        let (target, engine) = (&self.target, &self.target.engine);
        let begun = copies.sent();
        // Whether a renewal would have noticed a loss.
        let was_renewed = self.lease.was_renewed(begun);
        if watched {
            self.lease.unwatch();
        }
        let lost = self.lease.loss_at(begun);
        if ended {
            self.lease.end(begun);
            engine.watchdog.remove(&self.lease);
        }
        self.set_count(&mut count, to);
        let longest = self.lease.longest();
        let counts = ended && (target.hands_off || target.shares);
        let heard = if counts { target.heard(self.id()) } else { None };
        let mut lowering =
            Lowering { hold: self, to, lost, was_renewed, heard, may_be_done: false };
        let released = lowering.lower(&mut copies).await;
        let may_be_done = lowering.may_be_done;
        if ended {
            self.end_turn(released.as_ref().map(drop));
        }
        // Only the last release goes on in the background. After any other, the next release corrects
        // the count: each sends the count that is to remain.
        if ended && matches!(released, Err(Error::Redis(_))) {
            sometimes!("release: goes on in the background");
            engine.janitor.spawn(free(self.clone(), may_be_done, was_renewed));
        }
        if ended && let Some(not_after) = self.unanswered {
            engine.janitor.spawn(sweep(target.clone(), self.id().clone(), longest, not_after));
        }
        let told = released.as_ref().ok().copied();
        Some(Released { result: released.map(drop), ended, told })
    }

    /// Whether a copy of the request that acquired it may act after the end of the lease.
    fn may_come_back(&self) -> bool {
        let (transport, key) = (&self.target.engine.transport, self.target.protocol.key());
        let ended = || transport.time_at(key, self.lease.leased_until());
        self.unanswered.is_some_and(|not_after| ended() <= not_after)
    }

    /// What the caller of a release is told that finds nothing. `lost`: how the hold had ended before, if
    /// that was known. `may_be_done`: whether an earlier copy, sent while the hold was trusted, may have
    /// done it. Unless the hold was renewed lately, it is unknown whether it had been lost before.
    fn meaning_of_nothing(
        &self,
        lost: Option<Loss>,
        may_be_done: bool,
        was_renewed: bool,
    ) -> Result<(), Loss> {
        match (may_be_done, was_renewed) {
            (true, true) => Ok(()),
            (true, false) => Err(Loss::Unknown),
            (false, _) => Err(lost.unwrap_or_else(|| self.lease.why_gone())),
        }
    }

    /// The last share was released, with this result.
    fn end_turn(&self, result: Result<(), &Error>) {
        match result {
            // The attempt that may have replaced it ends its turn, when that is undone.
            Err(Error::NotHeld { .. }) if self.lease.may_be_replaced() => {}
            // Its caller was told that it is released.
            Err(Error::NotHeld { .. }) if self.lease.is_between_callers() => {
                self.lease.turns.end(HoldEnd::ReleaseGivenUp);
            }
            result => self.lease.turns.released(result),
        }
    }

    /// Sends one copy of a release now. Returns how many clients got the message, or `None` if there
    /// was nothing to release.
    async fn send_release(&self, to: u32, sent: Instant) -> Result<Option<u64>, WireError> {
        let (target, engine) = (&self.target, &self.target.engine);
        let server = if to == 0 { engine.server_for_release(&*target.protocol) } else { None };
        let answer = engine.call(target.protocol.release(self.id(), to), sent).await;
        let answer = answer.and_then(protocol::released);
        if answer.is_ok() {
            target.remember_release(server, self.id(), || self.lease.outlived_at(sent));
        }
        match &answer {
            // Those who wait may share it.
            Ok(None) => target.say_freed(),
            Ok(_) if to == 0 || target.shares => target.say_freed(),
            answer => target.say(answer.as_ref().err()),
        }
        answer
    }
}

/// The request that lowers the hold count.
struct Lowering<'a> {
    hold: &'a Hold,
    /// The count that is to remain.
    to: u32,
    /// How the hold had ended before, if that was known.
    lost: Option<Loss>,
    /// Whether a renewal would have noticed a loss.
    was_renewed: bool,
    /// How many messages had come on the lock's channel, if this client is subscribed to it and wants to
    /// know.
    heard: Option<u64>,
    /// Whether a copy without an answer may have done it.
    may_be_done: bool,
}

impl Lowering<'_> {
    /// Sends copies until one is answered, or the time is over.
    async fn lower(&mut self, copies: &mut Copies) -> Result<Told, Error> {
        let Self { hold, to, .. } = *self;
        let (target, engine) = (&hold.target, &hold.target.engine);
        loop {
            if engine.is_closed() {
                return Err(Error::Closed);
            }
            let sent = copies.sent();
            let trusted = hold.lease.is_trusted(sent);
            let error = match copies.send(hold.send_release(to, sent)).await {
                Ok(Some(answer)) => return self.done(sent, answer),
                Ok(None) => return self.found_nothing(sent),
                Err(error) => error,
            };
            self.may_be_done |= trusted && !error.did_nothing();
            copies.again_for(error, engine, target.name()).await?;
        }
    }

    /// A copy that was sent at `sent` has done it.
    fn done(&self, sent: Instant, answer: u64) -> Result<Told, Error> {
        match self.lost {
            // The server had said that it was gone, and has it back: from a database that was swapped,
            // or from an old master. Another holder may have had the lock since.
            Some(why @ (Loss::Removed | Loss::Taken)) => Err(Error::NotHeld { why }),
            // A copy of the request that acquired it may have acquired it again since it ended.
            Some(why @ Loss::Expired) if self.hold.may_come_back() => Err(Error::NotHeld { why }),
            // The last reader frees the lock, and is told 1 more.
            _ if self.hold.target.shares => {
                Ok(self.told(sent, answer > 0, answer.saturating_sub(1)))
            }
            _ => Ok(self.told(sent, true, answer)),
        }
    }

    /// A copy that was sent at `sent` has found nothing to release.
    fn found_nothing(&self, sent: Instant) -> Result<Told, Error> {
        // Only the release of the last share removes the hold, so only it can have been done by an
        // earlier copy.
        let may_be_done = self.may_be_done && self.to == 0;
        match self.hold.meaning_of_nothing(self.lost, may_be_done, self.was_renewed) {
            Ok(()) => {
                sometimes!("release: an earlier copy did it");
                Ok(self.told(sent, !self.hold.target.shares, 0))
            }
            Err(why) => {
                if why == Loss::Unknown {
                    sometimes!("release: unknown who did it");
                }
                self.hold.lease.lose(why);
                Err(Error::NotHeld { why })
            }
        }
    }

    /// `listening`: how many clients got the message, this one included.
    fn told(&self, sent: Instant, freed: bool, listening: u64) -> Told {
        let messages = self.hold.target.protocol.messages_of_a_release();
        let own = if freed { messages } else { 0 };
        let count = listening.saturating_sub(u64::from(self.heard.is_some()));
        let heard = self.heard.map(|before| before + own);
        Told { sent, freed, others: Others { count, heard, messages } }
    }
}

/// Frees the lock of a hold that has ended, after any error again, until the server has certainly
/// freed it by itself. The rest as in [`Hold::release`].
async fn free(hold: Arc<Hold>, mut may_be_done: bool, was_renewed: bool) {
    let (target, engine) = (&hold.target, &hold.target.engine);
    let begun = Instant::now();
    let mut backoff = Backoff::persistent();
    while !engine.is_closed() {
        let sent = Instant::now();
        let trusted = hold.lease.is_trusted(sent);
        let error = match hold.send_release(0, sent).await {
            Ok(Some(_)) => return hold.end_turn(Ok(())),
            // What may have replaced it is being undone.
            Ok(None) if hold.lease.may_be_replaced() => {
                return hold.lease.turns.end(HoldEnd::Released);
            }
            Ok(None) => {
                let found = hold.meaning_of_nothing(None, may_be_done, was_renewed);
                let found = found.map_err(|why| Error::NotHeld { why });
                return hold.end_turn(found.as_ref().copied());
            }
            Err(error) => error,
        };
        may_be_done |= trusted && !error.did_nothing();
        let give_up = hold.lease.outlived_at(begun);
        if let Err(error) = engine.retry_even_if_refused(error, &mut backoff, give_up).await {
            let error = error.into_error(target.name());
            if let Error::Redis(error) = &error {
                log!(warn, lock = target.name(), holder = ?hold.id(), %error, "could not release");
            }
            return hold.lease.turns.release_given_up(&error);
        }
    }
}
