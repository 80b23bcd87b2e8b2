//! The true history of each hold, as the server showed it: the judge of the scripts, and of what clients are told.

use std::collections::{BTreeMap, HashMap, HashSet};

use harness::redis::Value;

use super::call::{Call, Id, Plain, Verb, World, is_theirs};
use super::kept::Kept;
use super::scripts::CHANNEL;
use crate::clients::{Name, Redisson, WATCHDOG};
use crate::model::{Kind, Ms, StepId};

/// The record of all holds.
#[derive(Debug, Default)]
pub(super) struct Truth {
    pub(super) last: Kept,
    /// Redisson's scripts are to keep what ours promise.
    judges_theirs: bool,
    ousted: HashSet<Id>,
    expired: HashSet<Id>,
    /// Redisson's script has left them less time than their holders trust in, and since when.
    undercut: HashMap<Id, Ms>,
    /// Redisson's renewal has lowered the TTL, and it does not yet last as long as all readers do.
    is_cut: bool,
    stated: HashMap<Id, StepId>,
    /// When the longest lease that was ever asked for in a hold's name ends.
    bounds: HashMap<Id, Ms>,
}

impl Truth {
    pub(super) fn new(judges_theirs: bool) -> Self {
        Self { judges_theirs, ..Self::default() }
    }

    /// Takes note of what a script has changed.
    pub(super) fn ran(
        &mut self,
        call: &Call,
        answer: &Value,
        trusts: &BTreeMap<Id, Ms>,
        world: &mut World<'_>,
    ) {
        let after = Kept::on(world.server);
        let told = world.server.messages().iter().map(|message| format!("; says {}", message.text));
        let told: String = told.collect();
        world.say(|| format!("        server: {}{told}", after.shown()));
        let before = std::mem::replace(&mut self.last, after.clone());
        let is_new = |id: &&Id| !before.holders.contains_key(id);
        for id in after.holders.keys().filter(is_new) {
            self.stated.insert(*id, 0);
            self.bounds.remove(id);
        }
        let gone = before.holders.keys().filter(|id| !after.holders.contains_key(id));
        if call.verb.is_force() {
            self.ousted.extend(gone);
        } else {
            // Others whose time was up go with the last that was alive.
            self.expired.extend(gone.filter(|id| **id != call.id));
        }
        if matches!(call.verb, Verb::Reenter { .. } | Verb::Release { .. })
            && matches!(answer, Value::Int(1..))
        {
            self.stated.insert(call.id, call.operation);
        }
        self.note_bound(call, world.now());
        self.note_undercut(call, trusts, world.now());
        if self.judges_theirs || !call.verb.is_theirs() {
            check_wakes(call, &before, &after, world);
            self.check_ttl(call, &before, world);
        }
        if !call.verb.is_theirs() {
            check_answer(call, answer, &before, &after, world);
            self.check_lease(call, answer, world);
        }
        check_time(call, &before, &after, world);
    }

    /// The lock has expired.
    pub(super) fn expired(&mut self) -> Kept {
        let last = std::mem::take(&mut self.last);
        self.expired.extend(last.holders.keys());
        last
    }

    pub(super) fn keeps(&self, id: Id) -> bool {
        self.last.holders.contains_key(&id)
    }

    pub(super) fn count(&self, id: Id) -> Option<u32> {
        self.last.holders.get(&id).copied()
    }

    /// The operation that stated the count the server has now; 0 when the hold is as it began.
    pub(super) fn stated_by(&self, id: Id) -> Option<StepId> {
        self.stated.get(&id).copied()
    }

    /// Whether the hold was taken away by force: until its next one the holder may believe what he likes.
    pub(super) fn is_ousted(&self, id: Id) -> bool {
        self.ousted.contains(&id)
    }

    pub(super) fn is_undercut(&self, id: Id) -> bool {
        self.undercut.contains_key(&id)
    }

    /// Since when the hold has had less time than its holder trusts in.
    pub(super) fn undercut_since(&self, id: Id) -> Option<Ms> {
        self.undercut.get(&id).copied()
    }

    /// The holder could do nothing about it before now.
    pub(super) fn wakes(&mut self, owner: Name, now: Ms) {
        for (_, since) in self.undercut.iter_mut().filter(|(id, _)| id.owner == owner) {
            *since = now;
        }
    }

    /// Whether others are to blame for what its holder believes.
    pub(super) fn is_forgiven(&self, id: Id) -> bool {
        self.is_ousted(id) || self.is_undercut(id)
    }

    /// Whether the hold was taken away by force or by time, whatever came after.
    pub(super) fn was_lost(&self, id: Id) -> bool {
        self.is_ousted(id) || self.expired.contains(&id)
    }

    /// Its holder trusts it from now on: what had expired unheard was not yet its hold. A hold that is gone, because a renewal
    /// of Redisson's cut it short before its answer came, stays lost.
    pub(super) fn trusted(&mut self, id: Id) {
        if self.keeps(id) {
            self.expired.remove(&id);
        }
    }

    /// Its holder trusts it for longer than before.
    pub(super) fn trusted_longer(&mut self, id: Id, now: Ms) {
        if self.is_cut {
            self.undercut.insert(id, now);
        }
    }

    /// A new hold under an old id.
    pub(super) fn begin_again(&mut self, id: Id) {
        self.ousted.remove(&id);
        self.expired.remove(&id);
        self.undercut.remove(&id);
    }

    fn note_bound(&mut self, call: &Call, now: Ms) {
        let lease = match call.verb {
            Verb::Acquire { lease, .. } | Verb::Reenter { lease, .. } | Verb::Renew { lease } => {
                Some(lease)
            }
            Verb::Redisson(Redisson::Lock { lease, .. }) => Some(lease.unwrap_or(WATCHDOG)),
            Verb::Redisson(Redisson::Renewal) => Some(WATCHDOG),
            _ => None,
        };
        if let Some(lease) = lease.filter(|_| self.keeps(call.id) && !call.is_late(now)) {
            let bound = self.bounds.entry(call.id).or_default();
            *bound = (*bound).max(now + lease);
        }
    }

    /// Redisson's renewal of a reader sets the TTL, even downwards: ours raise it again, each in its time. Between its own
    /// holds there is more of the kind.
    fn note_undercut(&mut self, call: &Call, trusts: &BTreeMap<Id, Ms>, now: Ms) {
        let until = self.last.until;
        let all_last = self.last.lasts.values().all(|last| *last <= until);
        self.is_cut = (self.is_cut || call.verb == Verb::Redisson(Redisson::Renewal)) && !all_last;
        for (id, _) in trusts.iter().filter(|(_, trusted)| **trusted > until) {
            let own = is_theirs(*id);
            let lowers = if own {
                call.verb.is_theirs()
            } else {
                call.verb == Verb::Redisson(Redisson::Renewal)
            };
            if lowers && !self.judges_theirs {
                self.undercut.entry(*id).or_insert(now);
            }
        }
        if trusts.get(&call.id).is_some_and(|trusted| *trusted <= until) {
            self.undercut.remove(&call.id);
        }
    }

    /// Whoever is answered "yours" has it for the whole lease.
    fn check_lease(&self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let lease = match (call.verb, answer) {
            (Verb::Acquire { lease, .. }, Value::Nil) => lease,
            (Verb::Reenter { lease, .. } | Verb::Renew { lease }, Value::Int(1)) => lease,
            _ => return,
        };
        let lasts = self.last.lasts.get(&call.id).copied().unwrap_or(0);
        let ends = if call.id.write { self.last.until } else { self.last.until.min(lasts) };
        if ends < world.now() + lease {
            let what = format!("{call} is answered {answer:?}, and the hold ends at {ends}");
            world.violation(Kind::FalseAnswer, what);
        }
    }

    fn check_ttl(&self, call: &Call, before: &Kept, world: &mut World<'_>) {
        let after = &self.last;
        let endless = world.server.all_seen().find(|(_, seen)| seen.until.is_none());
        if let Some(key) = endless.map(|(key, _)| key.to_string()) {
            world.violation(Kind::NoTtl, format!("{call} leaves {key} without a TTL"));
        }
        if after.is_free() || call.verb.is_theirs() {
            return;
        }
        let recomputes = call.verb.ends_hold() && before.holders != after.holders;
        let (was, is) = (before.until, after.until);
        if is < was && !(recomputes && after.is_read()) {
            let what = format!("{call} lets the lock expire at {is}, no longer at {was}");
            world.violation(Kind::TtlFell, what);
        }
        let lease = match call.verb {
            Verb::Acquire { lease, .. }
            | Verb::Reenter { lease, .. }
            | Verb::Renew { lease }
            | Verb::Own(Plain::Lock { lease }) => lease,
            _ => 0,
        };
        let longest = if recomputes && after.is_read() {
            after.holders.keys().filter_map(|id| self.bounds.get(id)).copied().max().unwrap_or(0)
        } else {
            was.max(world.now() + lease)
        };
        if is > longest {
            let what = format!("after {call} the lock lasts until {is}, not until {longest}");
            world.violation(Kind::TtlTooLong, what);
        }
    }
}

/// Whoever frees the lock, or opens it to readers, says so.
fn check_wakes(call: &Call, before: &Kept, after: &Kept, world: &mut World<'_>) {
    let due = match () {
        () if before.is_written() && !after.is_written() => "1",
        () if before.is_read() && after.is_free() => "0",
        () => return,
    };
    let told = world.server.messages().iter();
    let told: Vec<_> = told.filter(|message| message.channel == CHANNEL).collect();
    if !told.iter().any(|message| message.text == due) {
        let what = format!("{call} says {told:?} where {due} is due");
        world.violation(Kind::NotWoken, what);
    }
}

fn check_time(call: &Call, before: &Kept, after: &Kept, world: &mut World<'_>) {
    let kept = |kept: &Kept| (kept.mode.clone(), kept.holders.clone(), kept.until);
    if call.is_late(world.now()) && kept(before) != kept(after) {
        world.violation(Kind::TooLate, format!("{call} runs at {}", world.now()));
    }
}

/// Whether what the script said is so.
fn check_answer(call: &Call, answer: &Value, before: &Kept, after: &Kept, world: &mut World<'_>) {
    let is_plain = before.mode.is_none() && !before.is_free();
    let is_right = match (call.verb, answer) {
        _ if call.is_late(world.now()) => true,
        (Verb::Acquire { .. }, Value::ServerError(_)) => is_plain && before == after,
        (Verb::Acquire { .. }, answer) => {
            !is_plain && (*answer == Value::Nil) == after.holders.contains_key(&call.id)
        }
        (Verb::Reenter { .. }, Value::Int(answer)) => {
            (*answer == 1) == after.holders.contains_key(&call.id)
        }
        (Verb::Renew { .. }, answer @ (Value::Int(_) | Value::Array(_))) => {
            (*answer == Value::Int(1)) == after.holders.contains_key(&call.id)
        }
        _ => true,
    };
    if !is_right {
        world.violation(Kind::FalseAnswer, format!("{call} is answered {answer:?}"));
    }
}
