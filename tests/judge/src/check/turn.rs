//! C8: a fair lock is granted in the order of its line.

use std::collections::{BTreeMap, BTreeSet};

use super::{Court, story::line};
use crate::{
    history::{Call, Fault, Kind},
    spans::Span,
    verdict::Check,
    witness::Leave,
};

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn order(&mut self) {
        let Some(servers) = self.servers else { return };
        // Other kinds take the same lock out of turn.
        let mut kinds: BTreeMap<(&str, &str), BTreeSet<Kind>> = BTreeMap::new();
        for op in &self.run.ops {
            let Call::Acquire { locks, .. } = op.call else { continue };
            for place in locks {
                kinds.entry((&place.server, &place.name)).or_default().insert(place.kind);
            }
        }
        for (key, lock) in servers.locks() {
            let fair = kinds.get(key).is_some_and(|kinds| kinds.iter().all(|kind| kind.is_fair()));
            if !fair {
                continue;
            }
            let name = key.1;
            for grant in &lock.grants {
                self.judged(Check::Order);
                if let Some(first) = grant.passed_over {
                    let what =
                        format!("granted to {} while {first} is the first in line", grant.id);
                    let mut story =
                        vec![line(grant.at, "server", format!("grants to {}", grant.id))];
                    for stay in
                        lock.stays.iter().filter(|stay| stay.id == first || stay.id == grant.id)
                    {
                        story.push(line(
                            stay.span.from,
                            "server",
                            format!("puts {} in line", stay.id),
                        ));
                        if let Some(why) = stay.why {
                            story.push(line(
                                stay.span.to,
                                "server",
                                format!("{} leaves: {why:?}", stay.id),
                            ));
                        }
                    }
                    self.violation(Check::Order, name, grant.at, 0, what, story);
                }
            }
            for stay in lock.stays.iter().filter(|stay| stay.why == Some(Leave::Dropped)) {
                let Some((maker, process)) = self.run.maker(stay.id) else { continue };
                // Redisson's waiters ask once, and lose their place when that is long ago.
                if process.redisson || stay.brought_back {
                    continue;
                }
                self.judged(Check::Order);
                let at = stay.span.to;
                let lately = Span { from: at.saturating_sub(self.bounds.fair_wait), to: at };
                let awake = self.run.awake(maker, lately) == [lately];
                let alive = process.died.is_none_or(|died| died > at);
                let clocks = self.run.begins(Fault::Clock, Span { from: 0, to: at }).is_some();
                // All the time it waited, or long enough.
                let waits = self.run.attempts(maker, *key, Span { from: stay.span.from, to: at });
                let waits = waits.filter(|op| {
                    let polled = self.run.polled(op, lately) == [lately];
                    polled && op.invoked <= stay.span.from && op.over.is_none_or(|over| over > at)
                });
                // Each that waits has a place of its own, and nobody knows which.
                let others = lock.stays.iter().filter(|other| {
                    other.id != stay.id
                        && other.why != Some(Leave::Dropped)
                        && other.span.from <= at
                        && at <= other.span.to
                        && self.run.maker(other.id).is_some_and(|(its, _)| its == maker)
                });
                let waits = waits.count() > others.count();
                if awake
                    && alive
                    && waits
                    && !clocks
                    && self.run.is_calm(lately, self.bounds.recovery)
                {
                    let what =
                        format!("{} is dropped from the line, though {maker} waits", stay.id);
                    let story = vec![
                        line(stay.span.from, "server", format!("puts {} in line", stay.id)),
                        line(at, "server", format!("drops {}", stay.id)),
                    ];
                    self.violation(Check::Order, name, at, 0, what, story);
                }
            }
        }
    }
}
