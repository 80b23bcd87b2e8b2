//! What must never happen.

use std::collections::BTreeMap;

use super::call::{Id, STRANGER, World, is_theirs};
use super::thread::Thread;
use super::{Life, ReadWrite};
use crate::clients::WATCHDOG;
use crate::model::{Kind, Ms};

impl ReadWrite {
    /// Who believes to hold now, and for how long at least.
    pub(super) fn trusts(&self, world: &World<'_>) -> BTreeMap<Id, Ms> {
        let now = world.now();
        let ours = self.claims.values().filter(|claim| claim.believes(now)).map(|claim| {
            // Its readers have whichever there is.
            let to = claim.downgrade().map(|swap| swap.to);
            let to = to.filter(|to| self.truth.keeps(*to) || self.truth.was_lost(*to));
            (to.unwrap_or(claim.id), claim.trusted_until)
        });
        let theirs =
            self.threads.iter().filter_map(|thread| Some((thread.id, thread.believes(world)?)));
        let stranger = Id { owner: STRANGER, number: 0, write: false };
        let strangers = self.stranger_until.filter(|until| now < *until);
        ours.chain(theirs)
            .chain(strangers.map(|until| (stranger, until)))
            .filter(|(id, _)| !self.truth.is_ousted(*id))
            .collect()
    }

    /// A writer is alone but for its own reads, and whoever believes is right.
    pub(super) fn check_beliefs(&self, world: &mut World<'_>) {
        let trusts = self.trusts(world);
        let kept = &self.truth.last;
        for one in trusts.keys().filter(|id| id.is_exclusive()) {
            let blamed = |id: &Id| is_theirs(*id) && self.truth.is_undercut(*id);
            if let Some(other) = trusts
                .keys()
                .find(|other| other.owner != one.owner && !blamed(one) && !blamed(other))
            {
                let what = format!("{one} and {other} believe to hold at {}", world.now());
                world.violation(Kind::TwoHolders, what);
            }
        }
        for (id, trusted) in &trusts {
            if let Some(since) = self.truth.undercut_since(*id) {
                let awake = !is_theirs(*id) && self.life(id.owner) == Life::Up;
                if awake && world.now() - since > WATCHDOG / 3 {
                    let what = format!("{id} trusts until {trusted}, and no renewal upholds it");
                    world.violation(Kind::TtlTooShort, what);
                }
                continue;
            }
            if !kept.holders.contains_key(id) {
                let what = format!("{id} believes to hold, and the server does not know it");
                world.violation(Kind::Vanished, what);
            } else if kept.until < *trusted {
                let until = kept.until;
                let what = format!("{id} trusts until {trusted}, the lock expires at {until}");
                world.violation(Kind::TtlTooShort, what);
            }
            let alive = kept.lasts.get(id).copied().unwrap_or(0);
            if !id.is_exclusive() && !is_theirs(*id) && alive < *trusted {
                let what = format!("{id} trusts until {trusted}, its keys expire at {alive}");
                world.violation(Kind::TtlTooShort, what);
            }
        }
    }

    /// Whoever is kept holds it, wants it, or is going to release it; or it crashed, and time will.
    pub(super) fn check_orphans(&self, world: &mut World<'_>) {
        let kept = &self.truth.last;
        if kept.mode.is_some() && kept.holders.is_empty() {
            world.violation(Kind::Orphan, "a lock without a holder stays on the server".into());
        }
        for id in kept.holders.keys().filter(|id| !self.is_somebodys(**id)) {
            let what = format!("{id} stays on the server, and nobody will release it");
            world.violation(Kind::Orphan, what);
        }
    }

    pub(super) fn check_counts(&self, world: &mut World<'_>) {
        let sure = self.claims.values().filter(|claim| claim.is_sure());
        let ours = sure
            .filter(|claim| self.truth.stated_by(claim.id) == Some(claim.stated_by))
            .map(|claim| (claim.id, claim.count));
        let theirs =
            self.threads.iter().filter(|thread| thread.holds() && thread.pending.is_none());
        for (id, count) in ours.chain(theirs.map(|one| (one.id, one.count()))) {
            if let Some(kept) = self.truth.count(id).filter(|kept| *kept != count) {
                let what = format!("{id} holds {count} times, and the server keeps {kept}");
                world.violation(Kind::WrongCount, what);
            }
        }
    }

    /// The lock has expired. That Redisson's renewal leaves a reader of ours too little time may cost who is stalled its hold;
    /// who is not raises it again in time.
    pub(super) fn lock_expired(&mut self, world: &mut World<'_>) {
        let trusts = self.trusts(world);
        let last = self.truth.expired();
        self.stranger_until = None;
        for id in last.holders.keys() {
            let awake = !is_theirs(*id) && self.life(id.owner) == Life::Up;
            if awake && trusts.contains_key(id) && self.truth.is_undercut(*id) {
                let what = format!("{id} believes to hold, and its renewals did not save it");
                world.violation(Kind::Vanished, what);
            }
        }
    }

    fn is_somebodys(&self, id: Id) -> bool {
        if id.owner == STRANGER {
            return self.stranger_until.is_some();
        }
        let thread = |thread: &Thread| thread.id == id && thread.is_busy();
        let gone = self.life(id.owner) == Life::Crashed;
        gone || self.claims.values().any(|claim| claim.id == id)
            || self.threads.iter().any(thread)
            || self.janitor.has(id)
    }
}
