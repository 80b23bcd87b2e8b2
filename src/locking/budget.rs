//! [`Budget`]: how long one process may hand a lock off locally, and when it yields to other processes.
//!
//! ```text
//! won --hand-offs--> used up --no other process waits--> goes on, with a gap of 1 ms each 32 ms
//!                       `--others wait--> released, yields --they had the lock--> open
//!                                                     `--none came--> open, and the next budget is larger
//! ```
//!
//! After 64 hand-offs or 2 ms, whichever is first, the server is asked whether other processes wait. If
//! they do, the process has reached its limit, and yields. Each time it yields and no other process takes
//! the lock, the limit doubles, up to 32-fold. It is 64 hand-offs or 2 ms again once another process had
//! the lock. Pure: it is told what happened and when, and decides what to do.

use std::time::Duration;

use tokio::time::Instant;

/// After so many turns, or so long, the server is asked whether the hold is still there.
const ASK_AFTER_TURNS: u32 = 64;
pub(crate) const ASK_AFTER: Duration = Duration::from_millis(2);

/// The budget while other processes wait. It doubles after each yield in vain, up to [`MOST_VAIN`] times.
const TURNS: u32 = 64;
const TIME: Duration = Duration::from_millis(2);

/// After this time the lock is free for [`GAP`] in any case, for processes that poll and do not
/// subscribe.
pub(crate) const UNBROKEN: Duration = Duration::from_millis(32);
const GAP: Duration = Duration::from_millis(1);

/// The shortest time for which a yielding process waits for the next of the others. A JVM needs
/// that long to wake up. If the server is far, the time is as long as they need to get the message,
/// acquire and release.
const COURTESY: Duration = Duration::from_millis(5);

/// The longest such time. A call that took longer met a server that stood still, and says nothing
/// about the distance. The others get the message before the release returns here, so they are
/// ahead even over longer distances.
pub(crate) const MOST_COURTESY: Duration = Duration::from_millis(100);

/// A confirmation that comes this long after its request says nothing about now: its caller was not
/// polled, or the server stood still. No network is that slow.
pub(crate) const STALE: Duration = Duration::from_millis(500);

/// How many times a budget doubles: once each time that no other process came while this one yielded.
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

/// The other clients that wait, as the answer to a release tells of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Others {
    /// How many clients got the message.
    pub(crate) count: u64,
    /// How many messages have come on the lock's channel when those of the release have, if this client
    /// is subscribed to it.
    pub(crate) heard: Option<u64>,
    /// How many messages a turn of one of them sends, at most: as many as one of this client.
    pub(crate) messages: u64,
}

/// The lock is left to other processes.
#[derive(Debug)]
pub(crate) struct Yielding {
    /// Until then, if no message comes.
    until: Instant,
    courtesy: Duration,
    /// The messages of others so far, the messages before, and how many turns of others are enough.
    heard: u64,
    before: u64,
    enough: u64,
    /// How many messages a turn sends, at most.
    messages: u64,
}

/// What to do with a hold that a local waiter waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Hand it off without asking.
    HandOff,
    /// Hand it off if the server says that it is there and that no other process waits.
    Ask,
    /// Release it.
    Release,
}

impl Budget {
    pub(crate) fn plan(&self, now: Instant) -> Plan {
        let fresh =
            self.unasked < ASK_AFTER_TURNS && self.confirmed.is_some_and(|at| now < at + ASK_AFTER);
        match self.is_over(now) {
            false if fresh => Plan::HandOff,
            false => Plan::Ask,
            true if self.others == 0 && self.may_stay_unbroken(now) => Plan::Ask,
            true => Plan::Release,
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let since = self.since.unwrap_or(now);
        self.turns >= TURNS << self.vain
            || now >= since + TIME * (1 << self.vain)
            || self.gap_is_due(now)
    }

    /// Whether the lock has to be free for [`GAP`]. Each answer that nobody waits begins the budget
    /// anew, so the budget alone never ends then.
    fn gap_is_due(&self, now: Instant) -> bool {
        self.others == 0 && self.kept && !self.may_stay_unbroken(now)
    }

    fn may_stay_unbroken(&self, now: Instant) -> bool {
        self.begun.is_some_and(|begun| now < begun + UNBROKEN)
    }

    /// The lock was taken while it was free, by a call sent then.
    pub(crate) fn won(&mut self, now: Instant, sent: Instant) {
        self.yielding = None;
        self.begun = Some(now);
        self.kept = false;
        self.confirm(now, sent);
        if std::mem::take(&mut self.suspect) {
            self.vain = (self.vain + 1).min(MOST_VAIN);
        }
        if self.since.is_none() {
            (self.since, self.turns) = (Some(now), 0);
        }
    }

    /// Another process was seen to hold the lock.
    pub(crate) fn seen_elsewhere(&mut self) {
        self.since = None;
        self.suspect = false;
        self.vain = 0;
    }

    /// The hold was handed off.
    pub(crate) fn handed_off(&mut self) {
        self.turns += 1;
        self.unasked += 1;
        self.kept = true;
    }

    /// The server has confirmed the hold, asked at `sent`, and this many others wait. Returns whether
    /// it may be handed off.
    pub(crate) fn confirmed_by_server(&mut self, now: Instant, sent: Instant, others: u64) -> bool {
        self.others = others;
        let fresh = self.confirm(now, sent);
        if others == 0 {
            (self.since, self.turns) = (Some(now), 0);
        }
        fresh && !self.is_over(now)
    }

    /// Notes a confirmation. Returns whether it says something about now.
    fn confirm(&mut self, now: Instant, sent: Instant) -> bool {
        let fresh = now < sent + STALE;
        (self.confirmed, self.unasked) = (fresh.then_some(now), 0);
        fresh
    }

    /// The lock was released, which took so long.
    pub(crate) fn released(&mut self, now: Instant, took: Duration, others: Others) {
        // The gap that was due is not forgotten when somebody has subscribed meanwhile.
        let was_over = self.is_over(now);
        self.others = others.count;
        let over = was_over || self.is_over(now);
        if others.count == 0 || over {
            self.since = None;
        }
        if over && (others.count > 0 || self.kept) {
            self.yielding = Some(Yielding::new(now, took, others));
        }
    }

    pub(crate) fn is_yielding(&self) -> bool {
        self.yielding.is_some()
    }

    /// Until when to leave the lock to others, as far as known now.
    pub(crate) fn yields_until(&mut self, now: Instant, heard: Option<u64>) -> Option<Instant> {
        let yielding = self.yielding.as_mut()?;
        let until = yielding.until(now, heard);
        if until.is_none() {
            self.suspect = yielding.is_in_vain();
            // A gap for processes that poll says nothing about those that listen.
            if !self.suspect && yielding.enough > 0 {
                self.vain = 0;
            }
            self.yielding = None;
        }
        until
    }
}

impl Yielding {
    /// The lock was released, which took so long.
    pub(crate) fn new(now: Instant, took: Duration, others: Others) -> Self {
        let Others { count, heard, messages } = others;
        let far = (4 * took).clamp(COURTESY, MOST_COURTESY);
        let courtesy = if count == 0 { GAP } else { far };
        let (until, before) = (now + courtesy, heard.unwrap_or(0));
        Self { until, courtesy, heard: 0, before, enough: count, messages }
    }

    /// The same for a lock that is held. The first message says that it is free: by `free_by` at the
    /// latest.
    pub(crate) fn of_held(free_by: Instant, took: Duration, others: Others) -> Self {
        let others = Others { count: others.count + 1, ..others };
        Self { until: free_by, ..Self::new(free_by, took, others) }
    }

    /// Until when to leave the lock to others, as far as known now. `None`: they had their turns, or
    /// did not come.
    pub(crate) fn until(&mut self, now: Instant, heard: Option<u64>) -> Option<Instant> {
        let heard = heard.map_or(0, |heard| heard.saturating_sub(self.before));
        if heard > self.heard && self.enough > 0 {
            self.heard = heard;
            self.until = now + self.courtesy;
        }
        // Fewer than so many messages may be of one turn less.
        let turns = self.heard.div_ceil(self.messages);
        let goes_on = now < self.until && (turns < self.enough || self.enough == 0);
        goes_on.then_some(self.until)
    }

    /// Whether its time is over, as far as known now.
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    /// Whether not all of the others have come yet. A turn may send fewer messages than most.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.heard < self.enough
    }
}

#[cfg(test)]
mod tests;
