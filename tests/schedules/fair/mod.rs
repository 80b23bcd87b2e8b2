//! The fair lock: owners of this crate, threads of Redisson, an outsider that breaks the lock by force. Processes die, and clocks
//! differ.
//!
//! One virtual millisecond stands for 100 real ones: `wait` is 10 s, a heartbeat 3 s. Redisson's wait is 60 s here, not 300, so
//! that schedules end sooner.

mod action;
mod call;
mod choices;
mod line;
mod on_reply;
mod owner;
mod redisson;
mod rules;
mod scripts;
mod state;
mod steps;
mod tests;
mod thread;
mod times;

use std::collections::HashSet;

use harness::RedisServer;
use harness::redis::Value;

use crate::LOCK;
use crate::clients::{Id, Janitor, Name, Redisson, capture_scripts};
use crate::fuzz::Fuzzed;
use crate::model::{Closing, Kind, Model, Ms, Server, StepId};
use action::{Action, OwnerStep, Wish};
use call::{Call, Verb, World};
use line::{Line, Living, whose};
use owner::{Claim, Owner};
use rules::{Rule, Rules};
use scripts::{DEADLINES, QUEUE, Scripts};
use thread::{Thread, rings_at};

/// Who breaks the lock by force, and a stranger.
const OUTSIDER: Id = Id { owner: '!', number: 0 };
const STRANGER: Id = Id { owner: '?', number: 1 };

/// The model.
#[derive(Debug)]
pub(crate) struct Fair {
    rules: Rules,
    scripts: Scripts,
    owners: Vec<Owner>,
    threads: Vec<Thread>,
    janitor: Janitor<Id>,
    line: Line,
    dead: HashSet<Id>,
}

impl Fuzzed for Fair {
    type Model = Self;
    type Rule = Rule;
    type Scripts = Scripts;

    const SCHEDULES: u64 = 400;
    const WATCHED: &[&str] = &[LOCK, QUEUE, DEADLINES];

    fn load(server: &mut Server, rules: Rules) -> Scripts {
        Scripts::load(server, rules)
    }

    fn invite_redisson(scripts: &mut Scripts, redis: &RedisServer, test: &str) -> bool {
        scripts.theirs = capture_scripts(redis, test, "fair");
        scripts.theirs.is_some()
    }

    /// Redisson's script makes a deadline of a TTL.
    fn is_exact(scripts: &Scripts) -> bool {
        scripts.theirs.is_none()
    }

    /// Four owners of ours, of which two are of one process, and, when Redisson's scripts are known, three threads of its.
    fn model(rules: Rules, scripts: &Scripts) -> Self {
        let threads = if scripts.theirs.is_some() { "JKL" } else { "" };
        Self {
            rules,
            scripts: scripts.clone(),
            owners: "ABCD".chars().map(|name| Owner { name, claim: None }).collect(),
            threads: threads.chars().map(|owner| Thread::new(Id { owner, number: 0 })).collect(),
            janitor: Janitor::default(),
            line: Line::new(!scripts.ours),
            dead: HashSet::new(),
        }
    }
}

impl Fair {
    fn call(&mut self, id: Id, mut verb: Verb, operation: StepId, world: &mut World<'_>) {
        if !self.rules.keep(Rule::NotAfter) {
            verb.lasts_for_ever();
        }
        let skew =
            self.threads.iter().find(|thread| thread.id == id).map_or(0, |thread| thread.own.skew);
        let call =
            Call { clock: world.now().cast_signed() + skew, ..Call::new(id, verb, operation) };
        let invocation = self.scripts.invocation(&call);
        world.send(call, invocation);
    }

    /// A call that is not held up by the network.
    fn run_at_once(&mut self, call: &Call, world: &mut World<'_>) -> Value {
        let answer = world.run(&self.scripts.invocation(call));
        let now = world.now();
        world.say(|| format!("      {call} at {now}"));
        self.has_run(call, &answer, world);
        answer
    }

    fn has_run(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let living = self.living();
        self.line.ran(call, answer, &living, world);
        let now = world.now();
        let woken: Vec<Id> =
            world.server.messages().iter().filter_map(|message| whose(&message.channel)).collect();
        for id in woken {
            world.say(|| format!("        {id} is woken"));
            if call::is_ours(id) {
                let claim = self.owners.iter_mut().filter_map(|owner| owner.claim.as_mut());
                for claim in claim.filter(|claim| claim.id == id && claim.subscribed) {
                    claim.look_at(now);
                }
            } else {
                self.thread_is_woken(id.owner, now);
            }
        }
    }

    fn living(&self) -> Living {
        let ours = self.owners.iter().filter_map(Owner::waits).filter(|claim| claim.is_steady());
        let theirs =
            self.threads.iter().filter(|thread| thread.own.waits()).map(|thread| thread.id);
        ours.map(|claim| claim.id).chain(theirs).collect()
    }

    fn can(&self, action: &Action, now: Ms) -> bool {
        match action {
            Action::OwnerStep(who, step) => {
                self.owners.iter().any(|owner| owner.name == *who && owner.can(*step, now))
            }
            Action::Tidy(id) => self.janitor.next().any(|(next, _)| next == *id),
            _ => true,
        }
    }

    /// Whether somebody holds it, wants it, or is going to withdraw it; or nobody can any more.
    fn is_somebodys(&self, id: Id) -> bool {
        let wanted = |owner: &Owner| owner.claim.as_ref().is_some_and(|claim| claim.id == id);
        let theirs = |thread: &Thread| {
            let waiter = &thread.own;
            thread.id == id && (thread.is_busy() || waiter.wish.is_some() || waiter.dead)
        };
        self.owners.iter().any(wanted)
            || self.threads.iter().any(theirs)
            || self.janitor.has(id)
            || self.dead.contains(&id)
    }

    /// Whether this waiter will look at the lock again.
    fn waits(&self, id: Id) -> bool {
        let theirs = |thread: &Thread| thread.id == id && thread.own.waits();
        self.owners.iter().filter_map(Owner::waits).any(|claim| claim.id == id)
            || self.threads.iter().any(theirs)
    }

    fn owner(&mut self, name: Name) -> &mut Owner {
        self.owners.iter_mut().find(|owner| owner.name == name).expect("an owner of that name")
    }

    fn claim(&mut self, name: Name) -> &mut Claim {
        self.owner(name).claim.as_mut().expect("a claim")
    }

    fn thread(&mut self, name: Name) -> &mut Thread {
        self.threads
            .iter_mut()
            .find(|thread| thread.id.owner == name)
            .expect("a thread of that name")
    }
}

impl Model for Fair {
    type Action = Action;
    type Call = Call;

    fn choices(&self, world: &World<'_>) -> Vec<(u32, Action)> {
        self.all_choices(world.now())
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
            Action::OwnerStep(who, step) => self.do_step(who, step, world),
            Action::Tidy(id) => self.call(id, Verb::Tidy, operation, world),
            Action::Force { theirs: false } => {
                let verb = Verb::Force { not_after: world.now() + 20 };
                self.call(OUTSIDER, verb, operation, world);
            }
            Action::Force { theirs: true } => {
                self.call(OUTSIDER, Verb::Redisson(Redisson::Force), operation, world)
            }
            Action::Meddle => {
                let verb = if operation.is_multiple_of(2) {
                    Verb::Tidy
                } else {
                    Verb::Release { count: 0 }
                };
                self.call(STRANGER, verb, operation, world);
            }
            Action::ThreadLocks { who, lease, wait, skew } => {
                return self.thread_locks(who, lease, wait, skew, world);
            }
            Action::ThreadUnlocks(who) => return self.thread_unlocks(who, world),
            Action::ThreadDies(who) => return self.thread_dies(who),
        }
        true
    }

    fn ran(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) -> bool {
        self.has_run(call, answer, world);
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
            Verb::Tidy => self.janitor.answered(call.id, sent),
            Verb::Force { .. } | Verb::Redisson(Redisson::Force) => {}
            verb if verb.is_theirs() => self.on_thread_reply(call, answer, world),
            _ => self.on_reply(name, sent, call, answer, world),
        }
    }

    fn alarm(&self) -> Option<Ms> {
        let ours = self.owners.iter().filter_map(Owner::alarm);
        ours.chain(self.threads.iter().filter_map(rings_at)).min()
    }

    fn ring(&mut self, world: &mut World<'_>) {
        let now = world.now();
        let due = |alarm: Option<Ms>| alarm.is_some_and(|alarm| alarm <= now);
        for name in self.owners.iter().map(|owner| owner.name).collect::<Vec<_>>() {
            if due(self.owner(name).alarm()) {
                self.owner_rings(name, world);
            }
        }
        for name in self.threads.iter().map(|thread| thread.id.owner).collect::<Vec<_>>() {
            if due(rings_at(self.thread(name))) {
                self.thread_rings(name, world);
            }
        }
    }

    fn expired(&mut self, _keys: &[String], world: &mut World<'_>) {
        world.say(|| "      the lock expires".into());
        self.line.expired(world.now());
    }

    fn check(&self, world: &mut World<'_>) {
        let now = world.now();
        let ours = self.owners.iter().filter_map(|owner| owner.believes(now));
        let theirs = self
            .threads
            .iter()
            .filter(|thread| !thread.own.dead && thread.believes(world).is_some());
        let believers: Vec<Id> = ours
            .chain(theirs.map(|thread| thread.id))
            .filter(|id| !self.line.is_ousted(*id))
            .collect();
        if let [one, other, ..] = believers[..] {
            world
                .violation(Kind::TwoHolders, format!("{one} and {other} believe to hold at {now}"));
        }
        for id in believers.iter().filter(|id| self.line.count(**id) == 0) {
            let what = format!("{id} believes to hold, and the server does not know it");
            world.violation(Kind::Vanished, what);
        }
        let kept = self.line.holders().chain(self.line.queue().iter().copied());
        for id in kept.filter(|id| !self.is_somebodys(*id)) {
            let what = format!("{id} stays on the server, and nobody will take it away");
            world.violation(Kind::Orphan, what);
        }
        self.line.check_head(|id| self.waits(id), &self.living(), world);
        let sleeps =
            self.threads.iter().find(|thread| thread.own.waits() && thread.pending.is_none());
        if let Some(thread) = sleeps
            && self.line.is_free()
            && self.alarm().is_none()
            && self.janitor.next().next().is_none()
            && world.network.to_run().is_empty()
        {
            let what = format!("the lock is free, and {} sleeps for ever", thread.id);
            world.violation(Kind::Stuck, what);
        }
    }

    fn closing(&self, world: &World<'_>) -> Option<Closing<Action>> {
        self.finish(world, false)
    }

    /// The janitor's, and then a last one comes and finds what the dead have left overdue.
    fn owed(&self, world: &World<'_>) -> Option<Closing<Action>> {
        if let Some(closing) = self.finish(world, true) {
            return Some(closing);
        }
        let now = world.now();
        let late = world.network.to_run().into_iter().filter_map(|copy| world.network.get(copy));
        let of_dead = late.filter(|copy| self.dead.contains(&copy.call.id));
        let last = of_dead.filter_map(|copy| copy.call.verb.not_after()).max();
        if let Some(last) = last.filter(|last| (now..Ms::MAX).contains(last)) {
            return Some(Closing::Wait(last + 1));
        }
        let free_at = world.server.seen(LOCK).and_then(|lock| lock.until);
        let overdue = (!self.line.queue().is_empty()).then(|| self.line.overdue_at());
        match free_at.max(overdue) {
            None => None,
            Some(time) if time > now => Some(Closing::Wait(time)),
            Some(_) => {
                let sweep = OwnerStep::Acquire { lease: 60, wish: Wish::Try };
                Some(Closing::Act(Action::OwnerStep('A', sweep)))
            }
        }
    }
}
