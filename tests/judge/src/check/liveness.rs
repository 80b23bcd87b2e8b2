//! C11: a free lock is taken by who waits for it, and who waits has his turn.

use super::{Court, story::operation};
use crate::{
    history::{Call, Nanos, Place, Rule},
    run::Op,
    server::Lock,
    spans::Span,
    verdict::Check,
};

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn liveness(&mut self) {
        self.free_locks();
        if let Some(turn) = self.bounds.turn {
            self.turns(turn);
        }
    }

    /// Those who wait for one lock, and are there to take it.
    fn waiters(&self) -> impl Iterator<Item = (&'r Op<'a>, &'a Place, Span)> + use<'r, 'a> {
        let run = self.run;
        run.ops.iter().filter_map(move |op| {
            let Call::Acquire { locks, rule: Rule::One, wait, .. } = op.call else { return None };
            let waits = *wait != Some(0);
            let span = Span { from: op.invoked, to: op.over.unwrap_or(run.end) };
            waits.then(|| (op, &locks[0], span))
        })
    }

    fn free_locks(&mut self) {
        let Some(servers) = self.servers else { return };
        let shortest = self.bounds.news + self.bounds.attempt();
        let mut free: std::collections::BTreeMap<(&str, &str), Vec<Span>> =
            std::collections::BTreeMap::new();
        for (key, lock) in servers.locks() {
            let mut gaps = lock.free(self.run.end);
            gaps.retain(|gap| gap.length() > shortest);
            free.insert(*key, gaps);
        }
        for (op, place, waits) in self.waiters() {
            let key = (&*place.server, &*place.name);
            let Some(lock) = servers.lock(key) else { continue };
            self.judged(Check::Liveness);
            let always = [Span { from: 0, to: self.run.end }];
            let gaps = free.get(&key).map_or(&always[..], Vec::as_slice);
            let first = gaps.partition_point(|gap| gap.to <= waits.from);
            for gap in gaps[first..].iter().take_while(|gap| gap.from < waits.to) {
                let Some(span) = gap.overlap(waits) else { continue };
                self.free_for(op, place, lock, span);
            }
        }
    }

    /// The lock was free for a time in which somebody waited for it.
    fn free_for(&mut self, op: &Op<'a>, place: &Place, lock: &Lock<'a>, span: Span) {
        let bound = self.bounds.news + self.bounds.attempt() + self.dead_in_line(lock, span);
        let key = (&*place.server, &*place.name);
        let others = self.run.attempts(op.process, key, span);
        let mut others = others.filter(|other| other.number != op.number);
        let idle = others.any(|other| other.idle.iter().any(|idle| idle.overlap(span).is_some()));
        let bound = bound + if idle { self.bounds.idle } else { 0 };
        for piece in self.run.polled(op, span) {
            let deadline = self.run.calm_after(piece.from, bound, self.bounds.recovery);
            if piece.to > deadline {
                let what = format!("free, and {} waits for it", op.process);
                let late = piece.to - deadline;
                self.violation(Check::Liveness, &place.name, deadline, late, what, operation(op));
            }
        }
    }

    /// What those in line may cost who are not there any more. They run out at the same time.
    fn dead_in_line(&self, lock: &Lock<'a>, span: Span) -> Nanos {
        let gone = lock.stays.iter().filter(|stay| stay.span.overlap(span).is_some()).map(|stay| {
            match self.run.maker(stay.id) {
                Some((_, process)) if process.redisson => self.bounds.redisson_fair_wait,
                // Its process may live, and have given up.
                Some(_) => self.bounds.fair_wait,
                None => self.bounds.redisson_fair_wait.max(self.bounds.fair_wait),
            }
        });
        gone.max().unwrap_or(0)
    }

    /// After all faults, each process that waits has its turn.
    fn turns(&mut self, turn: Nanos) {
        let run = self.run;
        for trouble in &run.troubles {
            let calm = Span { from: trouble.span.to, to: trouble.span.to.saturating_add(turn) };
            // Another fault lasts, or begins.
            let others = run.troubles.iter().filter(|other| !std::ptr::eq(*other, trouble));
            let mut others =
                others.filter(|other| other.span.from <= calm.to && other.span.to > calm.from);
            if others.next().is_some() || calm.to >= run.end {
                continue;
            }
            for (op, place, waits) in self.waiters() {
                let waited = waits.from <= calm.from && waits.to > calm.to;
                if !waited || run.polled(op, calm) != [calm] {
                    continue;
                }
                self.judged(Check::Liveness);
                let had = run.guards.iter().any(|guard| {
                    let then = calm.from < guard.granted && guard.granted <= calm.to;
                    then && guard.process == op.process && guard.locks.contains(place)
                });
                if !had {
                    let what = format!("{} has had no turn since the faults ended", op.process);
                    let late = waits.to - calm.to;
                    self.violation(
                        Check::Liveness,
                        &place.name,
                        calm.to,
                        late,
                        what,
                        operation(op),
                    );
                }
            }
        }
    }
}
