//! The true history of each hold, as the server showed it: the judge of what clients are told.

use std::collections::{HashMap, HashSet};

use harness::redis::Value;

use super::call::{Call, Verb};
use crate::LOCK;
use crate::clients::Id;
use crate::model::{Kind, Seen, StepId, World};

/// The record of all holds.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    last: Option<Seen>,
    ousted: HashSet<Id>,
    expired: HashSet<Id>,
    stated: HashMap<Id, StepId>,
}

impl Truth {
    /// Takes note of what a script has changed.
    pub(crate) fn ran(&mut self, call: &Call, answer: &Value, world: &mut World<'_, Call>) {
        let seen = world.server.seen(LOCK).cloned();
        world.say(|| format!("        server: {}", shown(seen.as_ref())));
        let (before, after) = (holders(self.last.as_ref()), holders(seen.as_ref()));
        if call.verb.is_force() {
            self.ousted.extend(before.difference(&after));
        }
        for id in after.difference(&before) {
            self.stated.insert(*id, 0);
        }
        if matches!(call.verb, Verb::Reenter { .. } | Verb::Release { .. })
            && *answer == Value::Int(1)
        {
            self.stated.insert(call.id, call.operation);
        }
        check_answer(call, answer, &after, world);
        self.check_time(call, seen.as_ref(), world);
        self.check_ttl(call, seen.as_ref(), world);
        self.last = seen;
    }

    /// The lock has expired.
    pub(crate) fn expired(&mut self) {
        self.expired.extend(holders(self.last.take().as_ref()));
    }

    /// Who is on the server.
    pub(crate) fn holders(&self) -> HashSet<Id> {
        holders(self.last.as_ref())
    }

    pub(crate) fn count(&self, id: Id) -> Option<u32> {
        let last = self.last.as_ref()?;
        if last.text == id.to_string() {
            return Some(1);
        }
        Some(last.fields.get(&id.to_string())?.parse().expect("a count"))
    }

    /// The operation that stated the count the server has now; 0 when the hold is as it began.
    pub(crate) fn stated_by(&self, id: Id) -> Option<StepId> {
        self.stated.get(&id).copied()
    }

    /// Whether the hold was taken away by force: until its next one the holder may believe what he likes.
    pub(crate) fn is_ousted(&self, id: Id) -> bool {
        self.ousted.contains(&id)
    }

    /// Whether the hold was taken away by force or by time, whatever came after.
    pub(crate) fn was_lost(&self, id: Id) -> bool {
        self.is_ousted(id) || self.expired.contains(&id)
    }

    /// Its holder trusts it from now on: what had expired unheard was not yet its hold.
    pub(crate) fn trusted(&mut self, id: Id) {
        self.expired.remove(&id);
    }

    /// A new hold under an old id.
    pub(crate) fn begin_again(&mut self, id: Id) {
        self.ousted.remove(&id);
        self.expired.remove(&id);
    }

    fn check_time(&self, call: &Call, seen: Option<&Seen>, world: &mut World<'_, Call>) {
        let kept = |seen: Option<&Seen>| {
            seen.map(|seen| (seen.fields.clone(), seen.text.clone(), seen.until))
        };
        if call.is_late(world.now()) && kept(self.last.as_ref()) != kept(seen) {
            world.violation(Kind::TooLate, format!("{call} runs at {}", world.now()));
        }
    }

    fn check_ttl(&self, call: &Call, seen: Option<&Seen>, world: &mut World<'_, Call>) {
        let Some(seen) = seen else { return };
        let Some(until) = seen.until else {
            return world.violation(Kind::NoTtl, format!("{call} leaves the lock without a TTL"));
        };
        let before = self.last.as_ref().and_then(|last| last.until);
        // Who takes over has a lease of its own.
        let may_fall = call.verb.is_theirs() || matches!(call.verb, Verb::Own(_));
        if !may_fall && before.is_some_and(|before| until < before) {
            world.violation(
                Kind::TtlFell,
                format!("{call} lets the lock expire at {until}, no longer at {before:?}"),
            );
        }
    }
}

/// Whether an acquire is answered "yours", with a token or without.
pub(super) fn granted(answer: &Value) -> bool {
    match answer {
        Value::Array(answers) => matches!(answers[..], [Value::Int(1), _]),
        answer => *answer == Value::Nil,
    }
}

/// Whether what the script said is so.
fn check_answer(call: &Call, answer: &Value, holders: &HashSet<Id>, world: &mut World<'_, Call>) {
    let said = match (call.verb, answer) {
        _ if call.is_late(world.now()) => return,
        (Verb::Acquire { .. } | Verb::Own(_), answer) => granted(answer),
        (Verb::Reenter { .. }, Value::Int(answer)) => *answer == 1,
        (Verb::Renew { .. }, answer @ (Value::Int(_) | Value::Array(_))) => {
            *answer == Value::Int(1)
        }
        _ => return,
    };
    if said != holders.contains(&call.taker()) {
        world.violation(Kind::FalseAnswer, format!("{call} is answered {answer:?}"));
    }
}

fn holders(seen: Option<&Seen>) -> HashSet<Id> {
    // Of a plain lock it is the text.
    let ids = seen.into_iter().flat_map(|seen| seen.fields.keys().chain([&seen.text]));
    let ids = ids.filter(|id| !id.is_empty());
    ids.map(|id| id.parse().expect("a holder of ours")).collect()
}

fn shown(seen: Option<&Seen>) -> String {
    let Some(seen) = seen else { return "free".into() };
    let mut holders: Vec<_> =
        seen.fields.iter().map(|(id, count)| format!("{id} x{count}")).collect();
    holders.extend((!seen.text.is_empty()).then(|| seen.text.clone()));
    format!(
        "{} {}",
        holders.join(", "),
        seen.until.map_or("for ever".into(), |until| format!("until {until}"))
    )
}
