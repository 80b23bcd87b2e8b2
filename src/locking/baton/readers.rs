//! How a baton ends whose hold other readers share: they keep it, and the last one releases it.

use futures::FutureExt;
use tokio::time::Instant;

use super::{Baton, Stake};
use crate::{
    error::{Error, Loss},
    locking::copies::Copies,
};

impl Stake {
    /// One reader leaves the hold, with this result for its caller. `None`: other readers have it still.
    pub(super) fn leave_share(mut self: Box<Self>, left: Result<(), &Error>) -> Option<Box<Self>> {
        if !std::mem::take(&mut self.counts) || self.home.sharing().leave_share(&self.hold) {
            return Some(self);
        }
        self.hold.lease.turns.end_one(self.turn, left);
        None
    }

    /// Asks the server about a hold that is shared, and leaves it. Whoever is the last by then releases
    /// it. To be run to its end.
    async fn check_and_leave(self: Box<Self>) -> Result<(), Error> {
        let begun = Instant::now();
        let checked = self.check(begun).await;
        match self.leave_share(checked.as_ref().copied()) {
            Some(stake) => stake.release_and_settle(Some(begun)).await,
            None => checked,
        }
    }

    /// Asks the server about a hold that is shared, until there is an answer. The last reader stops
    /// asking: its release has the answer.
    async fn check(&self, begun: Instant) -> Result<(), Error> {
        let Self { home, hold, .. } = self;
        let engine = &hold.target.engine;
        let mut copies = Copies::new(begun, begun + engine.settings.retry_timeout);
        loop {
            engine.check_open()?;
            let error = match copies.send(home.sharing().find_loss(hold)).await {
                Ok(None) => return Ok(()),
                // It was there, and the client has been closed meanwhile.
                Ok(Some(Loss::Closed)) => return Err(Error::Closed),
                Ok(Some(why)) => return Err(Error::NotHeld { why }),
                Err(error) => error,
            };
            if hold.lease.shares() == 1 {
                return Ok(());
            }
            copies.again_for(error, engine, hold.target.name()).await?;
        }
    }
}

impl Baton {
    /// A reader leaves a hold that others share. `None`: they have it still. Now and then the server is
    /// first asked whether the hold is there, as before a hand-off.
    pub(super) async fn leave_to_readers(mut self) -> Result<Option<Self>, Error> {
        let stake = self.0.take().expect("taken once");
        if !stake.counts {
            return Ok(Some(Self(Some(stake))));
        }
        let hold = stake.hold.clone();
        if stake.home.sharing().must_check(&hold) {
            let janitor = hold.target.engine.janitor.clone();
            // It has the hold until there is an answer, and the caller may not be polled.
            return janitor.run_apart(stake.check_and_leave()).boxed().await.map(|()| None);
        }
        if let Some(stake) = stake.leave_share(Ok(())) {
            return Ok(Some(Self(Some(stake))));
        }
        hold.target.engine.check_open()?;
        hold.lease.check_trusted()?;
        Ok(None)
    }
}
