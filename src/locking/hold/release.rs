//! The release of a hold.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Hold, cleanup::sweep};
use crate::{
    engine::Backoff,
    error::{Error, Loss},
    protocol,
    sometimes::sometimes,
};

/// How often a release is tried.
#[derive(Clone, Copy, Debug)]
enum Tries {
    /// Until then, while the errors may pass.
    Until(Instant),
    /// After any error, until the server has certainly freed the key by itself. The release began
    /// then.
    ToTheEnd(Instant),
}

/// What was known about a hold when its release began.
#[derive(Clone, Copy, Debug)]
struct Before {
    lost: Option<Loss>,
    /// Whether a renewal would have noticed a loss.
    was_renewed: bool,
}

/// The result of releasing one share of a hold.
#[derive(Debug)]
#[must_use = "the hand-off has to know of it"]
pub(crate) struct Released {
    /// The guard's result.
    pub(crate) result: Result<(), Error>,
    /// Whether it was the last share.
    pub(crate) ended: bool,
    /// When the copy was sent that freed the lock, and how many other clients got the message.
    /// `None`: the server has not said so.
    pub(crate) told: Option<(Instant, u64)>,
    /// How many messages had come on the lock's channel before, if this client is subscribed to it.
    pub(crate) heard: Option<u64>,
}

impl Hold {
    /// Releases one share. The last one frees the lock. If the server does not answer in time, the
    /// release is repeated in the background.
    pub(crate) async fn release(self: &Arc<Self>, watched: bool) -> Released {
        let mut count = self.count.lock().await;
        let to = count.saturating_sub(1);
        let ended = to == 0;
        let engine = &self.target.engine;
        let was_renewed = self.lease.was_renewed(Instant::now(), engine.settings.watchdog);
        if watched {
            self.lease.unwatch();
        }
        let before = Before { lost: self.lease.loss(), was_renewed };
        if ended {
            self.lease.end();
            engine.watchdog.remove(&self.lease);
        }
        self.set_count(&mut count, to);
        let outlives = self.lease.outlives();
        let give_up = Instant::now() + engine.settings.retry_timeout.min(outlives);
        let heard =
            if ended && self.target.hands_off { self.target.heard(self.id()) } else { None };
        let released = self.lower(to, before, Tries::Until(give_up)).await;
        let ours = u64::from(heard.is_some());
        let told = released.as_ref().ok();
        let told = told.map(|(sent, told)| (*sent, told.saturating_sub(ours)));
        // A count that is too high corrects itself. A lock that stays held does not.
        if ended && matches!(released, Err(Error::Redis(_))) {
            sometimes!("release: goes on in the background");
            let hold = self.clone();
            engine.janitor.spawn(async move {
                let tries = Tries::ToTheEnd(Instant::now());
                if let Err(Error::Redis(error)) = hold.lower(to, before, tries).await {
                    let lock = hold.target.name();
                    tracing::warn!(lock, holder = ?hold.id(), %error, "could not release");
                }
            });
        }
        if ended && let Some(not_after) = self.unanswered {
            let (target, id) = (self.target.clone(), self.id().clone());
            engine.janitor.spawn(sweep(target, id, outlives, not_after));
        }
        Released { result: released.map(drop), ended, told, heard }
    }

    /// Lowers the count on the server. Returns when the copy was sent that did it, and how many
    /// clients got the message.
    async fn lower(&self, to: u32, before: Before, tries: Tries) -> Result<(Instant, u64), Error> {
        let engine = &self.target.engine;
        let mut backoff = match tries {
            Tries::Until(_) => Backoff::new(),
            Tries::ToTheEnd(_) => Backoff::persistent(),
        };
        let mut may_be_done = false;
        let mut trusted = self.lease.is_trusted(Instant::now());
        loop {
            if engine.is_closed() {
                return Err(Error::Closed);
            }
            let sent = Instant::now();
            let place = if to == 0 { engine.serves(&*self.target.protocol) } else { None };
            let call = self.target.protocol.release(self.id(), to);
            let answer = engine.call(call).await;
            let answer = answer.and_then(protocol::released);
            if answer.is_ok() {
                self.target.released(place, self.id(), || self.lease.outlived_at(sent));
            }
            match &answer {
                Ok(_) if to == 0 => self.target.say_freed(),
                answer => self.target.say(answer.as_ref().err()),
            }
            let error = match answer {
                Ok(Some(told)) => return Ok((sent, told)),
                // An earlier copy, sent while the hold was trusted, may have done it. It is unknown
                // whether the hold had been lost before.
                Ok(None) if may_be_done => match before.was_renewed {
                    true => {
                        sometimes!("release: an earlier copy did it");
                        return Ok((sent, 0));
                    }
                    false => {
                        sometimes!("release: unknown who did it");
                        return Err(Error::NotHeld { why: Loss::Unknown });
                    }
                },
                Ok(None) => {
                    let why = before.lost.unwrap_or_else(|| self.lease.why_gone());
                    self.lease.lose(why);
                    return Err(Error::NotHeld { why });
                }
                Err(error) => error,
            };
            may_be_done |= trusted && error.is_unclear();
            match tries {
                Tries::Until(give_up) => engine.may_retry(error, &mut backoff, give_up).await,
                Tries::ToTheEnd(begun) => {
                    let give_up = self.lease.outlived_at(begun);
                    engine.must_retry(error, &mut backoff, give_up).await
                }
            }
            .map_err(|error| error.into_error(self.target.name()))?;
            trusted = self.lease.is_trusted(Instant::now());
        }
    }
}
