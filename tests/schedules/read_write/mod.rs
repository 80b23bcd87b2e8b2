//! The read/write lock: owners of this crate that read and write, threads of Redisson, an outsider that breaks the lock by force,
//! and a stranger that uses the name for a plain lock.

mod action;
mod call;
mod check;
mod choices;
mod claim;
mod kept;
mod on_reply;
mod redisson;
mod rules;
mod scripts;
mod steps;
mod tests;
mod thread;
mod times;
mod truth;

use std::collections::BTreeMap;

use harness::RedisServer;
use harness::redis::Value;

use crate::LOCK;
use crate::clients::{Clients, Janitor, Name, Redisson, RedissonThreads, capture_scripts};
use crate::fuzz::Fuzzed;
use crate::model::{Closing, Model, Ms, Server, StepId};
use action::{Action, OwnerStep};
use call::{
    Call, Id, OUTSIDER, OWNERS, Own, STRANGER, Seat, THREADS, Under, Verb, World, is_theirs,
};
use claim::Claim;
use rules::{Rule, Rules};
use scripts::{Scripts, TIMEOUTS};
use thread::Thread;
use truth::Truth;

/// What becomes of an owner's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Life {
    Up,
    Stalled,
    Crashed,
}

/// The model.
#[derive(Debug)]
pub(crate) struct ReadWrite {
    rules: Rules,
    scripts: Scripts,
    lives: BTreeMap<Name, Life>,
    claims: BTreeMap<Seat, Claim>,
    threads: Vec<Thread>,
    janitor: Janitor<Id>,
    /// Until when copies of those who crashed may still get the lock.
    ghosts_until: Ms,
    /// When the stranger's lease ends.
    stranger_until: Option<Ms>,
    truth: Truth,
}

impl Fuzzed for ReadWrite {
    type Model = Self;
    type Rule = Rule;
    type Scripts = Scripts;

    const SCHEDULES: u64 = 800;
    const WATCHED: &[&str] = &[LOCK, TIMEOUTS];

    fn load(server: &mut Server, rules: Rules) -> Scripts {
        Scripts::load(server, rules)
    }

    fn invite_redisson(scripts: &mut Scripts, redis: &RedisServer, test: &str) -> bool {
        let side = |kind| capture_scripts(redis, test, kind);
        scripts.theirs = side("read").and_then(|read| Some([read, side("write")?]));
        scripts.theirs.is_some()
    }

    /// Three owners of ours, and two threads of Redisson's when its scripts are known.
    fn model(rules: Rules, scripts: &Scripts) -> Self {
        let ours = OWNERS.iter().filter(|_| scripts.ours);
        let theirs = THREADS.iter().filter(|_| scripts.theirs.is_some());
        Self {
            rules,
            scripts: scripts.clone(),
            lives: ours.chain(theirs).map(|owner| (*owner, Life::Up)).collect(),
            claims: BTreeMap::new(),
            threads: scripts.theirs.as_ref().map(|_| thread::threads()).unwrap_or_default(),
            janitor: Janitor::default(),
            ghosts_until: 0,
            stranger_until: None,
            truth: Truth::new(!scripts.ours),
        }
    }
}

impl ReadWrite {
    fn note(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let trusts = self.trusts(world);
        self.truth.ran(call, answer, &trusts, world);
    }

    fn can(&self, action: &Action, now: Ms) -> bool {
        match action {
            Action::OwnerStep(seat, step) => self.can_do(*seat, *step, now),
            Action::Swap { from } => self.can_swap(*from, now),
            Action::Stall(owner) => self.life(*owner) == Life::Up,
            Action::Crash(owner) => {
                let waits = |thread: &Thread| thread.id.owner == *owner && thread.pending.is_some();
                self.life(*owner) == Life::Up && !self.threads.iter().any(waits)
            }
            Action::Wake(owner) => self.life(*owner) == Life::Stalled,
            Action::Tidy(id) => {
                self.life(id.owner) == Life::Up && self.janitor.next().any(|(next, _)| next == *id)
            }
            Action::PlainLock(_) => self.stranger_until.is_none(),
            Action::PlainUnlock => self.stranger_until.is_some(),
            Action::Force { .. } | Action::ThreadLocks(..) | Action::ThreadUnlocks { .. } => true,
        }
    }

    fn life(&self, owner: Name) -> Life {
        self.lives.get(&owner).copied().unwrap_or(Life::Crashed)
    }

    fn claim(&mut self, seat: Seat) -> &mut Claim {
        self.claims.get_mut(&seat).expect("a claim")
    }

    fn plain(&mut self, verb: Verb, world: &mut World<'_>) {
        let id = Id { owner: STRANGER, number: 0, write: false };
        let answer = self.run_at_once(&Call::new(id, verb, world.step()), world);
        self.stranger_until = match (verb, answer) {
            (Verb::Own(Own::Lock { lease }), Value::Nil) => Some(world.now() + lease),
            _ => None,
        };
    }

    /// Who renews or gives up its belief, and when.
    fn alarms(&self) -> impl Iterator<Item = (Seat, Ms)> {
        let holding = self.claims.iter().filter(|(_, claim)| claim.holds());
        holding.map(|(seat, claim)| {
            let is_paused = claim.downgrade().is_some_and(|swap| {
                self.rules.keep(Rule::DowngradePauses) || claim.own.renew_at > swap.not_after
            });
            let renews = self.life(seat.owner) == Life::Up
                && claim.renewal(claim.own.renew_at).is_some()
                && !is_paused;
            let renewal = if renews { claim.own.renew_at } else { Ms::MAX };
            (*seat, claim.trusted_until.min(renewal))
        })
    }
}

impl Clients for ReadWrite {
    type Id = Id;
    type Terms = Under;
    type Own = Own;

    fn call(&mut self, mut call: Call, world: &mut World<'_>) {
        if !self.rules.keep(Rule::NotAfter) {
            call.verb.lasts_for_ever();
        }
        let invocation = self.scripts.invocation(&call);
        world.send(call, invocation);
    }

    fn run_at_once(&mut self, call: &Call, world: &mut World<'_>) -> Value {
        world.say(|| format!("      {call}"));
        let answer = world.run(&self.scripts.invocation(call));
        self.note(call, &answer, world);
        answer
    }

    fn count(&self, id: Id) -> Option<u32> {
        self.truth.count(id)
    }

    fn was_lost(&self, id: Id) -> bool {
        self.truth.was_lost(id)
    }

    fn begin_again(&mut self, id: Id) {
        self.truth.begin_again(id);
    }
}

impl Model for ReadWrite {
    type Action = Action;
    type Call = Call;

    fn choices(&self, world: &World<'_>) -> Vec<(u32, Action)> {
        let mut choices = self.weighed();
        choices.retain(|(_, action)| self.can(action, world.now()));
        choices
    }

    fn class(action: &Action) -> usize {
        action.class()
    }

    fn act(&mut self, action: &Action, world: &mut World<'_>) -> bool {
        if !self.can(action, world.now()) {
            return false;
        }
        let operation = world.step();
        match *action {
            Action::OwnerStep(seat, step) => self.do_step(seat, step, world),
            Action::Swap { from } => self.swap(from, world),
            Action::Stall(owner) => drop(self.lives.insert(owner, Life::Stalled)),
            Action::Wake(owner) => {
                self.lives.insert(owner, Life::Up);
                self.truth.wakes(owner, world.now());
            }
            Action::Crash(owner) => self.crash(owner),
            Action::Tidy(id) => self.call(Call::new(id, Verb::Tidy, operation), world),
            Action::Force { write, theirs } => {
                let not_after = world.now() + 20;
                let verb = if theirs {
                    Verb::Redisson(Redisson::Force)
                } else {
                    Verb::Force { not_after }
                };
                self.call(
                    Call::new(Id { owner: OUTSIDER, number: 0, write }, verb, operation),
                    world,
                );
            }
            Action::ThreadLocks(seat, lease) => return self.side_locks(seat, lease, world),
            Action::ThreadUnlocks { seat, twice } => {
                return self.side_unlocks(seat, twice, world);
            }
            Action::PlainLock(lease) => self.plain(Verb::Own(Own::Lock { lease }), world),
            Action::PlainUnlock => self.plain(Verb::Own(Own::Unlock), world),
        }
        true
    }

    fn ran(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) -> bool {
        self.note(call, answer, world);
        self.thread_ran(call, answer, world);
        call.verb.is_theirs()
    }

    fn answered(
        &mut self,
        name: StepId,
        sent: Ms,
        call: &Call,
        answer: &Value,
        world: &mut World<'_>,
    ) {
        match call.verb {
            Verb::Tidy if self.life(call.id.owner) != Life::Up => {}
            Verb::Tidy => self.janitor.answered(call.id, sent),
            Verb::Force { .. } | Verb::Redisson(Redisson::Force) => {}
            verb if verb.is_theirs() => self.on_thread_reply(call, answer, world),
            _ => self.on_reply(name, sent, call, answer, world),
        }
    }

    fn alarm(&self) -> Option<Ms> {
        let ours = self.alarms().map(|(_, alarm)| alarm);
        ours.chain(self.threads.iter().filter_map(Thread::alarm)).min()
    }

    fn ring(&mut self, world: &mut World<'_>) {
        let now = world.now();
        let due: Vec<_> =
            self.alarms().filter(|(_, alarm)| *alarm <= now).map(|(seat, _)| seat).collect();
        for seat in due {
            if self.claim(seat).trusted_until <= now {
                world.say(|| format!("      {seat} trusts its hold no longer"));
                self.abandon(seat, now);
            } else {
                self.renew(seat, world);
            }
        }
        self.threads_ring(world);
    }

    fn expired(&mut self, keys: &[String], world: &mut World<'_>) {
        if keys.iter().any(|key| key == LOCK) {
            world.say(|| "      the lock expires".into());
            self.lock_expired(world);
        }
    }

    fn check(&self, world: &mut World<'_>) {
        self.check_beliefs(world);
        self.check_orphans(world);
        self.check_counts(world);
    }

    fn closing(&self, world: &World<'_>) -> Option<Closing<Action>> {
        for (owner, life) in &self.lives {
            if *life == Life::Stalled {
                return Some(Closing::Act(Action::Wake(*owner)));
            }
        }
        for (seat, claim) in &self.claims {
            // Until its readers know whether they have lost it.
            if claim.downgrade().is_some() && self.life(seat.owner) == Life::Up {
                return Some(Closing::Wait(claim.trusted_until.max(world.now() + 1)));
            }
            let last =
                OwnerStep::LAST.into_iter().find(|step| self.can_do(*seat, *step, world.now()));
            if let Some(step) = last {
                return Some(Closing::Act(Action::OwnerStep(*seat, step)));
            }
        }
        if self.stranger_until.is_some() {
            return Some(Closing::Act(Action::PlainUnlock));
        }
        if let Some(copy) = self.threads.iter().find_map(|thread| thread.pending) {
            return Some(Closing::Run(copy));
        }
        let holding = self.threads.iter().find(|thread| thread.holds())?;
        Some(Closing::Act(Action::ThreadUnlocks { seat: holding.id.seat(), twice: false }))
    }

    fn owed(&self, world: &World<'_>) -> Option<Closing<Action>> {
        let mut duties = self.janitor.next().filter(|(id, _)| self.life(id.owner) == Life::Up);
        if let Some((id, after)) = duties.next() {
            return Some(match after {
                Some(after) if after >= world.now() => Closing::Wait(after + 1),
                _ => Closing::Act(Action::Tidy(id)),
            });
        }
        if self.lives.values().all(|life| *life != Life::Crashed) {
            return None;
        }
        // Whose process crashed is freed by time.
        if self.ghosts_until >= world.now() {
            return Some(Closing::Wait(self.ghosts_until + 1));
        }
        (!self.truth.last.is_free()).then_some(Closing::Wait(self.truth.last.until))
    }

    /// A timeout key without a hold does no harm, and goes when its lease is over.
    fn may_stay(&self, key: &str, world: &World<'_>) -> bool {
        let lasts = world.server.seen(key).is_some_and(|seen| seen.until.is_some());
        lasts
            && kept::timeout_of(key).is_some_and(|(id, _)| self.truth.was_lost(id) || is_theirs(id))
    }
}
