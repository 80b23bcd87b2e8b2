//! C5: everything happens once.

use std::collections::BTreeMap;

use super::{Court, exclusion::name_of};
use crate::{
    history::{Answer, Call, Fault, Kind, Mode, Nanos, Place, Rule},
    run::{Guard, Op, Outcome},
    server::{Cause, State, Tenure},
    spans::Span,
    verdict::Check,
};

/// The guards of one hold, and the hold.
struct Group<'r, 'a> {
    place: &'a Place,
    tenure: &'r Tenure<'a>,
    guards: Vec<&'r Guard<'a>>,
}

impl Group<'_, '_> {
    /// Whether it is a hold that readers without an owner may have together.
    fn is_shared(&self) -> bool {
        self.place.kind == Kind::Read && self.guards.iter().all(|guard| guard.owner.is_none())
    }
}

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn once(&mut self) {
        let Some(servers) = self.servers else { return };
        let error = self.bounds.clock_error;
        let mut groups: BTreeMap<(&Place, &str, Nanos), Group<'r, 'a>> = BTreeMap::new();
        for guard in &self.run.guards {
            for hold in &guard.holds {
                let Some(place) = guard.locks.get(hold.place) else { continue };
                let Some(lock) = servers.lock((&place.server, &place.name)) else { continue };
                self.judged(Check::Once);
                let by = if guard.is_multi() { guard.believed_until() } else { guard.granted };
                let tenure = self.tenure_of(guard, lock, &hold.id, by.saturating_add(error));
                let Some(tenure) = tenure else {
                    let what = format!(
                        "guard {} of {}: no server granted {}",
                        guard.number, guard.process, hold.id
                    );
                    self.violation(
                        Check::Once,
                        &place.name,
                        guard.granted,
                        0,
                        what,
                        self.guard_story(guard),
                    );
                    continue;
                };
                // Two masters may have it at once, of which each may be asked for it again.
                let before =
                    groups.range((place, tenure.id, 0)..(place, tenure.id, tenure.span.from));
                let lasts = |group: &&Group<'r, 'a>| {
                    group.tenure.last < tenure.first && guard.granted <= group.tenure.span.to
                };
                let from = before.map(|(_, group)| group).find(lasts).map(|it| it.tenure.span.from);
                let key = (place, tenure.id, from.unwrap_or(tenure.span.from));
                let group = groups.entry(key);
                let group = group.or_insert_with(|| Group { place, tenure, guards: Vec::new() });
                group.guards.push(guard);
            }
        }
        for group in groups.into_values() {
            self.asked_for(&group);
            self.released(&group);
            self.counts(&group);
        }
        self.granted_once();
    }

    /// A grant happens while its process asks.
    fn asked_for(&mut self, group: &Group<'r, 'a>) {
        let (guard, place) = (group.guards[0], group.place);
        let (at, error) = (group.tenure.granted(), self.bounds.clock_error);
        let span = Span { from: at.saturating_sub(error), to: at.saturating_add(error) };
        // A server of a majority may answer when the others have been enough.
        let joins = guard.rule == Rule::Majority && span.to >= guard.invoked;
        let asks = joins || self.run.tries(guard.process, (&place.server, &place.name), span);
        if !asks {
            let what =
                format!("{} is granted while {} does not ask", group.tenure.id, guard.process);
            self.violation(Check::Once, &place.name, at, 0, what, self.guard_story(guard));
        }
    }

    /// A release that succeeded was one.
    fn released(&mut self, group: &Group<'r, 'a>) {
        let is_shared = group.is_shared();
        let given_back = |guard: &Guard<'_>| {
            let (at, op) = guard.given_back.unwrap_or((Nanos::MAX, None));
            // Of readers that leave at the same time, the last one asks the server.
            let over =
                op.filter(|_| is_shared).map(|op| self.run.ops[op].over.unwrap_or(Nanos::MAX));
            over.unwrap_or(at)
        };
        let Some(guard) =
            group.guards.iter().max_by_key(|guard| (given_back(guard), guard.granted))
        else {
            return;
        };
        let Some((invoked, Some(op))) = guard.given_back else { return };
        let op = &self.run.ops[op];
        let (Some(over), true) = (op.over, op.is_done()) else { return };
        // Not all of a majority have to answer.
        if guard.is_multi() {
            return;
        }
        let error = self.bounds.clock_error;
        let place = (&*group.place.server, &*group.place.name);
        // A next master may have brought back what was taken away.
        let lock = self.servers.and_then(|servers| servers.lock(place));
        let last = lock.and_then(|lock| lock.tenure(group.tenure.id, invoked));
        let tenure = last.unwrap_or(group.tenure);
        let during = Span { from: invoked, to: over };
        let end = tenure.span.to;
        let by_then = end <= over.saturating_add(error);
        let since = end.saturating_add(error) >= invoked;
        // It may have been left to another, who did not take it.
        let tries = || self.run.tries(guard.process, place, during);
        let left = since && (tries() || self.is_doubtful(group, over));
        // By a master that had an heir already.
        let is_let_go = |tenure: &Tenure<'_>| {
            let at = tenure.span.to;
            let then = at.saturating_add(error) >= invoked && at <= over.saturating_add(error);
            tenure.cause == Cause::Released && then
        };
        let fine = match tenure.cause {
            _ if self.is_one_of_two(group, guard, during) => true,
            _ if lock.is_some_and(|lock| lock.all_of(group.tenure.id).any(is_let_go)) => true,
            // To unlock a free fair lock is no error to Redisson, whose ids are used again.
            Cause::Released
                if self.run.process(guard.process).redisson
                    && group.place.kind.is_fair()
                    && end < invoked =>
            {
                true
            }
            Cause::Released => since && by_then || left,
            Cause::GrantLost { .. } | Cause::RenewalLost => true,
            // To unlock a free fair lock is no error to Redisson.
            Cause::Removed(_) | Cause::Expired { .. }
                if self.run.process(guard.process).redisson && group.place.kind.is_fair() =>
            {
                true
            }
            // The answer was lost, and the hold had been seen not long before.
            Cause::Removed(_) | Cause::Expired { .. } => {
                let recently = end.saturating_add(self.bounds.watchdog / 2) >= invoked;
                let calm = self.run.is_calm(during, self.bounds.recovery);
                // The watchdog looks after a reader's lease, too.
                let seen_lately = guard.lease.is_none() || group.place.kind == Kind::Read;
                let seen = seen_lately && recently && !calm && by_then;
                seen || left || self.is_kept_by_others(guard, tenure, during)
            }
        };
        if !fine {
            let what = format!(
                "guard {} of {}: released, but that was not it: {:?}",
                guard.number, guard.process, tenure.cause
            );
            self.violation(Check::Once, name_of(guard), over, 0, what, self.guard_story(guard));
        }
    }

    /// Two releases of one hold at the same time: this one has lowered the count, and the other one had to free the lock.
    fn is_one_of_two(&self, group: &Group<'r, 'a>, guard: &Guard<'a>, during: Span) -> bool {
        let error = self.bounds.clock_error;
        let others = group.guards.iter().filter(|other| other.number != guard.number);
        let mut begun = others.filter_map(|other| other.given_back);
        let is_under_way = |(_, op): (Nanos, Option<usize>)| match op {
            Some(op) => self.run.ops[op].over.is_none_or(|over| over >= during.from),
            // In the background.
            None => true,
        };
        let counts = &group.tenure.counts;
        let lowered = counts.iter().enumerate().any(|(index, (at, count))| {
            let before = index.checked_sub(1).map_or(1, |before| counts[before].1);
            let then =
                during.from <= at.saturating_add(error) && *at <= during.to.saturating_add(error);
            then && *count < before
        });
        lowered && begun.any(is_under_way)
    }

    /// A reader whose lease is over is there to be released, as long as others hold the lock beside it.
    fn is_kept_by_others(&self, guard: &Guard<'a>, tenure: &Tenure<'a>, during: Span) -> bool {
        let place = &guard.locks[0];
        let lock = self.servers.and_then(|servers| servers.lock((&place.server, &place.name)));
        let is_held = |state: &State<'a>| state.holders.iter().any(|holder| holder.id != tenure.id);
        let since = Span { from: tenure.span.to, to: during.to };
        let expired = matches!(tenure.cause, Cause::Expired { .. });
        let is_read = place.kind.mode() == Mode::Read;
        expired && is_read && lock.is_some_and(|lock| lock.ever(since, is_held))
    }

    /// The hold count is the number of guards whenever nothing is under way.
    fn counts(&mut self, group: &Group<'r, 'a>) {
        let settled = self.bounds.undo + self.bounds.command_timeout;
        let error = self.bounds.clock_error;
        for (at, _) in group.guards.iter().filter_map(|guard| guard.given_back) {
            let before = at.saturating_sub(1);
            let held = group.tenure.span;
            if before < held.from || held.to < at {
                continue;
            }
            // Nobody minds the count of what is lost.
            if group.guards.iter().any(|guard| guard.lost.is_some_and(|(told, _)| told <= at)) {
                continue;
            }
            let unsettled = group.guards.iter().any(|guard| match guard.given_back {
                Some((then, _)) if then >= at => false,
                Some((then, None)) => then.saturating_add(settled) > before,
                Some((then, Some(op))) => {
                    let op = &self.run.ops[op];
                    let over = op.over.unwrap_or(Nanos::MAX);
                    let until = over.saturating_add(if op.is_done() { error } else { settled });
                    then <= before && until > before
                }
                None => false,
            });
            let owner = group.guards[0].owner;
            let place = (&*group.place.server, &*group.place.name);
            let lately = Span { from: before.saturating_sub(settled), to: before };
            let asking = self.run.attempts(group.guards[0].process, place, lately).any(|op| {
                let Call::Acquire { owner: by, .. } = op.call else { return false };
                let over = op.over.unwrap_or(Nanos::MAX);
                // Where it fails, what it has counted is taken back later.
                let until = match op.outcome {
                    Outcome::Answered(Answer::Granted { .. } | Answer::Refused) => {
                        over.saturating_add(error)
                    }
                    _ => over.saturating_add(settled),
                };
                owner.is_some() && by.as_deref() == owner && until > before
            });
            let mut guards = group.guards.iter();
            let coming = guards.any(|guard| guard.invoked <= before && guard.granted > before);
            let inherited = self.is_inherited(group, before);
            if unsettled || asking || coming || inherited {
                continue;
            }
            // Who knows that it is lost has not let go yet.
            let lets_go = |guard: &Guard<'_>| {
                let given_back = guard.given_back.map_or(Nanos::MAX, |(at, _)| at);
                given_back.min(guard.died.unwrap_or(Nanos::MAX))
            };
            let alive =
                group.guards.iter().filter(|guard| guard.granted <= before && lets_go(guard) >= at);
            let (alive, count) = (alive.count(), group.tenure.count(before) as usize);
            let exact = !self.is_doubtful(group, before);
            // Readers that share a hold count once.
            let alive = if group.is_shared() { alive.min(1) } else { alive };
            if count < alive || exact && count > alive {
                let what =
                    format!("{} has {alive} guards, and a hold count of {count}", group.tenure.id);
                let story = group.guards.iter().flat_map(|guard| self.guard_story(guard)).collect();
                self.violation(Check::Once, &group.place.name, at, 0, what, story);
            }
        }
    }

    /// Whether the count is that of the last master, which may not have known of all changes.
    fn is_inherited(&self, group: &Group<'r, 'a>, at: Nanos) -> bool {
        let (tenure, server) = (group.tenure, &group.place.server);
        let place = (&*group.place.server, &*group.place.name);
        let lock = self.servers.and_then(|servers| servers.lock(place));
        // Of two masters each counts what it is asked for.
        if lock.is_some_and(|lock| {
            lock.all_of(tenure.id).any(|it| it.first > tenure.last && it.span.from <= at)
        }) {
            return true;
        }
        let is_older = tenure.first != tenure.last || tenure.brought_back.is_some();
        let Some(servers) = self.servers.filter(|_| is_older) else {
            return false;
        };
        let set = tenure.counts.iter().map(|(set, _)| *set).filter(|set| *set <= at).max();
        set.is_none_or(|set| set <= servers.reign(server, tenure.last))
    }

    /// Whether a re-entry or a release of the hold may have failed by then. A count that is too high
    /// stays so, up to the last release.
    fn is_doubtful(&self, group: &Group<'r, 'a>, by: Nanos) -> bool {
        let first = group.guards[0];
        let place = (&*group.place.server, &*group.place.name);
        let all = Span { from: group.tenure.span.from, to: by };
        let failed = |op: &Op<'_>| {
            let Call::Acquire { owner, .. } = op.call else { return false };
            let clear =
                matches!(op.outcome, Outcome::Answered(Answer::Granted { .. } | Answer::Refused));
            owner.is_some() && owner.as_deref() == first.owner && !clear
        };
        let released = |guard: &&Guard<'a>| match guard.given_back {
            Some((at, Some(op))) => at <= by && !self.run.ops[op].is_done(),
            _ => false,
        };
        // Several locks are entered and released at once, and not each of them has to answer.
        let several = first.is_multi();
        several
            || self.run.attempts(first.process, place, all).any(failed)
            || group.guards.len() > 1 && group.guards.iter().any(released)
    }

    /// An id that is not a thread's holds once.
    fn granted_once(&mut self) {
        let Some(servers) = self.servers else { return };
        for (key, lock) in servers.locks() {
            let name = key.1;
            for grant in &lock.grants {
                let Some((maker, process)) = self.run.maker(grant.id) else { continue };
                // A request that is repeated on the next master is none of another hold.
                let mut earlier = lock
                    .all_of(grant.id)
                    .filter(|tenure| tenure.first == grant.log && tenure.span.from < grant.at);
                let again = earlier.next().is_some() || grant.beside == Some(grant.id);
                if !process.redisson && again && !self.comes_late(maker, *key, grant.at) {
                    let what = format!("{} of {maker} is granted twice", grant.id);
                    self.violation(Check::Once, name, grant.at, 0, what, Vec::new());
                }
            }
        }
    }

    /// A request that was repeated, and whose first copy was late. The client takes back what that does.
    fn comes_late(&self, maker: &str, place: (&str, &str), at: Nanos) -> bool {
        let bounds = self.bounds;
        let on_its_way = bounds.command_timeout + bounds.slack + bounds.clock_error;
        let lately = Span { from: at.saturating_sub(on_its_way), to: at };
        // By a clock that was set it comes in time.
        let clocks = self.run.begins(Fault::Clock, Span { from: 0, to: at }).is_some();
        // Or it slept, until what it was granted had expired.
        let slept = self.run.awake(maker, lately) != [lately];
        let delayed = slept || !self.run.is_calm(lately, bounds.recovery);
        clocks || self.run.tries(maker, place, lately) && delayed
    }
}
