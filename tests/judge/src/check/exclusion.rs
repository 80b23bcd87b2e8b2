//! C1, C2, C3 and C13: who believed to hold what, and whether he did.

use std::collections::{BTreeMap, BTreeSet};

use super::{Court, End};
use crate::{
    history::{Answer, Call, Fault, Mode, Nanos, Place, Rule},
    run::{Guard, Outcome},
    server::Cause,
    spans::Span,
    verdict::{Check, Class, Rating},
};

/// What beliefs are compared in: a lock on a server, or a lock on several.
type Arena<'a> = (Vec<&'a str>, &'a str);

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn exclusion(&mut self) {
        let mut arenas: BTreeMap<Arena<'a>, Vec<(Span, usize, bool)>> = BTreeMap::new();
        for (index, guard) in self.run.guards.iter().enumerate() {
            let belief = self.belief(guard);
            let mut enter = |servers: Vec<&'a str>, place: &'a Place, reads: bool| {
                let arena = arenas.entry((servers, &place.name)).or_default();
                arena.push((belief, index, reads));
            };
            if guard.rule == Rule::Majority {
                let mut servers: Vec<_> = guard.locks.iter().map(|place| &*place.server).collect();
                servers.sort_unstable();
                let reads = guard.locks.iter().all(|place| place.kind.mode() == Mode::Read);
                if let Some(place) = guard.locks.first() {
                    enter(servers, place, reads);
                }
            } else {
                for place in guard.locks {
                    enter(vec![&place.server], place, place.kind.mode() == Mode::Read);
                }
            }
        }
        for ((servers, name), mut beliefs) in arenas {
            beliefs.sort_unstable();
            self.arena(&servers, name, &beliefs);
        }
        self.granted_beside();
    }

    /// One sweep over time.
    fn arena(&mut self, servers: &[&str], name: &str, beliefs: &[(Span, usize, bool)]) {
        // Who believes at this moment, by the end of that: to read, and alone.
        let mut readers: BTreeSet<(Nanos, usize)> = BTreeSet::new();
        let mut others: BTreeSet<(Nanos, usize)> = BTreeSet::new();
        for (belief, index, reads) in beliefs {
            for believers in [&mut readers, &mut others] {
                while believers.first().is_some_and(|(to, _)| *to <= belief.from) {
                    believers.pop_first();
                }
            }
            let guard = &self.run.guards[*index];
            self.judged(if guard.rule == Rule::Majority {
                Check::Majority
            } else {
                Check::Exclusion
            });
            let beside = others.iter().chain(readers.iter().filter(|_| !reads));
            let beside: Vec<_> = beside.copied().collect();
            for (to, other) in beside {
                if let Some(overlap) = belief.overlap(Span { from: 0, to })
                    && !guard.is_mate_of(&self.run.guards[other])
                {
                    self.pair(servers, name, &self.run.guards[other], guard, overlap);
                }
            }
            if belief.length() > 0 {
                if *reads { &mut readers } else { &mut others }.insert((belief.to, *index));
            }
        }
    }

    /// Two beliefs of one time, that of the second begun later.
    fn pair(
        &mut self,
        servers: &[&str],
        name: &str,
        first: &'r Guard<'a>,
        second: &'r Guard<'a>,
        overlap: Span,
    ) {
        let check = if first.rule == Rule::Majority { Check::Majority } else { Check::Exclusion };
        let awake: Vec<_> = self
            .run
            .awake(first.process, overlap)
            .into_iter()
            .flat_map(|piece| self.run.awake(second.process, piece))
            .collect();
        let story = [self.guard_story(first), self.guard_story(second)].concat();
        let what = format!(
            "{} (guard {}) and {} (guard {}) both believe to hold it",
            first.process, first.number, second.process, second.number
        );
        let (Some(begin), Some(end)) = (awake.first(), awake.last()) else {
            let rating = Rating::Within(Class::L5Sleeper);
            return self.found(check, rating, name, overlap, Some(overlap.length()), what, story);
        };
        let span = Span { from: begin.from, to: end.to };
        let excuse = self.excuse_pair(servers, name, first, second, span);
        let slept = begin.from > overlap.from;
        let (rating, bound) = match Self::rate(excuse, span) {
            (Rating::Violation, _) if slept => (Rating::Beyond(Class::L5Sleeper), Some(0)),
            rated => rated,
        };
        self.found(check, rating, name, span, bound, what, story);
    }

    fn excuse_pair(
        &self,
        servers: &[&str],
        name: &str,
        first: &Guard<'a>,
        second: &Guard<'a>,
        span: Span,
    ) -> Option<(Class, Nanos)> {
        let (Some(end), Some(other_end)) = (self.cover(first), self.cover(second)) else {
            return self.presume(servers, name, first, span);
        };
        // The end of a hold is seen a little late, the answer to who has it next is not.
        let error = self.bounds.clock_error;
        let gone_by = |end: &End<'_, '_>, by: Nanos| end.by.is_none() || end.at <= by;
        let gone = |end: &End<'_, '_>| gone_by(end, span.from);
        match (gone(&end), gone(&other_end)) {
            (true, true) => {
                let (one, other) = (self.excuse(first, &end)?, self.excuse(second, &other_end)?);
                Some(if one.1 <= other.1 { one } else { other })
            }
            (true, false) => self.excuse(first, &end),
            (false, true) => self.excuse(second, &other_end),
            (false, false) => {
                let by = span.from.saturating_add(error);
                let both = [(first, &end), (second, &other_end)].into_iter();
                let mut late = both.filter(|(_, end)| gone_by(end, by));
                late.find_map(|(guard, end)| self.excuse(guard, end))
                    .or_else(|| self.two_masters(&end, &other_end, span))
                    .or_else(|| self.outlived(first, &end, &other_end))
                    .or_else(|| self.outlived(second, &other_end, &end))
            }
        }
    }

    /// The master before went on renewing what had ended on the next one, which granted the other.
    fn outlived(
        &self,
        guard: &Guard<'a>,
        end: &End<'_, '_>,
        other: &End<'_, '_>,
    ) -> Option<(Class, Nanos)> {
        let ((tenure, _), (other, _)) = (end.by?, other.by?);
        let is_lost = tenure.cause == Cause::RenewalLost && other.first == tenure.last;
        if is_lost { self.excuse(guard, end) } else { None }
    }

    /// Both hold: each on a master of its own?
    fn two_masters(
        &self,
        one: &End<'_, '_>,
        other: &End<'_, '_>,
        span: Span,
    ) -> Option<(Class, Nanos)> {
        let ((one, place), (other, _)) = (one.by?, other.by?);
        let (older, newer) = if one.first <= other.first { (one, other) } else { (other, one) };
        if older.last >= newer.first {
            return None;
        }
        let parted = self.run.troubles.iter().any(|trouble| {
            trouble.class == Fault::Partition && trouble.span.overlap(span).is_some()
        });
        let since = self.servers?.reign(&place.server, newer.first);
        let deadline = since.saturating_add(self.bounds.told_of_failover());
        Some((Class::L3TwoMasters, if parted { Nanos::MAX } else { deadline }))
    }

    /// Without a witness: what the nemesis, or a forced unlock, may have done to the first guard.
    fn presume(
        &self,
        servers: &[&str],
        name: &str,
        guard: &Guard<'a>,
        span: Span,
    ) -> Option<(Class, Nanos)> {
        let since = Span { from: guard.invoked, to: span.from };
        let within = |class, length: Nanos| {
            let watched = span.from.saturating_add(length);
            Some((class, guard.lease.map_or(watched, |lease| guard.granted.saturating_add(lease))))
        };
        if self.run.begins(Fault::Partition, since).is_some() {
            return Some((Class::L3TwoMasters, Nanos::MAX));
        }
        if self.run.begins(Fault::Failover, since).is_some() {
            return within(Class::L1GrantLost, self.bounds.told_of_failover());
        }
        let forced = self.run.ops.iter().any(|op| {
            let Call::Force { lock } = op.call else { return false };
            let freed = match op.outcome {
                Outcome::Answered(answer) => *answer == Answer::Freed { freed: true },
                _ => true,
            };
            let meanwhile = op.invoked <= since.to && op.over.is_none_or(|over| over >= since.from);
            freed && meanwhile && lock.name == name && servers.contains(&&*lock.server)
        });
        let taken = [Fault::Data, Fault::Clock]
            .into_iter()
            .any(|class| self.run.begins(class, since).is_some());
        if forced || taken {
            return within(Class::L4StateTaken, self.bounds.told_of_removal());
        }
        None
    }

    /// Why the guard's user may not know of the end of his hold, and until when.
    pub(super) fn excuse(&self, guard: &Guard<'a>, end: &End<'_, '_>) -> Option<(Class, Nanos)> {
        let (tenure, _) = end.by?;
        let (slack, error) = (self.bounds.slack, self.bounds.clock_error);
        // Nobody looks after a grant that is not polled.
        let looked = guard.idle.iter().map(|idle| idle.to).fold(end.at, Nanos::max);
        // A lease is not renewed, so nobody finds out before it ends.
        let within = |class, length: Nanos| {
            let deadline = match guard.lease {
                Some(_) => tenure.until.saturating_add(slack + error),
                None => looked.saturating_add(length).saturating_add(error),
            };
            Some((class, deadline))
        };
        // A renewal that has no answer tells nothing. Trust then ends with the lease.
        let removed = || {
            let (class, deadline) = within(Class::L4StateTaken, self.bounds.told_of_removal())?;
            let looks = Span { from: end.at, to: deadline };
            let unheard = self.run.is_delayed(looks, self.bounds.recovery);
            let lapses = tenure.until.saturating_add(slack + error);
            Some((class, if unheard { deadline.max(lapses) } else { deadline }))
        };
        match tenure.cause {
            Cause::Released | Cause::Expired { early: false } => None,
            Cause::Removed(_) => removed(),
            Cause::Expired { early: true } => {
                self.run.begins(Fault::Clock, Span { from: 0, to: end.at })?;
                removed()
            }
            Cause::GrantLost { synced: true }
                if self.run.process(guard.process).policy == crate::history::Policy::All
                    && guard.acknowledged.is_some_and(|by| by > 0) =>
            {
                None
            }
            Cause::GrantLost { .. } => within(Class::L1GrantLost, self.bounds.told_of_failover()),
            Cause::RenewalLost => {
                let (class, deadline) =
                    within(Class::L2RenewalLost, self.bounds.told_of_failover())?;
                Some((class, deadline.min(tenure.until.saturating_add(slack + error))))
            }
        }
    }

    /// Grants of one server beside a holder that they exclude.
    fn granted_beside(&mut self) {
        let Some(servers) = self.servers else { return };
        for ((_, name), lock) in servers.locks() {
            for grant in &lock.grants {
                if let Some(other) = grant.beside.filter(|other| *other != grant.id) {
                    let what = format!("the server grants to {} while {other} holds", grant.id);
                    self.violation(Check::Exclusion, name, grant.at, 0, what, Vec::new());
                }
            }
        }
    }

    /// C2 and C3.
    pub(super) fn beliefs(&mut self) {
        for guard in &self.run.guards {
            if self.run.process(guard.process).redisson {
                continue;
            }
            let by = guard.granted.saturating_add(self.bounds.clock_error);
            let Some(end) = self.cover_by(guard, by.max(guard.believed_until())) else { continue };
            let told = guard.told();
            let check = match guard.given_back {
                Some(_) if told.is_none() => Check::Belief,
                _ => Check::Told,
            };
            self.judged(check);
            let Some((tenure, _)) = end.by else { continue };
            self.lead(guard, tenure.until, tenure.cause);
            self.granted_late(guard, &end);
            let from = end.at.max(guard.granted).saturating_add(self.bounds.clock_error);
            let excess = Span { from, to: guard.believed_until() };
            if excess.length() == 0 || excess.to < excess.from {
                continue;
            }
            let awake = self.run.awake(guard.process, excess);
            let name = name_of(guard);
            let story = self.guard_story(guard);
            let what = match told {
                Some(_) => "told late that it is lost",
                None if check == Check::Told => "not told that it is lost",
                None => "believed after its end on the server",
            };
            let (Some(begin), Some(last)) = (awake.first(), awake.last()) else {
                let rating = Rating::Within(Class::L5Sleeper);
                self.found(check, rating, name, excess, Some(excess.length()), what, story);
                continue;
            };
            let slept = begin.from > excess.from;
            let span = Span { from: begin.from, to: last.to };
            let (rating, bound) = match Self::rate(self.excuse(guard, &end), span) {
                (Rating::Violation, _) if slept => (Rating::Beyond(Class::L5Sleeper), Some(0)),
                rated => rated,
            };
            self.found(check, rating, name, span, bound, what, story);
        }
    }

    /// A guard is granted when its hold is over already. Its user is told at once, perhaps.
    fn granted_late(&mut self, guard: &'r Guard<'a>, end: &End<'r, 'a>) {
        let since = Span { from: end.at, to: guard.granted };
        let over = end.at.saturating_add(self.bounds.clock_error) < guard.granted;
        // What is believed after that is found anyway.
        let believed = guard.believed_until() > guard.granted;
        let polled = self.run.awake(guard.process, since) == [since]
            && since.without(&guard.idle) == [since];
        if !over || believed || guard.is_multi() || !polled {
            return;
        }
        let (rating, bound) = Self::rate(self.excuse(guard, end), since);
        if rating == Rating::Violation {
            let (what, story) = ("granted when it was over on the server", self.guard_story(guard));
            let at = Span { from: guard.granted, to: guard.granted };
            self.found(Check::Belief, rating, name_of(guard), at, bound, what, story);
        }
    }

    /// How long before the end of his lease a user was told.
    fn lead(&mut self, guard: &Guard<'a>, until: Nanos, cause: Cause) {
        let told = guard
            .told()
            .filter(|_| matches!(cause, Cause::Released | Cause::Expired { early: false }));
        // Who sleeps when it is time is told when he wakes.
        let awake = |at: Nanos| {
            let then = Span { from: until.saturating_sub(self.bounds.wake), to: at.max(until) };
            self.run.awake(guard.process, then) == [then]
        };
        if let Some((at, _)) = told.filter(|(at, _)| awake(*at)) {
            let lead = until as i64 - at as i64;
            let least = &mut self.verdict.figures.least_lead;
            *least = Some(least.map_or(lead, |least| least.min(lead)));
        }
    }
}

/// The name of the guard's lock, or of the first of several.
pub(super) fn name_of<'a>(guard: &Guard<'a>) -> &'a str {
    guard.locks.first().map_or("", |place| &place.name)
}
