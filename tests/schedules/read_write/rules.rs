//! The rules, each of which can be left out.

use crate::model;

/// One rule, as a client or a script keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A wire id lives for one outermost hold. Left out: an owner keeps one id for each side.
    FreshIds,
    /// An acquire carries a not-after. Left out: it never is too late.
    NotAfter,
    /// The janitor finishes what is unclear. Left out: nobody does.
    Janitor,
    /// The trust window begins when the attempt is sent. Left out: when its answer comes.
    TrustFromSending,
    /// The trust window is shorter than the lease by the drift of the clocks.
    Drift,
    /// Under a write hold only its owner may read. Left out: whoever asks.
    OnlyOwnReads,
    /// (a) A read release recomputes the TTL. Left out: it stays as it is.
    ReleaseRecomputes,
    /// (a) One timeout key lasts as long as the longest lease of a read. Left out: each re-entry has its own, as with Redisson.
    OneTimeoutKey,
    /// (b) A read release in write mode leaves the TTL alone. Left out: it recomputes there too.
    WriteModeKeeps,
    /// (c) A read renewal never lowers the TTL. Left out: it sets it, as Redisson's does.
    RenewalRaises,
    /// (c) A read with a lease of its own is upheld. Left out: it trusts to the TTL it once got.
    FixedReadsAreUpheld,
    /// (d) A read renewal sets a timeout key anew. Left out: one that has expired stays so.
    RenewalSetsAnew,
    /// (e) A write release that leaves reads wakes who waits to read. Left out: nobody is told.
    DowngradeWakes,
    /// (e) A write release that leaves reads sets the TTL to theirs. Left out: the writer's TTL stays.
    DowngradeRecomputes,
    /// (f) A plain lock of that name is refused. Left out: readers and writers come in beside it.
    KnowsItsKind,
    /// A read hold becomes a write hold only if nobody else reads. Left out: whoever reads.
    UpgradeIsAlone,
    /// What was never answered may still make it a write hold. Left out: nobody cares.
    UpgradeIsUnclear,
    /// Who makes a read hold of a write hold wakes who waits to read. Left out: nobody is told.
    DowngradeTells,
    /// The read hold has a timeout key. Left out: it has none.
    DowngradeHasKey,
    /// A write hold that becomes a read hold is not renewed meanwhile. Left out: it is.
    DowngradePauses,
    /// While its readers trust the hold, nothing is undone. Left out: what is unclear is undone at once.
    DowngradeIsKeptUp,
    /// A write re-entry lasts for one lease. Left out: it adds its lease to the TTL, as Redisson's does.
    NoPileUp,
}

pub(crate) type Rules = model::Rules<Rule>;
