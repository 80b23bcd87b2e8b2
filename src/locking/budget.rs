//! [`Budget`]: how long one process may keep a lock among its own waiters, and when it yields to other processes.
//!
//! ```text
//! won --turns--> used up --nobody else waits--> goes on, until the next gap
//!                   `--others wait--> released, yields --they had their turns--> open
//!                                                 `--nobody came--> open, and the next budget is larger
//! ```
//!
//! Pure: it is told what happened and when, and says what to do.

use std::time::Duration;

use tokio::time::Instant;

/// A hold is handed on for so many turns and so long before the server is asked whether it is still there. That is
/// also the budget, while other processes wait.
const TURNS: u32 = 64;
const TIME: Duration = Duration::from_millis(2);

/// After so long the lock is free for [`GAP`] in any case, for processes that poll and do not subscribe.
const UNBROKEN: Duration = Duration::from_millis(32);
const GAP: Duration = Duration::from_millis(1);

/// How long a process that yields waits for the next of the others, at least: a JVM needs that long to
/// wake up. Where the server is far, it waits for as long as they take to hear, acquire and release.
const COURTESY: Duration = Duration::from_millis(5);

/// And at most: a call that took longer met a server that stood still, and says nothing of the way. The others
/// hear of the release before its caller does, so they are ahead also where the way itself is longer.
const MOST_COURTESY: Duration = Duration::from_millis(100);

/// Where nobody comes while a process yields, its budget doubles, up to so many times.
const MOST_VAIN: u32 = 5;

#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// When it began, and how many times the hold was passed on since; `None`: with the next hold.
    since: Option<Instant>,
    turns: u32,
    /// When the server last confirmed the hold, and how many times it was passed on since.
    confirmed: Option<Instant>,
    unasked: u32,
    /// When the lock was last taken while it was free, and whether it was passed on since.
    begun: Option<Instant>,
    kept: bool,
    /// How many others were waiting when the server last said so.
    others: u64,
    yielding: Option<Yielding>,
    /// Whether nobody came while the process yielded last, and how many times in a row that was so.
    suspect: bool,
    vain: u32,
}

/// The lock is left to other processes.
#[derive(Debug)]
struct Yielding {
    /// Until then, if nothing is heard.
    until: Instant,
    courtesy: Duration,
    /// The messages of others heard by then, how many there were before, and how many are enough.
    heard: u64,
    before: u64,
    enough: u64,
}

/// What is to become of a hold that somebody in the process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It goes on, and nobody is asked.
    Pass,
    /// It goes on if the server says that it is there and that nobody else waits.
    Ask,
    /// It is released.
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

    /// The lock was taken while it was free.
    pub(crate) fn won(&mut self, now: Instant) {
        self.yielding = None;
        self.begun = Some(now);
        self.kept = false;
        (self.confirmed, self.unasked) = (Some(now), 0);
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

    /// The hold was passed on.
    pub(crate) fn passed(&mut self) {
        self.turns += 1;
        self.unasked += 1;
        self.kept = true;
    }

    /// The server has confirmed the hold, and so many others wait. Says whether it may be passed on.
    pub(crate) fn asked(&mut self, now: Instant, others: u64) -> bool {
        self.others = others;
        (self.confirmed, self.unasked) = (Some(now), 0);
        if others == 0 {
            (self.since, self.turns) = (Some(now), 0);
        }
        !self.is_over(now)
    }

    /// The lock was released, and so many others told of it. `heard`: the messages on its channel
    /// before that, if they are listened to. `took`: how long the one copy took that did it.
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
            // Our own message comes first.
            let before = heard.map_or(0, |heard| heard + 1);
            let far = (4 * took).clamp(COURTESY, MOST_COURTESY);
            let courtesy = if others == 0 { GAP } else { far };
            let until = now + courtesy;
            self.yielding = Some(Yielding { until, courtesy, heard: 0, before, enough: others });
        }
    }

    /// Until when to leave the lock to others, by what is known by now.
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
        budget.won(begun);
        passed(&mut budget, TURNS - 1);
        assert_eq!(budget.plan(begun), Plan::Pass);
        passed(&mut budget, 1);
        assert_eq!(budget.plan(begun), Plan::Ask);
        assert!(budget.asked(begun, 0));
        assert_eq!(budget.plan(begun), Plan::Pass);
        assert_eq!(budget.plan(begun + TIME), Plan::Ask);
    }

    #[test]
    fn while_others_wait_it_is_released_and_left_to_them_until_they_had_their_turns() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        budget.won(begun);
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
        budget.won(later);
        assert_eq!(budget.plan(later), Plan::Pass, "a new budget");
    }

    #[test]
    fn the_lock_is_free_for_a_moment_now_and_then_though_nobody_is_seen_to_wait() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        budget.won(begun);
        let late = begun + UNBROKEN;
        passed(&mut budget, 1);
        budget.asked(late - ms(3), 0);
        assert_eq!(budget.plan(late), Plan::Release);
        budget.released(late, ms(1), 0, Some(0));
        assert_eq!(budget.yields_until(late, Some(1)), Some(late + GAP));
        assert_eq!(budget.yields_until(late + GAP, Some(1)), None);
        // One long hold with nobody behind it is no reason.
        budget.won(late);
        budget.released(late + UNBROKEN, ms(1), 0, Some(2));
        assert_eq!(budget.yields_until(late + UNBROKEN, Some(2)), None);
    }

    #[test]
    fn where_nobody_comes_turns_grow_and_shrink_again_when_somebody_does() {
        let begun = Instant::now();
        let mut budget = Budget::default();
        for vain in 0..2 * MOST_VAIN {
            budget.won(begun);
            passed(&mut budget, TURNS << vain.min(MOST_VAIN));
            assert_ne!(budget.plan(begun), Plan::Pass);
            assert!(!budget.asked(begun, 1), "{vain}");
            budget.released(begun, ms(1), 1, Some(0));
            assert_eq!(budget.yields_until(begun + COURTESY, Some(1)), None);
        }
        budget.won(begun);
        passed(&mut budget, TURNS);
        assert_eq!(budget.plan(begun), Plan::Ask, "the server is asked as often as ever");
        assert!(budget.asked(begun, 1), "but goes on");
        budget.lost();
        budget.won(begun);
        passed(&mut budget, TURNS);
        assert_eq!(budget.plan(begun), Plan::Release);
    }

    #[test]
    fn a_slow_release_is_no_reason_to_yield_for_long() {
        let begun = Instant::now();
        for (took, courtesy) in [(ms(10), ms(40)), (ms(3_000), MOST_COURTESY)] {
            let mut budget = Budget::default();
            budget.won(begun);
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
        budget.won(begun);
        budget.released(begun, ms(1), 3, None);
        assert_eq!(budget.yields_until(begun, None), None);
        budget.won(begun + TIME);
        budget.released(begun + TIME, ms(1), 3, None);
        assert!(budget.yields_until(begun + TIME, None).is_some(), "both were one budget");
    }
}
