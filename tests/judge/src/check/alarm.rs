//! C4: nobody is told of a loss that was none, and no hold expires that should have been renewed.

use super::{Court, exclusion::name_of};
use crate::{
    history::{Call, Loss, Nanos, Rule},
    run::Guard,
    spans::Span,
    verdict::Check,
};

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn alarm(&mut self) {
        for guard in &self.run.guards {
            let Some((at, why)) = guard.told() else { continue };
            self.judged(Check::Alarm);
            if why == Loss::Expired && self.is_unrenewed(guard, at) {
                let what = "it expired, and should have been renewed";
                self.violation(Check::Alarm, name_of(guard), at, 0, what, self.guard_story(guard));
            }
            let wrong = match why {
                Loss::Expired => self.still_trusted(guard, at),
                Loss::Removed | Loss::Taken => self.still_there(guard, at),
                Loss::Closed => !self.has_closed(guard, at),
                Loss::Unknown => false,
            };
            if wrong {
                let what = format!("a false alarm: {why:?}");
                self.violation(Check::Alarm, name_of(guard), at, 0, what, self.guard_story(guard));
            }
        }
    }

    /// Whether its process has begun to close by then.
    fn has_closed(&self, guard: &Guard<'a>, at: Nanos) -> bool {
        let mut ops = self.run.ops.iter();
        ops.any(|op| op.process == guard.process && *op.call == Call::Close && op.invoked <= at)
    }

    /// Whether a hold that is said to have expired could be trusted.
    pub(super) fn still_trusted(&self, guard: &Guard<'a>, at: Nanos) -> bool {
        // The trust in several locks is that of some of them, and may fall.
        if guard.is_multi() {
            return false;
        }
        let slack = self.bounds.slack;
        let known = guard.trust.iter().filter(|(seen, _)| *seen <= at);
        if known
            .map(|(_, until)| *until)
            .max()
            .is_some_and(|until| until > at.saturating_add(slack))
        {
            return true;
        }
        let Some(servers) = self.servers else { return false };
        let place = &guard.locks[0];
        let Some(lock) = servers.lock((&place.server, &place.name)) else { return false };
        let Some(tenure) =
            lock.tenure(guard.id(), guard.granted.saturating_add(self.bounds.clock_error))
        else {
            return false;
        };
        // In a calm each renewal is answered, so the client knows of all that are this old.
        let answered = self.bounds.rtt + slack + self.bounds.clock_error;
        let mut known = tenure.leases.iter().filter(|(set, _)| set.saturating_add(answered) <= at);
        let Some((set, until)) = known.next_back() else { return false };
        let lease = until.saturating_sub(*set);
        let margin = lease / 100 + 2 * crate::MS + answered;
        let since = Span { from: *set, to: at };
        let awake = self.run.awake(guard.process, since) == [since];
        awake && self.run.is_calm(since, self.bounds.recovery) && at.saturating_add(margin) < *until
    }

    /// Whether a hold expired that should have been renewed: its user asked for no lease, its process was awake, and no fault
    /// was felt since its lease was set last.
    fn is_unrenewed(&self, guard: &Guard<'a>, at: Nanos) -> bool {
        // A majority may lack some of its holds.
        if guard.is_multi() || guard.lease.is_some() || self.run.process(guard.process).redisson {
            return false;
        }
        let Some(servers) = self.servers else { return false };
        let place = &guard.locks[0];
        let error = self.bounds.clock_error;
        let tenure = servers
            .lock((&place.server, &place.name))
            .and_then(|lock| lock.tenure(guard.id(), guard.granted.saturating_add(error)));
        let Some(tenure) = tenure else { return false };
        let known = tenure.leases.iter().map(|(set, _)| *set);
        let Some(set) = known.filter(|set| *set <= at).max() else { return false };
        // Who gets it late, from another of its process or because it was not polled, renews it at once.
        let due = set.saturating_add(self.bounds.watchdog / 3).max(guard.granted);
        let renewed = due + self.bounds.tick + self.bounds.rtt + self.bounds.slack + error;
        let since = Span { from: set, to: at };
        // What ended before was not neglected.
        renewed <= at.min(tenure.span.to)
            && self.run.awake(guard.process, since) == [since]
            && self.run.is_calm(since, self.bounds.recovery)
    }

    /// Whether a hold that is said to be gone was there all the time, on each master.
    fn still_there(&self, guard: &'r Guard<'a>, at: Nanos) -> bool {
        let Some(servers) = self.servers else { return false };
        let error = self.bounds.clock_error;
        let span = Span { from: guard.granted, to: at.saturating_add(error) };
        let is_gone = |hold: &&&crate::history::Held| {
            let Some(place) = guard.locks.get(hold.place) else { return true };
            let Some(lock) = servers.lock((&place.server, &place.name)) else { return true };
            lock.ever(span, |state| {
                let held = state.holders.iter().find(|holder| holder.id == hold.id);
                held.is_none_or(|holder| holder.until <= state.span.to.min(span.to))
            })
        };
        let gone = guard.holds.iter().filter(is_gone).count();
        // A majority that lacks one is none's loss yet, while the others can be trusted.
        let lease = guard.lease.unwrap_or(self.bounds.watchdog);
        let margin = lease / 100 + 2 * crate::MS + self.bounds.rtt + self.bounds.slack + error;
        let is_trusted = |hold: &&&crate::history::Held| {
            let place = guard.locks.get(hold.place);
            let lock = place.and_then(|place| servers.lock((&place.server, &place.name)));
            let tenure = lock.and_then(|lock| lock.tenure(&hold.id, at));
            // What is done to its lease later plays no role.
            !is_gone(hold)
                && tenure.is_some_and(|tenure| tenure.lease(at) > at.saturating_add(margin))
        };
        let trusted = guard.holds.iter().filter(is_trusted).count();
        let is_enough = trusted >= guard.rule.quorum(guard.locks.len());
        // A close ends the others, and the reason that is told may be that of the one that was gone before.
        let is_closed = self.has_closed(guard, at);
        gone == 0 || guard.rule == Rule::Majority && is_enough && !is_closed
    }
}
