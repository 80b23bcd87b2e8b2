//! [`Budget`]: how long one process may hand a lock on locally, and when it yields to other processes.
//!
//! ```text
//! won --turns--> used up --no other process waits--> goes on, with a gap of 1 ms each 32 ms
//!                   `--others wait--> released, yields --they had their turns--> open
//!                                                 `--none came--> open, and the next budget is larger
//! ```
//!
//! A budget is 64 turns or 2 ms. Pure: it is told what happened and when, and decides what to do.

use std::time::Duration;

use tokio::time::Instant;

/// A hold is handed off for this many turns and this long. Then the server is asked whether the
/// hold is still there. While other processes wait, this is also the budget.
const TURNS: u32 = 64;
const TIME: Duration = Duration::from_millis(2);

/// After this time the lock is free for [`GAP`] in any case, for processes that poll and do not
/// subscribe.
const UNBROKEN: Duration = Duration::from_millis(32);
const GAP: Duration = Duration::from_millis(1);

/// The shortest time for which a yielding process waits for the next of the others. A JVM needs
/// that long to wake up. If the server is far, the time is as long as they need to get the message,
/// acquire and release.
const COURTESY: Duration = Duration::from_millis(5);

/// The longest such time. A call that took longer met a server that stood still, and says nothing
/// about the distance. The others get the message before the release returns here, so they are
/// ahead even over longer distances.
const MOST_COURTESY: Duration = Duration::from_millis(100);

/// A grant that is heard of so late says nothing about now.
const MOST_DELAY: Duration = Duration::from_millis(100);

/// If no other process comes while this one yields, its budget doubles, up to this many times.
const MOST_VAIN: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// When the budget began, and how many hand-offs followed. `None`: it begins with the next
    /// hold.
    since: Option<Instant>,
    turns: u32,
    /// When the server last confirmed the hold, and how many hand-offs followed.
    confirmed: Option<Instant>,
    unasked: u32,
    /// When the free lock was last taken, and whether a hand-off followed.
    begun: Option<Instant>,
    kept: bool,
    /// How many others were waiting, by the server's last answer.
    others: u64,
    yielding: Option<Yielding>,
    /// Whether no other process came during the last yield, and how many times in a row that
    /// happened.
    suspect: bool,
    vain: u32,
}

/// The lock is left to other processes.
#[derive(Debug)]
struct Yielding {
    /// Until then, if no message comes.
    until: Instant,
    courtesy: Duration,
    /// The messages of others so far, the messages before, and how many messages of others are
    /// enough.
    heard: u64,
    before: u64,
    enough: u64,
}

/// What to do with a hold that a local waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Hand it off without asking.
    Pass,
    /// Hand it off if the server says that it is there and that no other process waits.
    Ask,
    /// Release it.
    Release,
}

impl Budget {
    pub(crate) fn plan(&self, now: Instant) -> Plan {
        let unbroken = self.begun.is_some_and(|begun| now < begun + UNBROKEN);
        let fresh = self.unasked < TURNS && self.confirmed.is_some_and(|at| now < at + TIME);
        match self.is_over(now) {
            false if fresh => Plan::Pass,
            false => Plan::Ask,
            true if self.others == 0 && unbroken => Plan::Ask,
            true => Plan::Release,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let since = self.since.unwrap_or(now);
        self.turns >= TURNS << self.vain || now >= since + TIME * (1 << self.vain)
    }

    /// The lock was taken while it was free, by a call sent then.
    pub(crate) fn won(&mut self, now: Instant, sent: Instant) {
        self.yielding = None;
        self.begun = Some(now);
        self.kept = false;
        // Who hears of it so late may not have been polled.
        let confirmed = if now < sent + MOST_DELAY { now } else { sent };
        (self.confirmed, self.unasked) = (Some(confirmed), 0);
        if std::mem::take(&mut self.suspect) {
            self.vain = (self.vain + 1).min(MOST_VAIN);
        }
        if self.since.is_none() {
            (self.since, self.turns) = (Some(now), 0);
        }
    }

    /// Another process was seen to hold the lock.
    pub(crate) fn lost(&mut self) {
        self.since = None;
        self.suspect = false;
        self.vain = 0;
    }

    /// The hold was handed off.
    pub(crate) fn passed(&mut self) {
        self.turns += 1;
        self.unasked += 1;
        self.kept = true;
    }

    /// The server has confirmed the hold, and this many others wait. Returns whether it may be
    /// handed off.
    pub(crate) fn asked(&mut self, now: Instant, others: u64) -> bool {
        self.others = others;
        (self.confirmed, self.unasked) = (Some(now), 0);
        if others == 0 {
            (self.since, self.turns) = (Some(now), 0);
        }
        !self.is_over(now)
    }

    /// The lock was released, and this many other clients got the message. `heard`: the messages on
    /// its channel before that, if it is subscribed. `took`: how long the release took.
    pub(crate) fn released(
        &mut self,
        now: Instant,
        took: Duration,
        others: u64,
        heard: Option<u64>,
    ) {
        self.others = others;
        let over = self.is_over(now);
        if others == 0 || over {
            self.since = None;
        }
        if over && (others > 0 || self.kept) {
            // This client's own message comes first.
            let before = heard.map_or(0, |heard| heard + 1);
            let far = (4 * took).clamp(COURTESY, MOST_COURTESY);
            let courtesy = if others == 0 { GAP } else { far };
            let until = now + courtesy;
            self.yielding = Some(Yielding { until, courtesy, heard: 0, before, enough: others });
        }
    }

    pub(crate) fn is_yielding(&self) -> bool {
        self.yielding.is_some()
    }

    /// Until when to leave the lock to others, as far as known now.
    pub(crate) fn yields_until(&mut self, now: Instant, heard: Option<u64>) -> Option<Instant> {
        let yielding = self.yielding.as_mut()?;
        let heard = heard.map_or(0, |heard| heard.saturating_sub(yielding.before));
        if heard > yielding.heard && yielding.enough > 0 {
            yielding.heard = heard;
            yielding.until = now + yielding.courtesy;
        }
        let in_vain = yielding.heard < yielding.enough;
        if now < yielding.until && (in_vain || yielding.enough == 0) {
            return Some(yielding.until);
        }
        self.suspect = in_vain;
        self.yielding = None;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn passed(budget: &mut Budget, times: u32) {
        (0..times).for_each(|_| budget.passed());
    }

    #[test]
    fn a_hold_is_passed_on_so_often_and_so_long_and_then_the_server_is_asked() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        budget.won(begun, begun);
        passed(&mut budget, TURNS - 1);
        assert_eq!(budget.plan(begun), Plan::Pass);
        passed(&mut budget, 1);
        assert_eq!(budget.plan(begun), Plan::Ask);
        assert!(budget.asked(begun, 0));
        assert_eq!(budget.plan(begun), Plan::Pass);
        assert_eq!(budget.plan(begun + TIME), Plan::Ask);
    }

    #[test]
    fn a_grant_that_is_heard_of_late_is_asked_about() {
        let sent = Instant::now();
        for (late, plan) in [(MOST_DELAY - ms(1), Plan::Pass), (MOST_DELAY, Plan::Ask)] {
            let mut budget = Budget::default();
            budget.won(sent + late, sent);
            assert_eq!(budget.plan(sent + late), plan, "{late:?}");
        }
    }

    #[test]
    fn while_others_wait_it_is_released_and_left_to_them_until_they_had_their_turns() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        budget.won(begun, begun);
        passed(&mut budget, TURNS);
        assert!(!budget.asked(begun, 2));
        assert_eq!(budget.plan(begun), Plan::Release);
        budget.released(begun, ms(1), 2, Some(10));
        assert_eq!(budget.yields_until(begun, Some(11)), Some(begun + COURTESY), "our own message");
        let later = begun + ms(3);
        assert_eq!(
            budget.yields_until(later, Some(12)),
            Some(later + COURTESY),
            "one had its turn"
        );
        assert_eq!(budget.yields_until(later, Some(12)), Some(later + COURTESY));
        assert_eq!(budget.yields_until(later, Some(13)), None, "and the other");
        budget.won(later, later);
        assert_eq!(budget.plan(later), Plan::Pass, "a new budget");
    }

    #[test]
    fn the_lock_is_free_for_a_moment_now_and_then_though_nobody_is_seen_to_wait() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        budget.won(begun, begun);
        let late = begun + UNBROKEN;
        passed(&mut budget, 1);
        budget.asked(late - ms(3), 0);
        assert_eq!(budget.plan(late), Plan::Release);
        budget.released(late, ms(1), 0, Some(0));
        assert_eq!(budget.yields_until(late, Some(1)), Some(late + GAP));
        let meanwhile = late + GAP / 2;
        assert_eq!(budget.yields_until(meanwhile, Some(9)), Some(late + GAP), "and no longer");
        assert_eq!(budget.yields_until(late + GAP, Some(9)), None);
        // One long hold without a waiter behind it is no reason.
        budget.won(late, late);
        budget.released(late + UNBROKEN, ms(1), 0, Some(2));
        assert_eq!(budget.yields_until(late + UNBROKEN, Some(2)), None);
    }

    #[test]
    fn where_nobody_comes_turns_grow_and_shrink_again_when_somebody_does() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        for vain in 0..2 * MOST_VAIN {
            budget.won(begun, begun);
            passed(&mut budget, TURNS << vain.min(MOST_VAIN));
            assert_ne!(budget.plan(begun), Plan::Pass);
            assert!(!budget.asked(begun, 1), "{vain}");
            budget.released(begun, ms(1), 1, Some(0));
            assert_eq!(budget.yields_until(begun + COURTESY, Some(1)), None);
        }
        budget.won(begun, begun);
        passed(&mut budget, TURNS);
        assert_eq!(budget.plan(begun), Plan::Ask, "the server is asked as often as ever");
        assert!(budget.asked(begun, 1), "but goes on");
        budget.lost();
        budget.won(begun, begun);
        passed(&mut budget, TURNS);
        assert_eq!(budget.plan(begun), Plan::Release);
    }

    #[test]
    fn a_slow_release_is_no_reason_to_yield_for_long() {
        let begun = Instant::now();
        for (took, courtesy) in [(ms(10), ms(40)), (ms(3_000), MOST_COURTESY)] {
            let mut budget = Budget::default();
            budget.won(begun, begun);
            passed(&mut budget, TURNS);
            budget.released(begun, took, 1, Some(0));
            assert_eq!(budget.yields_until(begun, Some(1)), Some(begun + courtesy), "{took:?}");
            assert_eq!(budget.yields_until(begun + courtesy, Some(1)), None, "{took:?}");
        }
    }

    #[test]
    fn a_release_before_the_time_is_over_is_no_reason_to_yield() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        budget.won(begun, begun);
        budget.released(begun, ms(1), 3, None);
        assert_eq!(budget.yields_until(begun, None), None);
        budget.won(begun + TIME, begun + TIME);
        budget.released(begun + TIME, ms(1), 3, None);
        assert!(budget.yields_until(begun + TIME, None).is_some(), "both were one budget");
    }

    #[test]
    fn a_budget_that_has_grown_lasts_longer_too() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        budget.won(begun, begun);
        passed(&mut budget, TURNS);
        budget.released(begun, ms(1), 1, Some(0));
        assert_eq!(budget.yields_until(begun + COURTESY, Some(1)), None, "nobody came");
        budget.won(begun, begun);
        assert!(budget.asked(begun + TIME, 1));
        assert!(!budget.asked(begun + 2 * TIME, 1));
    }

    #[test]
    fn a_lock_that_is_left_to_others_is_theirs_until_the_very_end_of_that_time() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        assert!(!budget.is_yielding());
        budget.won(begun, begun);
        passed(&mut budget, TURNS);
        budget.released(begun, ms(1), 1, Some(0));
        assert!(budget.is_yielding());
        // As many messages as before: nobody came.
        let late = begun + COURTESY - Duration::from_nanos(1);
        assert_eq!(budget.yields_until(late, Some(1)), Some(begun + COURTESY));
        assert_eq!(budget.yields_until(begun + COURTESY, Some(1)), None);
        assert!(!budget.is_yielding());
    }

    #[test]
    fn the_server_is_asked_only_while_the_lock_has_not_been_kept_too_long() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        budget.won(begun, begun);
        let last = begun + UNBROKEN - Duration::from_nanos(1);
        assert_eq!(budget.plan(last), Plan::Ask);
        assert_eq!(budget.plan(begun + UNBROKEN), Plan::Release);
    }
}
