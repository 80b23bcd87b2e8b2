//! [`Verdict`]: what was found, and figures.

use std::{collections::BTreeMap, fmt};

use crate::history::{Loss, Nanos};

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// The history and the witness make sense by themselves.
    Form,
    /// C1: no two believe in holds that exclude each other.
    Exclusion,
    /// C2: nobody believes in what the server does not keep.
    Belief,
    /// C3: who loses a hold is told in time.
    Told,
    /// C4: nobody is told of a loss that was none.
    Alarm,
    /// C5: everything happens once: grants, releases, counts.
    Once,
    /// C6: what nobody claims ends.
    Orphan,
    /// C7: fencing tokens rise.
    Token,
    /// C8: a fair lock is granted in the order of its line.
    Order,
    /// C9: answers are true.
    Answer,
    /// C10: answers come in time.
    Bound,
    /// C11: a free lock is taken by who waits for it.
    Liveness,
    /// C13: C1 for majorities.
    Majority,
}

impl Check {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::Form,
        Self::Exclusion,
        Self::Belief,
        Self::Told,
        Self::Alarm,
        Self::Once,
        Self::Orphan,
        Self::Token,
        Self::Order,
        Self::Answer,
        Self::Bound,
        Self::Liveness,
        Self::Majority,
    ];
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Form => "C0 form",
            Self::Exclusion => "C1 exclusion",
            Self::Belief => "C2 belief",
            Self::Told => "C3 told",
            Self::Alarm => "C4 alarm",
            Self::Once => "C5 once",
            Self::Orphan => "C6 orphan",
            Self::Token => "C7 token",
            Self::Order => "C8 order",
            Self::Answer => "C9 answer",
            Self::Bound => "C10 bound",
            Self::Liveness => "C11 liveness",
            Self::Majority => "C13 majority",
        })
    }
}

/// What a finding is put down to, where the theory allows it for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// A failover forgot a grant.
    L1GrantLost,
    /// A failover forgot a renewal.
    L2RenewalLost,
    /// Two masters served at once.
    L3TwoMasters,
    /// Something took the state away from the server: a force unlock, an operator, an eviction, a restart, a clock.
    L4StateTaken,
    /// A process slept past its trust.
    L5Sleeper,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::L1GrantLost => "L1 grant lost",
            Self::L2RenewalLost => "L2 renewal lost",
            Self::L3TwoMasters => "L3 two masters",
            Self::L4StateTaken => "L4 state taken away",
            Self::L5Sleeper => "L5 sleeper",
        })
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rating {
    /// A promise is broken.
    Violation,
    /// The class would allow it, but not for so long.
    Beyond(Class),
    /// The class allows it.
    Within(Class),
}

impl Rating {
    /// Whether a promise is broken.
    pub fn is_violation(self) -> bool {
        !matches!(self, Self::Within(_))
    }
}

impl fmt::Display for Rating {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Violation => f.write_str("violation"),
            Self::Beyond(class) => write!(f, "violation, beyond the bound of {class}"),
            Self::Within(class) => write!(f, "within {class}"),
        }
    }
}

/// Something that should not be, or that only a class of faults excuses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// When it began.
    pub at: Nanos,
    /// Which check found it.
    pub check: Check,
    /// How bad it is.
    pub rating: Rating,
    /// The lock, or the process where it is about no lock.
    pub lock: String,
    /// For how long.
    pub length: Nanos,
    /// For how long it may be.
    pub bound: Option<Nanos>,
    /// What it is.
    pub what: String,
    /// The events it is concluded from, in their order.
    pub story: Vec<Line>,
}

/// An event of a finding.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Line {
    /// When.
    pub at: Nanos,
    /// The process, or the server.
    pub who: String,
    /// What.
    pub what: String,
}

/// A length of time as it is read best.
struct Long(Nanos);

impl fmt::Display for Long {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0 as f64;
        match self.0 {
            1_000_000_000.. => write!(f, "{:.3} s", nanos / 1e9),
            1_000_000.. => write!(f, "{:.3} ms", nanos / 1e6),
            1_000.. => write!(f, "{:.3} us", nanos / 1e3),
            _ => write!(f, "{} ns", self.0),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, check, rating, lock, length, bound, what, story } = self;
        write!(f, "{check} [{rating}] {lock:?} at {:.6} s", *at as f64 / 1e9)?;
        if *length > 0 {
            write!(f, " for {}", Long(*length))?;
        }
        if let Some(bound) = bound {
            write!(f, " (bound {})", Long(*bound))?;
        }
        writeln!(f, ": {what}")?;
        for Line { at, who, what } in story {
            writeln!(f, "  {:>16.6} s  {who:<12} {what}", *at as f64 / 1e9)?;
        }
        Ok(())
    }
}

/// Lengths of time: how they are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// How many.
    pub count: usize,
    /// Half of them are no longer.
    pub p50: Nanos,
    /// 99 of 100 are no longer.
    pub p99: Nanos,
    /// The longest.
    pub max: Nanos,
}

impl Spread {
    pub(crate) fn of(mut lengths: Vec<Nanos>) -> Self {
        lengths.sort_unstable();
        let rank = |percent: usize| match lengths.len() {
            0 => 0,
            count => lengths[(count * percent).div_ceil(100).max(1) - 1],
        };
        Self { count: lengths.len(), p50: rank(50), p99: rank(99), max: rank(100) }
    }
}

/// What a class of faults has cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Toll {
    /// How many findings of one check.
    pub count: usize,
    /// The longest of them.
    pub longest: Nanos,
    /// The bound of that one.
    pub bound: Option<Nanos>,
}

/// What a run was like. A check that had nothing to judge proves nothing: see [`judged`](Figures::judged).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Operations.
    pub operations: usize,
    /// Operations whose result nobody knows: cut, or their process died, or the run ended.
    pub unknown: usize,
    /// Guards that were granted.
    pub grants: usize,
    /// Losses that users were told of, by their reason.
    pub losses: BTreeMap<Loss, usize>,
    /// The least time between a user's being told and the end of his lease on the server. Negative: too late.
    pub least_lead: Option<i64>,
    /// How long acquisitions waited that were granted.
    pub waits: Spread,
    /// The same, of those that saw no fault.
    pub calm_waits: Spread,
    /// How many things each check has judged.
    pub judged: BTreeMap<Check, usize>,
    /// What each class has cost, by check.
    pub tolls: BTreeMap<(Class, Check), Toll>,
    /// Writes to a storage by a user whose hold was over on the server, and how many of them were accepted.
    pub stale_uses: (usize, usize),
}

/// The judgement of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What was found, by time.
    pub findings: Vec<Finding>,
    /// Figures.
    pub figures: Figures,
}

impl Verdict {
    /// The findings that are violations.
    pub fn violations(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.rating.is_violation())
    }

    /// Whether no promise is broken.
    pub fn is_clean(&self) -> bool {
        self.violations().next().is_none()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            write!(f, "{finding}")?;
        }
        let Figures { operations, unknown, grants, losses, waits, calm_waits, .. } = &self.figures;
        let violations = self.violations().count();
        writeln!(
            f,
            "{violations} violations; {operations} operations, {unknown} of unknown result, {grants} grants"
        )?;
        let losses: Vec<_> = losses.iter().map(|(why, count)| format!("{count} {why:?}")).collect();
        let lead = self.figures.least_lead.map(|lead| {
            format!("{}{}", if lead < 0 { "-" } else { "" }, Long(lead.unsigned_abs()))
        });
        writeln!(f, "losses: {}; least lead: {}", losses.join(", "), lead.unwrap_or_default())?;
        for (which, spread) in [("all", waits), ("calm", calm_waits)] {
            let Spread { count, p50, p99, max } = *spread;
            writeln!(
                f,
                "waits, {which}: {count}, p50 {}, p99 {}, max {}",
                Long(p50),
                Long(p99),
                Long(max)
            )?;
        }
        for ((class, check), Toll { count, longest, bound }) in &self.figures.tolls {
            let bound = bound.map(|bound| format!(", bound {}", Long(bound))).unwrap_or_default();
            writeln!(f, "{class}, {check}: {count}, longest {}{bound}", Long(*longest))?;
        }
        let (stale, accepted) = self.figures.stale_uses;
        writeln!(f, "stale writes: {stale}, {accepted} of them accepted")?;
        let judged = self.figures.judged.iter().map(|(check, count)| format!("{check}: {count}"));
        writeln!(f, "judged: {}", judged.collect::<Vec<_>>().join(", "))
    }
}
