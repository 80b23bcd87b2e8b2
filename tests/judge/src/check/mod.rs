//! The checks.

mod alarm;
mod answers;
mod bound;
mod exclusion;
mod figures;
mod liveness;
mod once;
mod orphan;
mod story;
mod token;
mod turn;

use crate::{
    bounds::Bounds,
    history::{History, Nanos, Place, Rule},
    run::{Guard, Run},
    server::{Lock, Servers, Tenure},
    spans::Span,
    verdict::{Check, Class, Finding, Line, Rating, Verdict},
    witness::Witness,
};

/// Judges a run. The same run has the same verdict. Without a witness, what only a witness knows is not judged.
pub fn judge(history: &History, witness: Option<&Witness>, bounds: &Bounds) -> Verdict {
    let run = Run::new(history, bounds);
    let servers = witness.map(|witness| Servers::new(witness, run.end, bounds.clock_error));
    let mut court =
        Court { run: &run, servers: servers.as_ref(), bounds, verdict: Verdict::default() };
    court.form();
    court.exclusion();
    court.beliefs();
    court.alarm();
    court.once();
    court.orphan(witness);
    court.token();
    court.order();
    court.answers();
    court.bound();
    court.liveness();
    court.figures();
    let Court { mut verdict, .. } = court;
    verdict.findings.sort();
    verdict
}

/// A judge at work.
struct Court<'r, 'a> {
    run: &'r Run<'a>,
    servers: Option<&'r Servers<'a>>,
    bounds: &'r Bounds,
    verdict: Verdict,
}

/// When a guard was not covered by the servers any more.
#[derive(Debug)]
struct End<'r, 'a> {
    at: Nanos,
    /// The tenure whose end it was, and where.
    by: Option<(&'r Tenure<'a>, &'a Place)>,
}

impl<'r, 'a> Court<'r, 'a> {
    fn judged(&mut self, check: Check) {
        *self.verdict.figures.judged.entry(check).or_default() += 1;
    }

    /// A promise is broken.
    fn violation(
        &mut self,
        check: Check,
        lock: &str,
        at: Nanos,
        length: Nanos,
        what: impl Into<String>,
        story: Vec<Line>,
    ) {
        self.found(
            check,
            Rating::Violation,
            lock,
            Span { from: at, to: at + length },
            None,
            what,
            story,
        );
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of a finding")]
    fn found(
        &mut self,
        check: Check,
        rating: Rating,
        lock: &str,
        span: Span,
        bound: Option<Nanos>,
        what: impl Into<String>,
        mut story: Vec<Line>,
    ) {
        story.sort();
        story.dedup();
        let (lock, what, length) = (lock.to_owned(), what.into(), span.length());
        if let Rating::Within(class) | Rating::Beyond(class) = rating {
            let toll = self.verdict.figures.tolls.entry((class, check)).or_default();
            toll.count += 1;
            if length >= toll.longest {
                (toll.longest, toll.bound) = (length, bound);
            }
        }
        let at = span.from;
        self.verdict.findings.push(Finding { at, check, rating, lock, length, bound, what, story });
    }

    /// What is wrong with the recordings themselves.
    fn form(&mut self) {
        let run = self.run;
        self.judged(Check::Form);
        for flaw in &run.flaws {
            self.violation(Check::Form, &flaw.process, flaw.at, 0, flaw.what.clone(), Vec::new());
        }
        let Some(servers) = self.servers else { return };
        for ((_, name), lock) in servers.locks() {
            for (at, flaw) in &lock.flaws {
                self.violation(
                    Check::Form,
                    name,
                    *at,
                    0,
                    format!("the witness: {flaw}"),
                    Vec::new(),
                );
            }
        }
    }

    /// When too few of the guard's holds were left on the servers. `None`: nobody knows.
    fn cover(&self, guard: &Guard<'a>) -> Option<End<'r, 'a>> {
        self.cover_by(guard, guard.granted.saturating_add(self.bounds.clock_error))
    }

    /// The same, by the last of its holds that began by then: a next master may bring back what was taken away.
    fn cover_by(&self, guard: &Guard<'a>, by: Nanos) -> Option<End<'r, 'a>> {
        let servers = self.servers?;
        let mut ends = Vec::new();
        for hold in &guard.holds {
            let place = guard.locks.get(hold.place)?;
            let lock = servers.lock((&place.server, &place.name))?;
            // One that joined late may have begun late.
            let by = if guard.rule == Rule::Majority { guard.believed_until() } else { by };
            if let Some(tenure) = self.tenure_of(guard, lock, &hold.id, by) {
                let tenure = Self::under_readers(guard, lock, tenure);
                ends.push((tenure.span.to, tenure, place));
            }
        }
        ends.sort_by_key(|(to, tenure, place)| (*to, tenure.id, *place));
        let quorum = guard.rule.quorum(guard.locks.len());
        Some(match ends.len().checked_sub(quorum) {
            Some(spare) => {
                let (at, tenure, place) = ends[spare];
                End { at, by: Some((tenure, place)) }
            }
            None => End { at: guard.granted, by: None },
        })
    }

    /// The read hold that a write hold has become under its readers, or else the hold itself.
    fn under_readers(
        guard: &Guard<'a>,
        lock: &'r Lock<'a>,
        tenure: &'r Tenure<'a>,
    ) -> &'r Tenure<'a> {
        let client = |id: &'a str| id.split(':').next();
        let became = |other: &&Tenure<'a>| {
            other.span.from == tenure.span.to
                && client(other.id) == client(tenure.id)
                && !other.id.ends_with(":write")
        };
        let changes = guard.shares_hold() && tenure.id.ends_with(":write");
        let read = if changes { lock.tenures.iter().find(became) } else { None };
        read.unwrap_or(tenure)
    }

    /// The last hold of the guard's id that began by then. An id of Redisson's has many: the last that began while the guard
    /// was asked for, or was seen right after that, or else the one that it had entered already.
    fn tenure_of(
        &self,
        guard: &Guard<'a>,
        lock: &'r Lock<'a>,
        id: &str,
        by: Nanos,
    ) -> Option<&'r Tenure<'a>> {
        if !self.run.process(guard.process).redisson {
            return lock.tenure(id, by);
        }
        let asked = lock.tenure(id, guard.granted).filter(|it| guard.invoked <= it.span.from);
        let seen = || {
            let after =
                |tenure: &&Tenure<'a>| guard.granted < tenure.span.from && tenure.span.from <= by;
            lock.all_of(id).find(after)
        };
        asked.or_else(seen).or_else(|| lock.tenure(id, by))
    }

    /// When the user believes, as far as anyone may ask that of him.
    fn belief(&self, guard: &Guard<'a>) -> Span {
        let mut belief = guard.belief();
        if self.run.process(guard.process).redisson {
            // It tells nobody that a lease is over.
            let end = match self.cover(guard) {
                // That it was taken away is seen a little late.
                Some(end) => end.at.saturating_sub(self.bounds.clock_error),
                None => guard.lease.map_or(Nanos::MAX, |lease| guard.invoked.saturating_add(lease)),
            };
            belief.to = belief.to.min(end.max(belief.from));
        }
        belief
    }

    /// What this check is put down to.
    fn rate(excuse: Option<(Class, Nanos)>, span: Span) -> (Rating, Option<Nanos>) {
        match excuse {
            None => (Rating::Violation, None),
            Some((class, deadline)) => {
                let rating =
                    if span.to <= deadline { Rating::Within(class) } else { Rating::Beyond(class) };
                (rating, Some(deadline.saturating_sub(span.from)).filter(|_| deadline < Nanos::MAX))
            }
        }
    }
}
