//! An observer that counts, and looks whether what begins also ends.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard},
};

use redisson_lock::observer::{
    AcquireEnded, HoldBegun, HoldEnd, HoldEnded, Observer, Outcome, ReleaseFailed, Renewal,
    WaitBegun,
};

/// How often each thing happened.
pub(crate) type Counts = BTreeMap<String, u64>;

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    counts: Counts,
    waiting: i64,
    /// The locks and holders that have begun and not ended.
    held: BTreeSet<(String, String)>,
    /// What must not happen.
    wrong: Vec<String>,
}

impl Tally {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn count(&self, what: impl Into<String>) {
        *self.state().counts.entry(what.into()).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts.clone()
    }

    pub(crate) fn of(&self, what: &str) -> u64 {
        self.state().counts.get(what).copied().unwrap_or_default()
    }

    /// How many acquisitions wait, and how many holds there are.
    pub(crate) fn now(&self) -> (i64, usize) {
        let state = self.state();
        (state.waiting, state.held.len())
    }

    /// Asserts that all that began has ended, once.
    pub(crate) fn assert_over(&self) {
        let state = self.state();
        assert!(state.wrong.is_empty(), "{:#?}", state.wrong);
        assert_eq!(state.waiting, 0);
        assert!(state.held.is_empty(), "{:#?}", state.held);
    }
}

impl Observer for Tally {
    fn wait_begun(&self, _: &WaitBegun<'_>) {
        self.state().waiting += 1;
        self.count("waits");
    }

    fn acquire_ended(&self, end: &AcquireEnded<'_>) {
        self.count(format!("acquire {} {}", end.kind.as_str(), end.outcome.as_str()));
        self.count(format!("acquire {}", end.outcome.as_str()));
        let mut state = self.state();
        state.waiting -= i64::from(end.waited);
        let granted = matches!(
            end.outcome,
            Outcome::Granted | Outcome::HandedOff | Outcome::Joined | Outcome::Reentered
        );
        if granted != end.holder.is_some()
            || (end.outcome == Outcome::Failed) != end.error.is_some()
        {
            state.wrong.push(format!("{end:?}"));
        }
    }

    fn hold_begun(&self, hold: &HoldBegun<'_>) {
        self.count("holds");
        let mut state = self.state();
        if !state.held.insert((hold.lock.into(), hold.holder.into())) {
            state.wrong.push(format!("begun twice: {hold:?}"));
        }
    }

    fn hold_ended(&self, ended: &HoldEnded<'_>) {
        match ended.end {
            HoldEnd::Lost(why) => self.count(format!("lost {why:?}")),
            end => self.count(end.as_str()),
        }
        let mut state = self.state();
        if !state.held.remove(&(ended.lock.into(), ended.holder.into())) {
            state.wrong.push(format!("not begun: {ended:?}"));
        }
    }

    fn renewed(&self, renewal: &Renewal<'_>) {
        self.count("renewed");
        if !self.state().held.contains(&(renewal.lock.into(), renewal.holder.into())) {
            // It has just ended.
            self.count("renewed late");
        }
    }

    fn release_failed(&self, failure: &ReleaseFailed<'_>) {
        self.count(if failure.given_up { "given up" } else { "release failed" });
    }
}
