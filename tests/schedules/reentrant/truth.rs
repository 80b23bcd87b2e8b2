//! What really happened to each hold, as the server showed it: the judge of what clients are told.

use std::collections::{HashMap, HashSet};

use super::call::{Call, Id, Verb};
use super::scripts::LOCK;
use crate::sim::{Kind, Ms, Seen, StepId, World};

/// How a hold ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Released,
    Swapped,
    Forced,
    Expired,
}

/// The record of all holds.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    last: Option<Seen>,
    ended: HashMap<Id, (End, Ms)>,
    ousted: HashSet<Id>,
    stated: HashMap<Id, StepId>,
}

impl Truth {
    /// Takes note of what a script has changed.
    pub(crate) fn ran(&mut self, call: &Call, world: &mut World<'_, Call>) {
        let now = world.now();
        let seen = world.server.seen(LOCK).cloned();
        if let Some(seen) = &seen {
            let holders = seen.fields.iter().map(|(id, count)| format!("{id} x{count}")).collect::<Vec<_>>();
            let until = seen.until.map_or("for ever".into(), |until| format!("until {until}"));
            world.say(|| format!("        server: {} {until}", holders.join(", ")));
        } else {
            world.say(|| "        server: free".into());
        }
        let (before, after) = (holders(self.last.as_ref()), holders(seen.as_ref()));
        for id in before.difference(&after) {
            self.ended.insert(*id, (end_by(call), now));
            if end_by(call) == End::Forced {
                self.ousted.insert(*id);
            }
        }
        for id in after.difference(&before) {
            self.ended.remove(id);
            self.stated.insert(*id, 0);
        }
        if matches!(call.verb, Verb::Reenter { .. } | Verb::Release { .. }) && after.contains(&call.id) {
            self.stated.insert(call.id, call.operation);
        }
        self.check_ttl(call, seen.as_ref(), world);
        self.last = seen;
    }

    /// The lock has expired.
    pub(crate) fn expired(&mut self, now: Ms) {
        for id in holders(self.last.take().as_ref()) {
            self.ended.insert(id, (End::Expired, now));
        }
    }

    /// Who is on the server.
    pub(crate) fn holders(&self) -> HashSet<Id> {
        holders(self.last.as_ref())
    }

    pub(crate) fn count(&self, id: Id) -> Option<u32> {
        let count = self.last.as_ref()?.fields.get(&id.to_string())?;
        Some(count.parse().expect("a count"))
    }

    /// The operation that stated the count the server has now; 0 when the hold is as it began.
    pub(crate) fn stated_by(&self, id: Id) -> Option<StepId> {
        self.stated.get(&id).copied()
    }

    /// Whether the hold was taken away by force: until its next one the holder may believe what he likes.
    pub(crate) fn is_ousted(&self, id: Id) -> bool {
        self.ousted.contains(&id)
    }

    /// Whether the hold was lost, not given up.
    pub(crate) fn was_lost(&self, id: Id) -> bool {
        self.is_ousted(id) || matches!(self.ended.get(&id), Some((End::Forced | End::Expired, _)))
    }

    /// When the hold expired, if that was its end.
    pub(crate) fn expired_at(&self, id: Id) -> Option<Ms> {
        self.ended.get(&id).filter(|(end, _)| *end == End::Expired).map(|(_, at)| *at)
    }

    /// A new hold under an old id.
    pub(crate) fn begin_again(&mut self, id: Id) {
        self.ousted.remove(&id);
    }

    fn check_ttl(&self, call: &Call, seen: Option<&Seen>, world: &mut World<'_, Call>) {
        let Some(seen) = seen else { return };
        let Some(until) = seen.until else {
            return world.violation(Kind::NoTtl, format!("{call} leaves the lock without a TTL"));
        };
        let before = self.last.as_ref().and_then(|last| last.until);
        if !call.verb.is_theirs() && before.is_some_and(|before| until < before) {
            world.violation(Kind::TtlFell, format!("{call} lets the lock expire at {until}, no longer at {before:?}"));
        }
    }
}

fn end_by(call: &Call) -> End {
    match call.verb {
        Verb::Force { .. } | Verb::TheirForce => End::Forced,
        Verb::Swap { .. } => End::Swapped,
        _ => End::Released,
    }
}

fn holders(seen: Option<&Seen>) -> HashSet<Id> {
    let ids = seen.into_iter().flat_map(|seen| seen.fields.keys());
    ids.map(|id| id.parse().expect("a holder of ours")).collect()
}
