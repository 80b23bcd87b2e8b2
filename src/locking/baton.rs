//! [`Baton`]: a hold between two callers. [`Stake`]: the reference to a hold that a guard or a baton keeps.
//!
//! ```text
//! share --unlock, drop--> baton --a local waiter exists--> slot --adopted--> share
//!                           |                               `--swapped--> (another hold)
//!                           |--other readers have the hold--> (they keep it)
//!                           `--none, or others come first--> released
//! ```

mod readers;

use std::{fmt, sync::Arc};

use futures::FutureExt;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    determinism::select,
    error::Error,
    locking::{
        budget::{MOST_COURTESY, Plan},
        handoff::{ADOPT_WITHIN, Forgotten, Handoff, Offered},
        hold::{
            Hold,
            release::{Released, Told},
            target::Target,
        },
        sharing::Sharing,
    },
    observer::HoldEnd,
    sometimes::sometimes,
    wire::ServerId,
};

/// The lock in which a hold is handed off.
///
/// A trait, because `registry.rs` uses batons: files form no circle.
pub(crate) trait Home: fmt::Debug + Send + Sync {
    fn target(&self) -> &Target;
    fn handoff(&self) -> &Handoff<Baton>;
    fn sharing(&self) -> &Sharing;
    /// Whether readers of this client wait for a writer's lock.
    fn has_waiting_readers(&self) -> bool;
    /// The lock was released on the server. If it was a writer's, readers may have it.
    fn freed(&self);
}

/// A hold, with what its guards and batons need to know.
#[derive(Debug)]
pub(super) struct Stake {
    pub(super) home: Arc<dyn Home>,
    pub(super) hold: Arc<Hold>,
    /// Whether the watchdog renews the hold for this value.
    pub(super) watched: bool,
    /// Its turn, if somebody sees it.
    pub(super) turn: u64,
    /// Whether it counts among the shares of the hold.
    pub(super) counts: bool,
}

impl Stake {
    /// The watchdog does not renew the hold for this value from now on.
    pub(super) fn unwatch(&mut self) {
        if std::mem::take(&mut self.watched) {
            self.hold.lease.unwatch();
        }
    }

    /// Releases the hold on the server, or one entry of it, and records the result. To be run to its end.
    /// `since`: when the call began, if it has waited for something else.
    ///
    /// If another change of the hold count has no answer in time, the release goes on in the
    /// background.
    async fn release_and_settle(self, since: Option<Instant>) -> Result<(), Error> {
        let Self { home, hold, watched, .. } = self;
        if let Some(released) = hold.release(watched, since).await {
            return settle(home, &hold, released);
        }
        sometimes!("release: waits for the hold count in the background");
        let janitor = hold.target.engine.janitor.clone();
        janitor.spawn(async move {
            loop {
                if let Some(released) = hold.release(watched, None).await {
                    let _ = settle(home, &hold, released);
                    return;
                }
            }
        });
        Err(Error::timed_out())
    }
}

/// A hold whose last guard is gone. Dropping it leaves the hold to the next local waiter, or
/// releases it in the background.
#[derive(Debug)]
pub(crate) struct Baton(pub(super) Option<Box<Stake>>);

impl Baton {
    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.stake().hold
    }

    /// Returns the hold. The caller takes care of its end.
    pub(super) fn into_stake(mut self) -> Box<Stake> {
        self.0.take().expect("taken once")
    }

    fn stake(&self) -> &Stake {
        self.0.as_ref().expect("taken last")
    }

    /// The hold is to be swapped for another one. It is not renewed for this value meanwhile.
    pub(crate) fn swapping(&mut self) {
        let Some(stake) = &mut self.0 else { return };
        stake.hold.lease.mark_between_callers();
        stake.unwatch();
    }

    /// Another hold has replaced it on the server. `by`: the server that was asked, see
    /// [`Engine::server_for_release`]. Returns whether it was the current local hold.
    ///
    /// The lock is not free, and no waiter is woken. Mostly the first of them is the caller.
    ///
    /// [`Engine::server_for_release`]: crate::engine::Engine::server_for_release
    pub(crate) fn replaced(self, by: Option<ServerId>) -> bool {
        let Stake { home, hold, .. } = *self.into_stake();
        hold.replaced(by);
        home.handoff().released(&hold, None)
    }

    /// The server that was asked has said that the hold is gone.
    pub(crate) fn gone(self, by: Option<ServerId>) {
        let Stake { home, hold, .. } = *self.into_stake();
        hold.lease.lose(hold.lease.why_gone());
        hold.lease.turns.end(HoldEnd::ReleaseGivenUp);
        hold.replaced(by);
        home.released(&hold, None);
    }

    /// Hands the hold off to the next local waiter, or releases it on the server. Goes on in the
    /// background if it is dropped.
    pub(crate) async fn hand_off_or_release(self) -> Result<(), Error> {
        let Stake { home, hold, counts, .. } = self.stake();
        if !*counts || !home.sharing().is_about_to_be_joined(hold) {
            return self.hand_off_or_release_now().await;
        }
        // It has the hold until those were polled, and the caller may not be polled.
        let janitor = hold.target.engine.janitor.clone();
        let others_first = yield_now().then(|()| self.hand_off_or_release_now());
        janitor.run_apart(others_first).boxed().await
    }

    async fn hand_off_or_release_now(self) -> Result<(), Error> {
        let Some(baton) = self.leave_to_readers().await? else { return Ok(()) };
        let now = Instant::now();
        let baton = match baton.plan(now) {
            Plan::HandOff => match baton.offer(now) {
                Ok(()) => return Ok(()),
                Err(baton) => baton,
            },
            Plan::Ask => {
                let target = baton.hold().target.clone();
                // The hold is renewed until there is an answer, and the caller may not be polled.
                return target.engine.janitor.run_apart(baton.ask_and_hand_off()).boxed().await;
            }
            Plan::Release => baton,
        };
        let stake = *baton.into_stake();
        let (target, is_owned) = (stake.hold.target.clone(), stake.hold.is_owned());
        let release = stake.release_and_settle(None);
        let janitor = &target.engine.janitor;
        match is_owned {
            // Later releases of the hold wait for this one, and the caller may not be polled.
            true => janitor.run_apart(release).boxed().await,
            false => janitor.finish_if_dropped(release).await,
        }
    }

    /// Releases the hold on the server, whoever waits. To be run to its end.
    pub(crate) async fn release(self) -> Result<(), Error> {
        self.into_stake().release_and_settle(None).await
    }

    fn plan(&self, now: Instant) -> Plan {
        let Stake { home, hold, .. } = self.stake();
        match hold.target.hands_off && !hold.target.line.is_empty() {
            true => home.handoff().plan(hold, now),
            false => Plan::Release,
        }
    }

    /// Asks the server whether the hold is there and who else waits, and hands it off if that is
    /// allowed. To be run to its end.
    async fn ask_and_hand_off(self) -> Result<(), Error> {
        sometimes!("baton: asks whether to hand off");
        let begun = Instant::now();
        let Stake { home, hold, watched, .. } = self.stake();
        // If there is no answer, or the hold is gone, the release finds out.
        let others = hold.extend(*watched).await;
        let others = others.map(|others| others + u64::from(home.has_waiting_readers()));
        let may_be_handed_off =
            others.is_some_and(|others| home.handoff().confirmed_by_server(hold, others));
        match if may_be_handed_off { self.offer(Instant::now()) } else { Err(self) } {
            Ok(()) => Ok(()),
            Err(baton) => baton.into_stake().release_and_settle(Some(begun)).await,
        }
    }

    /// Offers the hold to the next local waiter. Returns it when there is none.
    fn offer(self, now: Instant) -> Result<(), Self> {
        let home = self.stake().home.clone();
        match home.handoff().offer(self, now) {
            Offered::Yes { needs_task } => {
                let target = home.target();
                if needs_task {
                    target.engine.janitor.spawn(release_forgotten(home.clone()));
                }
                target.line.nudge();
                Ok(())
            }
            Offered::No(baton) => Err(baton),
        }
    }
}

impl AsRef<Hold> for Baton {
    fn as_ref(&self) -> &Hold {
        &self.stake().hold
    }
}

impl Drop for Baton {
    fn drop(&mut self) {
        let Some(stake) = self.0.take().and_then(|stake| stake.leave_share(Ok(()))) else { return };
        let baton = Self(Some(stake));
        let now = Instant::now();
        let left = match baton.plan(now) {
            Plan::HandOff => baton.offer(now),
            Plan::Ask | Plan::Release => Err(baton),
        };
        let Err(baton) = left else { return };
        // A job that never runs, because its runtime has ended, must not come back here.
        let stake = baton.into_stake();
        let target = stake.hold.target.clone();
        target.clone().engine.janitor.spawn(async move {
            match Self(Some(stake)).hand_off_or_release().await {
                Ok(()) | Err(Error::Closed) => {}
                Err(error) => {
                    log!(warn, lock = target.name(), %error, "release of a dropped guard");
                }
            }
        });
    }
}

/// Records the result of a release. Returns the result for the guard.
fn settle(home: Arc<dyn Home>, hold: &Hold, released: Released) -> Result<(), Error> {
    if released.ended && hold.target.hands_off {
        home.released(hold, released.told);
        home.freed();
    }
    if let (true, Some(told)) = (hold.target.shares && released.ended, released.told) {
        home.sharing().released(told);
    }
    if released.ended {
        hold.mark_over();
    }
    let yields = hold.target.hands_off || hold.target.shares;
    let others_wait = yields && released.told.is_some_and(|told| told.others.count > 0);
    if others_wait && home.handoff().keep_until(Instant::now() + MOST_COURTESY) {
        home.target().engine.runtime().clone().spawn(keep(home));
    }
    released.result
}

impl dyn Home {
    /// See [`Handoff::released`]. Also tells the local waiters.
    fn released(&self, hold: &Hold, told: Option<Told>) -> bool {
        let current = self.handoff().released(hold, told);
        if current {
            hold.target.line.nudge();
        }
        current
    }
}

/// Releases a hold that no waiter adopts or swaps. Ends when the slot has been empty for a while.
async fn release_forgotten(home: Arc<dyn Home>) {
    let engine = &home.target().engine;
    loop {
        let closing = select! {
            () = sleep(ADOPT_WITHIN) => false,
            _ = engine.closing() => true,
        };
        let Forgotten { baton, idle } = home.handoff().forgotten(closing);
        if let Some(baton) = baton {
            let _ = baton.release().await;
        }
        if idle {
            return;
        }
    }
}

/// Keeps the lock's state for as long as the lock may be left to others, whoever uses it. Otherwise a caller that makes
/// a handle for each turn would never leave it to them.
async fn keep(home: Arc<dyn Home>) {
    while let Some(until) = home.handoff().kept_until(Instant::now()) {
        select! {
            () = sleep_until(until) => {}
            _ = home.target().engine.closing() => return,
        }
    }
}
