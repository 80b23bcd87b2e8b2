//! What the local line and the hand-off see of a [`LockState`].

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::LockState;
use crate::{
    engine::Subscriptions,
    error::Error,
    locking::{
        baton::{Baton, Home},
        budget::TIME,
        handoff::{ADOPT_WITHIN, Handoff},
        hold::target::Target,
        line::{Awaited, LocalLine, minder::Minder},
        pool,
        request::Request,
        share::Share,
    },
    observer::Outcome,
};

/// How often a reader that waits for a hold of this client looks whether it is still there. It is told
/// when the hold is left to it, or released.
const LOOK: Duration = Duration::from_millis(20);

impl Home for LockState {
    fn target(&self) -> &Target {
        &self.target
    }

    fn handoff(&self) -> &Handoff<Baton> {
        &self.handoff
    }

    fn looks_every(&self) -> Duration {
        if self.reading.is_some() { TIME } else { ADOPT_WITHIN }
    }

    fn look_after(self: Arc<Self>) -> bool {
        let Some(reading) = self.reading.clone() else { return false };
        pool::relieve(self, &reading)
    }
}

/// What a local caller gives to the head of the line.
#[derive(Debug)]
pub(crate) enum Offer {
    /// A hold that was left to the next caller.
    Left(Baton),
    /// A share of the hold of local readers.
    Joined(Share),
}

impl Offer {
    /// Makes a share of it. The baton comes back if the hold does not suit the request.
    pub(crate) fn accept(self, lock: &LockState, request: &Request) -> Result<Share, Baton> {
        let (share, how) = match self {
            Self::Left(baton) => {
                let share = Share::adopt(baton, request, lock.target.kind.side())?;
                (share, Outcome::HandedOn)
            }
            Self::Joined(share) => (share, Outcome::Joined),
        };
        request.granted(how);
        Ok(share)
    }
}

impl Awaited for Arc<LockState> {
    type Offer = Offer;

    fn line(&self) -> &LocalLine {
        &self.target.line
    }

    fn name(&self) -> &str {
        LockState::name(self)
    }

    fn holds_here(&self) -> usize {
        self.target.holds_here()
    }

    fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.target.engine.subscriptions
    }

    fn check_open(&self) -> Result<(), Error> {
        self.target.engine.check_open()
    }

    async fn closing(&self) -> Error {
        self.target.engine.closing().await
    }

    fn mind(&self) {
        self.target.engine.janitor.spawn(Minder::new(self.clone()).run());
    }

    fn take_offer(&self) -> Option<Offer> {
        self.join().map(Offer::Joined).or_else(|| self.handoff.take().map(Offer::Left))
    }

    fn is_offered(&self) -> bool {
        self.handoff.is_offered() || self.is_of_readers() && self.handoff.is_joinable()
    }

    fn may_be_offered(&self) -> bool {
        self.target.hands_off && self.handoff.is_here()
    }

    fn is_untried(&self) -> bool {
        self.reading.is_some() && self.handoff.is_open()
    }

    fn yields_until(&self, heard: Option<u64>) -> Option<Instant> {
        // The server would grant a read beside a read hold of this client, also past others that wait.
        let is_kept = || self.is_of_readers() && self.handoff.is_kept();
        let to_local = || is_kept().then(|| Instant::now() + LOOK);
        self.handoff.yields_until(heard).or_else(to_local)
    }

    fn emptied(&self) {
        self.target.line.answers.forget();
        drop(self.handoff.take());
    }
}
