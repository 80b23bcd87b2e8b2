//! The five rules, each of which can be left out.

use crate::model;

/// One rule, or one clause of a rule, as a client keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Rule 1: a wire id lives for one outermost hold. Left out: an owner keeps one id for ever.
    FreshIds,
    /// Rule 2: existence decides, the count only informs. Left out: scripts that count, as Redisson's do.
    ExistenceDecides,
    /// Rule 3: an acquire carries a not-after. Left out: it never is too late.
    NotAfter,
    /// Rule 4: the janitor finishes what is unclear. Left out: nobody does.
    Janitor,
    /// Rule 4: "gone" after more than one copy is "released". Left out: it is "not held".
    GoneIsReleased,
    /// Rule 4: one copy of a release sent while the hold was trusted is enough for that, whenever the others were sent.
    /// Left out: more than one has to be.
    OneCopyInTime,
    /// Rule 4: an acquire whose answer comes after the release was sent is unanswered all the same: it may have run after it.
    AnswersInTime,
    /// Rule 4: an acquire that was never answered is unclear even when its not-after has passed: it may have run before.
    UnansweredIsUnclear,
    /// Rule 4, of a hand-over: the id it came from is released first. Left out: the other one is.
    SourceFirst,
    /// Rule 5: no swap from an id with an unanswered acquire.
    ClearSwaps,
    /// The trust window begins when the attempt is sent. Left out: when its answer comes.
    TrustFromSending,
    /// The trust window is shorter than the lease by the drift of the clocks.
    Drift,
    /// Rule 5: theirs in first, mine out second. Left out: the other way round.
    TheirsInFirst,
    /// Fenced: a repeat answers with the token it has. Left out: it counts a new one, as Redisson's do.
    RepeatsKeepTheirToken,
    /// Fenced: the counter outlives the lock. Left out: it expires with it.
    CounterLasts,
    /// Plain: a release frees the lock of its own token only. Left out: that of anybody.
    ReleaseByToken,
    /// Plain: a renewal is for its own token only. Left out: for that of anybody.
    RenewalByToken,
}

pub(crate) type Rules = model::Rules<Rule>;
