//! C6: what nobody claims ends.

use super::{Court, story::line};
use crate::{
    history::{Fault, Loss, Nanos},
    run::{Guard, Op, Process},
    server::Tenure,
    spans::Span,
    verdict::{Check, Line},
    witness::Witness,
};

use std::collections::BTreeMap;

/// The guards of a holder id on a server's lock.
type Claims<'r, 'a> = BTreeMap<(&'a str, &'a str, &'a str), Vec<&'r Guard<'a>>>;

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn orphan(&mut self, witness: Option<&Witness>) {
        let Some(servers) = self.servers else { return };
        let mut claims: Claims<'r, 'a> = BTreeMap::new();
        for guard in &self.run.guards {
            for hold in &guard.holds {
                let Some(place) = guard.locks.get(hold.place) else { continue };
                claims.entry((&place.server, &place.name, &hold.id)).or_default().push(guard);
            }
        }
        for ((server, name), lock) in servers.locks() {
            for tenure in &lock.tenures {
                let Some((maker, process)) = self.run.maker(tenure.id) else { continue };
                if process.redisson {
                    continue;
                }
                self.judged(Check::Orphan);
                let guards =
                    claims.get(&(*server, *name, tenure.id)).map_or(&[][..], Vec::as_slice);
                // C5 is about the others.
                let is_first = lock.all_of(tenure.id).all(|it| it.span.from >= tenure.span.from);
                if guards.is_empty() && is_first && tenure.brought_back.is_none() {
                    self.acts_late(maker, (server, name), tenure);
                }
                let claimed = guards.iter().map(|guard| self.claimed_until(guard)).max();
                let asked = self.asked_until(maker, (server, name), tenure.span.from);
                let unclaimed = claimed.unwrap_or(0).max(asked).max(tenure.span.from);
                let what = format!("{}, which nobody claims, holds on", tenure.id);
                let mut story: Vec<Line> =
                    guards.iter().flat_map(|guard| self.guard_story(guard)).collect();
                story.push(line(tenure.span.from, "server", format!("grants to {}", tenure.id)));
                // A clock that is set changes leases, too.
                let by_clock = |at: Nanos| self.run.begins(Fault::Clock, Span { from: at, to: at });
                // Nobody knows of what old data have brought back. It ends with the lease that it had there.
                let set = tenure.leases.iter().filter(|(at, _)| by_clock(*at).is_some());
                let set = set.map(|(_, until)| *until).max();
                let known = self.bounds.slack + self.bounds.clock_error;
                let lasts = tenure.brought_back.map(|until| until.max(set.unwrap_or(0)) + known);
                let is_old = lasts.is_some_and(|until| tenure.span.to <= until);
                if !is_old {
                    self.ends(maker, process, name, unclaimed, tenure.span.to, &what, story);
                }
                let leaves = claimed.unwrap_or(0);
                let at_close = process.closed.filter(|closed| !is_old && leaves < *closed);
                let renewals = tenure.leases.iter().skip(1).map(|(at, _)| *at);
                let renewed = renewals.filter(|at| by_clock(*at).is_none()).max().unwrap_or(0);
                self.after_end(maker, process, name, tenure.id, tenure.span, at_close, renewed);
            }
            for stay in &lock.stays {
                let Some((maker, process)) = self.run.maker(stay.id) else { continue };
                // What old data have brought back is dropped by the next who waits behind it: see C11.
                if process.redisson || stay.brought_back {
                    continue;
                }
                self.judged(Check::Orphan);
                let unclaimed = self.asked_until(maker, (server, name), stay.span.from);
                let what = format!("{}, for whom nobody waits, stands in line", stay.id);
                let story =
                    vec![line(stay.span.from, "server", format!("puts {} in line", stay.id))];
                self.ends(maker, process, name, unclaimed, stay.span.to, &what, story);
            }
        }
        for guard in &self.run.guards {
            self.outlasts(guard);
        }
        for left in witness.iter().flat_map(|witness| &witness.left) {
            let what = format!("left on the server {:?}", left.server);
            self.violation(Check::Orphan, &left.key, self.run.end, 0, what, Vec::new());
        }
    }

    /// A request has no effect when its client does not wait for its answer any more, however late it arrives.
    fn acts_late(&mut self, maker: &'a str, place: (&'a str, &'a str), tenure: &Tenure<'a>) {
        let (at, bounds) = (tenure.granted(), self.bounds);
        let on_its_way = bounds.command_timeout + bounds.rtt + bounds.slack + bounds.clock_error;
        let lately =
            Span { from: at.saturating_sub(on_its_way), to: at.saturating_add(bounds.clock_error) };
        // By a clock that was set it comes in time.
        let clocks = self.run.begins(Fault::Clock, Span { from: 0, to: at }).is_some();
        // Of several locks some are asked for when the others have decided already.
        let all = Span { from: 0, to: lately.to };
        let several = self.run.attempts(maker, place, all).any(Op::is_multi);
        if !clocks && !several && !self.run.tries(maker, place, lately) {
            let what = format!("{} is granted long after {maker} has asked", tenure.id);
            self.violation(Check::Orphan, place.1, at, 0, what, Vec::new());
        }
    }

    /// A hold lasts no longer than its user asked for, whatever becomes of him.
    fn outlasts(&mut self, guard: &'r Guard<'a>) {
        // Guards of one owner have one lease. What is set by a clock is nobody's wish.
        let clocks = self.run.begins(Fault::Clock, Span { from: 0, to: guard.granted }).is_some();
        let redisson = self.run.process(guard.process).redisson;
        if guard.owner.is_some() || guard.is_multi() || clocks || redisson {
            return;
        }
        let Some(place) = guard.locks.first() else { return };
        let lock = self.servers.and_then(|servers| servers.lock((&place.server, &place.name)));
        let Some(tenure) = lock.and_then(|lock| lock.tenure(guard.id(), guard.granted)) else {
            return;
        };
        let known = tenure.leases.partition_point(|(set, _)| *set <= guard.granted);
        let Some((_, until)) = known.checked_sub(1).map(|last| tenure.leases[last]) else { return };
        let asked = guard.lease.unwrap_or(self.bounds.watchdog);
        let slack = self.bounds.slack + self.bounds.clock_error + crate::MS;
        let deadline = guard.granted.saturating_add(asked).saturating_add(slack);
        if until > deadline {
            let what = format!("{} is to last longer than its user asked for", guard.id());
            let story = self.guard_story(guard);
            self.violation(
                Check::Orphan,
                &place.name,
                guard.granted,
                until - deadline,
                what,
                story,
            );
        }
    }

    /// Until when the guard's user, or the release he began, has to do with the hold.
    fn claimed_until(&self, guard: &Guard<'a>) -> Nanos {
        match guard.given_back {
            // A close leaves it to its lease.
            _ if guard.told().is_some_and(|(_, why)| why == Loss::Closed) => Nanos::MAX,
            Some((at, None)) => at,
            Some((_, Some(op))) => self.run.ops[op].over.unwrap_or(Nanos::MAX),
            None => guard.believed_until(),
        }
    }

    /// When all acquisitions were over that were under way at the moment.
    fn asked_until(&self, maker: &str, place: (&str, &str), at: Nanos) -> Nanos {
        let error = self.bounds.clock_error;
        let span = Span { from: at.saturating_sub(error), to: at.saturating_add(error) };
        let asking = self.run.attempts(maker, place, span);
        asking.map(|op| op.over.unwrap_or(Nanos::MAX)).max().unwrap_or(at)
    }

    /// A living client ends what it does not claim.
    #[expect(clippy::too_many_arguments, reason = "what is judged, and what is told of it")]
    fn ends(
        &mut self,
        maker: &str,
        process: &Process<'_>,
        name: &str,
        unclaimed: Nanos,
        end: Nanos,
        what: &str,
        story: Vec<Line>,
    ) {
        let bounds = self.bounds;
        let length =
            bounds.undo + bounds.command_timeout + bounds.rtt + bounds.slack + bounds.clock_error;
        let mut deadline = self.run.calm_after(unclaimed, length, bounds.recovery);
        // It does nothing while it sleeps.
        for sleep in &process.sleeps {
            if sleep.overlap(Span { from: unclaimed, to: deadline }).is_some() {
                deadline = deadline.max(sleep.to.saturating_add(length));
            }
        }
        let end = end.min(self.run.end);
        let gone = process.died.is_some_and(|died| died <= deadline)
            || process.gave_up.is_some_and(|at| at <= deadline);
        if end > deadline && !gone {
            let what = format!("{what} (of {maker})");
            self.violation(Check::Orphan, name, deadline, end - deadline, what, story);
        }
    }

    /// Who has closed or died does nothing more.
    #[expect(clippy::too_many_arguments, reason = "what is judged, and what is told of it")]
    fn after_end(
        &mut self,
        maker: &str,
        process: &Process<'_>,
        name: &str,
        id: &str,
        span: Span,
        at_close: Option<Nanos>,
        renewed: Nanos,
    ) {
        let bounds = self.bounds;
        if let Some(closed) = at_close
            && span.from < closed
            && span.to > closed.saturating_add(bounds.clock_error)
            && self.run.is_calm(Span { from: closed, to: closed }, bounds.recovery)
            // A clock that was set back makes a copy late for as long.
            && self.run.begins(Fault::Clock, Span { from: 0, to: closed }).is_none()
        {
            let what = format!("{id}, which nobody claimed, is there after {maker} has closed");
            self.violation(Check::Orphan, name, closed, span.to - closed, what, Vec::new());
        }
        // What was under way may still arrive.
        let on_its_way = bounds.command_timeout + bounds.rtt + bounds.clock_error;
        let died = process.died.map(|died| died.saturating_add(on_its_way));
        let closed = process.closed.map(|closed| {
            let is_calm = self.run.is_calm(Span { from: closed, to: closed }, bounds.recovery);
            // A call that was sent again had copies that were not answered.
            closed.saturating_add(if is_calm { bounds.clock_error } else { on_its_way })
        });
        let last = died.into_iter().chain(closed).min();
        // A clock that is set, or old data, changes when a lease ends.
        let is_reset = |last| {
            let since = Span { from: last, to: renewed };
            [Fault::Clock, Fault::Data, Fault::Failover]
                .into_iter()
                .any(|class| self.run.begins(class, since).is_some())
        };
        if let Some(last) = last.filter(|last| renewed > *last && !is_reset(*last)) {
            let what = format!("{id} is renewed after {maker} has gone");
            self.violation(Check::Orphan, name, renewed, renewed - last, what, Vec::new());
        }
    }
}
