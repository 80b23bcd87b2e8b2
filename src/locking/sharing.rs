//! [`Sharing`]: readers of one client share one hold. The server sees a reader that stays.
//!
//! ```text
//! (none) --granted--> open --a writer waits--> closed --it had its turn, or the time is over--> open
//!                      |  `--the last one leaves--> (none)
//!                      `---joined, and the server asked from time to time---'
//! ```
//!
//! The first reader takes the hold, others join it without a request, and the last one releases it. Of
//! several that come at once only the first one asks. The last reader to leave first lets those join who
//! are about to. Nobody joins while a writer of another process waits, or shortly after a local writer
//! has come. New readers then stand in the local line, until the writer had the lock, for 0.1 s at most. If
//! no writer used that pause, readers join again for up to a second, whoever waits. Where reads follow each other and
//! nobody joins, there is a gap every 32 ms while others listen, and every second if they do not come.
//!
//! Readers with an owner or a lease of their own have holds of their own, as have parts of several locks. They wait
//! where the lock is left to writers.

pub(crate) mod arrival;
mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::{sync::Notify, time::Instant};

use self::state::{Joinable, State};
use crate::{
    error::Loss,
    locking::{
        budget::{Others, STALE, UNBROKEN, Yielding},
        hold::{Hold, release::Told},
        request::Request,
    },
    protocol::MESSAGES_OF_A_WRITER,
    sometimes::sometimes,
    wire::WireError,
};

/// Every fourth time each message counts as half a turn, and all who listen have time for their turns: readers that
/// take each message for a turn leave the lock to one writer, and never to another one that hears of it later. To do
/// so every time would cost reads: readers of other clients listen too, and wait for those of this one.
const LEFT_TO_ALL: u32 = 4;

/// What the readers and the writers of one lock of one client know of each other.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    state: Mutex<State>,
    /// Wakes those behind the first of several readers.
    behind: Notify,
}

/// What an anonymous reader is to do.
#[derive(Debug)]
pub(crate) enum Entry<'a> {
    /// Take a share of this hold, which is counted already.
    Join(Arc<Hold>),
    /// Ask the server about the hold, and who else waits.
    Ask(HoldCheck<'a>),
    /// Stand in line: a writer waits.
    KeptOut,
    /// Take a hold of its own.
    Alone,
}

impl Sharing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What this request is to do. `after_grant`: the one before it in line was granted just now.
    pub(crate) fn enter(&self, request: &Request, after_grant: bool) -> Entry<'_> {
        let now = Instant::now();
        let mut state = self.state();
        if !request.may_share {
            let may_wait = !after_grant && !request.bounds.is_one_answer();
            return match may_wait && state.is_left_to_others(now) {
                true => Entry::KeptOut,
                false => Entry::Alone,
            };
        }
        // A writer may wait since the door had to be open.
        state.close_for_writers(now);
        if !after_grant && state.is_writers_turn(now) {
            if request.bounds.is_one_answer() {
                return Entry::Alone;
            }
            state.kept_out.get_or_insert(now);
            return Entry::KeptOut;
        }
        if let Some(hold) = state.share(request, now) {
            return Entry::Join(hold);
        }
        let Some(joinable) = state.joinable.as_mut().filter(|joinable| joinable.suits(request))
        else {
            return Entry::Alone;
        };
        // One request is all that a caller who does not wait has time for.
        if joinable.is_asking || request.bounds.is_one_answer() {
            return Entry::Alone;
        }
        Entry::Ask(self.check(joinable))
    }

    /// The hold that a reader joins whose wait is over, if that needs no request. It is counted already.
    pub(crate) fn join_at_once(&self, request: &Request) -> Option<Arc<Hold>> {
        let now = Instant::now();
        let mut state = self.state();
        state.close_for_writers(now);
        let may_join = request.may_share && !state.is_writers_turn(now);
        if may_join { state.share(request, now) } else { None }
    }

    fn check(&self, joinable: &mut Joinable) -> HoldCheck<'_> {
        joinable.is_asking = true;
        HoldCheck { sharing: self, hold: joinable.hold.clone() }
    }

    /// A hold was granted just now, which others may join from now on.
    pub(crate) fn granted(&self, request: &Request, hold: &Arc<Hold>) {
        if !request.may_share || !hold.is_shareable() {
            return;
        }
        let now = Instant::now();
        if now >= hold.lease.confirmed() + STALE {
            return;
        }
        // Dropped when nothing is locked: that may tell an observer.
        let _old = {
            let mut state = self.state();
            // It was not kept out. Those that are kept out go on waiting.
            if state.is_writers_turn(now) {
                return;
            }
            let joinable = Joinable {
                hold: hold.clone(),
                confirmed: now,
                is_asking: false,
                was_joined: false,
                since: now,
            };
            let old = state.joinable.replace(joinable);
            state.kept_out = None;
            state.close_for_writers(now);
            old
        };
        self.answered();
    }

    /// The server was asked at `sent`, and has said that a writer holds the lock: it has its turn. Readers
    /// wait for the server from now on.
    pub(crate) fn reader_refused(&self, sent: Instant) {
        self.answered();
        let _old = {
            let mut state = self.state();
            // An older answer says less than the confirmation.
            if state
                .joinable
                .as_ref()
                .is_some_and(|joinable| joinable.hold.lease.confirmed() > sent)
            {
                return;
            }
            state.begin_anew()
        };
    }

    /// No reader waits any more.
    pub(crate) fn nobody_is_kept_out(&self) {
        self.state().kept_out = None;
    }

    /// One reader leaves the hold. Returns whether it was the last.
    pub(crate) fn leave_share(&self, hold: &Arc<Hold>) -> bool {
        let (last, _old) = {
            let mut state = self.state();
            let last = hold.lease.remove_share() == 0;
            let is_joinable = state.joinable_of(hold).is_some();
            (last, if last && is_joinable { state.last_leaves(Instant::now()) } else { None })
        };
        last
    }

    /// Whether others are likely to join the hold in a moment, which would then be released and acquired
    /// again: only one reader has it, others joined it before or wait for such a hold, and it is no writer's
    /// turn.
    /// Never of a hold that is older than [`UNBROKEN`]: the server sees it end now and then.
    pub(crate) fn is_about_to_be_joined(&self, hold: &Arc<Hold>) -> bool {
        if hold.lease.shares() != 1 {
            return false;
        }
        let mut state = self.state();
        let now = Instant::now();
        state.close_for_writers(now);
        let others_wait = state.arrivals.others > 0 || !hold.target.line.is_empty();
        let is_joined = |joinable: &mut Joinable| {
            (joinable.was_joined || others_wait) && now < joinable.since + UNBROKEN
        };
        state.joinable_of(hold).is_some_and(is_joined) && !state.is_writers_turn(now)
    }

    /// Whether a reader that leaves the hold to others has to ask the server whether it is still there.
    pub(crate) fn must_check(&self, hold: &Arc<Hold>) -> bool {
        if hold.lease.shares() < 2 {
            return false;
        }
        let mut state = self.state();
        let joinable = state.joinable_of(hold);
        joinable.is_none_or(|joinable| joinable.confirmed.elapsed() >= joinable.fresh_for())
    }

    /// Asks the server whether the hold is still there, and, if others may join it, who else waits.
    /// Returns why it is not there.
    pub(crate) async fn find_loss(&self, hold: &Arc<Hold>) -> Result<Option<Loss>, WireError> {
        let by = Instant::now() + hold.target.engine.settings.command_timeout;
        let check = {
            let mut state = self.state();
            let joinable = state.joinable_of(hold).filter(|joinable| !joinable.is_asking);
            joinable.map(|joinable| self.check(joinable))
        };
        if let Some(check) = check
            && check.ask().await == Some(true)
        {
            return Ok(hold.lease.loss());
        }
        hold.find_loss(by).await
    }

    /// The release by the last reader of a hold was answered.
    pub(crate) fn released(&self, told: Told) {
        let mut state = self.state();
        if state.joinable.is_some() {
            return;
        }
        let Told { sent, freed, others } = told;
        let now = Instant::now();
        if freed {
            let any = Others { count: 1, ..others };
            state.begin_gap(now, others.count, Yielding::new(now, now - sent, any));
        }
        let State { writers_turn: Some(writers_turn), kept_out, times_left, .. } = &mut *state
        else {
            return;
        };
        if writers_turn.is_gap {
            return;
        }
        if writers_turn.left.is_none() {
            *times_left = times_left.wrapping_add(1);
        }
        let messages = match times_left.is_multiple_of(LEFT_TO_ALL) {
            true => MESSAGES_OF_A_WRITER,
            false => others.messages,
        };
        let others = Others { messages, ..others };
        writers_turn.left = Some(match freed {
            true => Yielding::new(now, now - sent, others),
            false => {
                let free_by = writers_turn.ends_at(*kept_out);
                let others = Others { count: writers_turn.others, ..others };
                Yielding::of_held(free_by, now - sent, others)
            }
        });
    }

    /// Until when newcomers wait for a writer, as far as known now. See [`Yielding::until`].
    pub(crate) fn yields_until(&self, heard: Option<u64>) -> Option<Instant> {
        self.state().yields_until(Instant::now(), heard)
    }

    /// Whether newcomers wait for a writer, and a local caller says when they need not any more.
    pub(crate) fn is_local_turn(&self) -> bool {
        self.state().is_local_turn(Instant::now())
    }

    /// A local caller waits to write. [`writer_leaves`](Self::writer_leaves) must follow.
    pub(crate) fn writer_waits(&self) {
        self.state().writer_waits(Instant::now());
    }

    /// A local writer was granted the lock. Readers wait for the server from now on.
    pub(crate) fn writer_granted(&self) {
        let _old = { self.state().begin_anew() };
    }

    /// A local writer has released the lock on the server: it had its turn.
    pub(crate) fn writer_released(&self) {
        self.state().open_for_readers();
    }

    /// The caller waits no longer.
    pub(crate) fn writer_leaves(&self) {
        self.state().writer_leaves();
    }
}

/// A check of the hold that readers may join: the server is asked about it. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct HoldCheck<'a> {
    sharing: &'a Sharing,
    hold: Arc<Hold>,
}

impl HoldCheck<'_> {
    /// Asks the server whether the hold is there, and who else waits. Returns whether it is there.
    /// `None`: there is no answer.
    pub(crate) async fn ask(self) -> Option<bool> {
        let sent = Instant::now();
        let others = self.hold.extend(false).await;
        let now = Instant::now();
        let _old = {
            let mut state = self.sharing.state();
            match (state.joinable_of(&self.hold), others) {
                (None, _) => None,
                (Some(joinable), Some(others)) if now < sent + STALE => {
                    joinable.confirmed = now;
                    if others > 0 {
                        sometimes!("readers: a writer may wait elsewhere");
                        state.close(now, others);
                    }
                    None
                }
                // It is gone, or the server does not say. Newcomers have to ask for themselves.
                (Some(_), _) => state.joinable.take(),
            }
        };
        match others {
            Some(_) => Some(true),
            None => self.hold.lease.loss().map(|_| false),
        }
    }
}

impl Drop for HoldCheck<'_> {
    fn drop(&mut self) {
        if let Some(joinable) = self.sharing.state().joinable_of(&self.hold) {
            joinable.is_asking = false;
        }
    }
}
