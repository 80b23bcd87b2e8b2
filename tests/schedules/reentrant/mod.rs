//! The reentrant lock, the fenced one and the plain one: owners of this crate, threads of Redisson or other clients of a plain
//! lock, an outsider that breaks the lock by force.

mod action;
mod call;
mod on_reply;
mod owner;
mod plain;
mod rules;
mod scripts;
mod sort;
mod steps;
mod subject;
mod tests;
mod tokens;
mod truth;

use harness::redis::Value;

use crate::LOCK;
use crate::clients::{Clients, Id, Janitor, Name, Redisson, RedissonThreads, Thread};
use crate::model::{Closing, Kind, Model, Ms, StepId};
use action::Action;
use call::{Call, Swap, Verb, World};
use owner::{Claim, Owner, OwnerStep};
use rules::{Rule, Rules};
use scripts::{Scripts, TOKEN};
use tokens::Tokens;
use truth::Truth;

use sort::Sort;

pub(crate) use subject::{Fenced, Plain, Simple};

/// Who breaks the lock by force.
const OUTSIDER: Id = Id { owner: '!', number: 0 };
const LEASES: [Ms; 3] = [60, 150, 400];

/// The model.
#[derive(Debug)]
pub(crate) struct Reentrant {
    rules: Rules,
    scripts: Scripts,
    owners: Vec<Owner>,
    threads: Vec<Thread<Id>>,
    janitor: Janitor<Id>,
    truth: Truth,
    tokens: Tokens,
}

impl Reentrant {
    /// Three owners of ours, one of them with a slow clock, and two threads of Redisson's when its scripts are known.
    fn new(rules: Rules, scripts: &Scripts) -> Self {
        let owner = |name| Owner { name, slow: name == 'B', claim: None };
        let threads = if scripts.theirs.is_some() {
            ['J', 'K'].map(|owner| Thread::new(Id { owner, number: 0 })).into()
        } else {
            Vec::new()
        };
        Self {
            rules,
            scripts: scripts.clone(),
            owners: vec![owner('A'), owner('B'), owner('C')],
            threads,
            janitor: Janitor::default(),
            truth: Truth::default(),
            tokens: Tokens::default(),
        }
    }

    fn can(&self, action: &Action, now: Ms) -> bool {
        let owner =
            |name: &Name| self.owners.iter().find(|owner| owner.name == *name).expect("an owner");
        match action {
            Action::HandOver { from, to } => {
                let may = self.is_reentrant() && self.may_hand_over(owner(from), now);
                may && from != to && owner(to).claim.is_none()
            }
            Action::OwnerStep(_, OwnerStep::Reenter { .. }) if !self.is_reentrant() => false,
            Action::OwnerStep(who, step) => owner(who).can(*step, now),
            Action::Tidy(id) => self.janitor.next().any(|(next, _)| next == *id),
            // What other clients of a plain lock call has no latch.
            Action::ThreadUnlocks { twice, .. } => self.is_reentrant() || !twice,
            Action::Force { .. } | Action::ThreadLocks(..) => true,
        }
    }

    /// The judges take note of what a script has done.
    fn note(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        self.truth.ran(call, answer, world);
        if self.scripts.sort == Sort::Fenced {
            self.tokens.ran(call, answer, world);
        }
    }

    fn believers(&self, world: &World<'_>) -> Vec<Id> {
        let ours = self.owners.iter().filter_map(|owner| owner.believes(world.now()));
        let theirs = self.threads.iter().filter(|thread| thread.believes(world).is_some());
        ours.chain(theirs.map(|thread| thread.id)).filter(|id| !self.truth.is_ousted(*id)).collect()
    }

    /// Whether somebody holds it, wants it, or is going to release it.
    fn is_somebodys(&self, id: Id) -> bool {
        let wanted = |owner: &Owner| owner.claim.as_ref().is_some_and(|claim| claim.id == id);
        let theirs = |thread: &Thread<_>| thread.id == id && thread.is_busy();
        self.owners.iter().any(wanted) || self.threads.iter().any(theirs) || self.janitor.has(id)
    }

    fn owner(&mut self, name: Name) -> &mut Owner {
        self.owners.iter_mut().find(|owner| owner.name == name).expect("an owner of that name")
    }

    fn claim(&mut self, name: Name) -> &mut Claim {
        self.owner(name).claim.as_mut().expect("a claim")
    }
}

impl Clients for Reentrant {
    type Id = Id;
    type Terms = ();
    type Own = Swap;

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

impl RedissonThreads for Reentrant {
    fn threads(&mut self) -> &mut [Thread<Id>] {
        &mut self.threads
    }
}

impl Model for Reentrant {
    type Action = Action;
    type Call = Call;

    fn choices(&self, world: &World<'_>) -> Vec<(u32, Action)> {
        let mut choices = Vec::new();
        // Counter-examples are plainer when nobody breaks the lock by force.
        if self.rules.are_all_kept() {
            choices.push((1, Action::Force { theirs: false }));
        }
        for owner in &self.owners {
            let step = |step| Action::OwnerStep(owner.name, step);
            choices.extend(LEASES.map(|lease| (2, step(OwnerStep::Acquire { lease }))));
            choices.extend(LEASES.map(|lease| (1, step(OwnerStep::Reenter { lease }))));
            choices.extend(
                self.owners
                    .iter()
                    .map(|to| (18, Action::HandOver { from: owner.name, to: to.name })),
            );
            choices.extend(
                [(9, OwnerStep::Resend), (12, OwnerStep::Release), (3, OwnerStep::Restate)]
                    .map(|(n, d)| (n, step(d))),
            );
            choices.extend(
                [
                    (4, OwnerStep::Again),
                    (2, OwnerStep::Cancel),
                    (2, OwnerStep::GiveUp),
                    (3, OwnerStep::Renew),
                ]
                .map(|(n, d)| (n, step(d))),
            );
        }
        for (id, _) in self.janitor.next() {
            choices.push((3, Action::Tidy(id)));
        }
        for who in self.threads.iter().map(|thread| thread.id) {
            choices.extend(
                [None, Some(60), Some(150)].map(|lease| (2, Action::ThreadLocks(who, lease))),
            );
            choices.extend([false, true].map(|twice| (3, Action::ThreadUnlocks { who, twice })));
        }
        if !self.threads.is_empty() {
            choices.push((1, Action::Force { theirs: true }));
        }
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
            Action::OwnerStep(who, step) => self.do_step(who, step, world),
            Action::HandOver { from, to } => self.hand_over(from, to, world),
            Action::Tidy(id) => self.call(Call::new(id, Verb::Tidy, operation), world),
            Action::Force { theirs: false } => {
                let verb = Verb::Force { not_after: world.now() + 20 };
                self.call(Call::new(OUTSIDER, verb, operation), world);
            }
            Action::Force { theirs: true } => {
                self.call(Call::new(OUTSIDER, Verb::Redisson(Redisson::Force), operation), world);
            }
            Action::ThreadLocks(who, lease) => return self.thread_locks(who, lease, world),
            Action::ThreadUnlocks { who, twice } => return self.thread_unlocks(who, twice, world),
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
            Verb::Tidy => self.janitor.answered(call.id, sent),
            Verb::Force { .. } | Verb::Redisson(Redisson::Force) => {}
            verb if verb.is_theirs() => self.on_thread_reply(call, answer, world),
            _ => self.on_reply(name, sent, call, answer, world),
        }
    }

    fn alarm(&self) -> Option<Ms> {
        let holding = self
            .owners
            .iter()
            .filter_map(|owner| owner.claim.as_ref())
            .filter(|claim| claim.holds());
        let ends = holding.map(|claim| claim.trusted_until);
        ends.chain(self.threads.iter().filter_map(Thread::alarm)).min()
    }

    fn ring(&mut self, world: &mut World<'_>) {
        let now = world.now();
        let over = |owner: &&Owner| {
            owner.claim.as_ref().is_some_and(|claim| claim.holds() && claim.trusted_until <= now)
        };
        for name in self.owners.iter().filter(over).map(|owner| owner.name).collect::<Vec<_>>() {
            world.say(|| format!("      {name} trusts its hold no longer"));
            self.abandon(name, now);
        }
        self.threads_ring(world);
    }

    fn expired(&mut self, keys: &[String], world: &mut World<'_>) {
        if keys.iter().any(|key| key == LOCK) {
            world.say(|| "      the lock expires".into());
            self.truth.expired();
            self.tokens.expired();
        }
    }

    fn check(&self, world: &mut World<'_>) {
        let believers = self.believers(world);
        if let [one, other, ..] = believers[..] {
            world.violation(
                Kind::TwoHolders,
                format!("{one} and {other} believe to hold at {}", world.now()),
            );
        }
        let holders = self.truth.holders();
        for id in believers.iter().filter(|id| !holders.contains(id)) {
            world.violation(
                Kind::Vanished,
                format!("{id} believes to hold, and the server does not know it"),
            );
        }
        for id in holders.iter().filter(|id| !self.is_somebodys(**id)) {
            world.violation(
                Kind::Orphan,
                format!("{id} stays on the server, and nobody will release it"),
            );
        }
        let sure = self.owners.iter().filter_map(Owner::sure_count);
        let theirs =
            self.threads.iter().filter(|thread| thread.holds() && thread.pending.is_none());
        let told = sure
            .filter(|(id, _, stated_by)| self.truth.stated_by(*id) == Some(*stated_by))
            .map(|(id, count, _)| (id, count))
            .chain(theirs.map(|thread| (thread.id, thread.count())));
        for (id, count) in told {
            if self.truth.count(id).is_some_and(|kept| kept != count) {
                let kept = self.truth.count(id);
                world.violation(
                    Kind::WrongCount,
                    format!("{id} holds {count} times, and the server keeps {kept:?}"),
                );
            }
        }
    }

    fn closing(&self, world: &World<'_>) -> Option<Closing<Action>> {
        for owner in &self.owners {
            let last = OwnerStep::LAST.into_iter().find(|step| owner.can(*step, world.now()));
            if let Some(step) = last {
                return Some(Closing::Act(Action::OwnerStep(owner.name, step)));
            }
        }
        for thread in &self.threads {
            if let Some(copy) = thread.pending {
                return Some(Closing::Run(copy));
            }
            if thread.holds() {
                return Some(Closing::Act(Action::ThreadUnlocks { who: thread.id, twice: false }));
            }
        }
        None
    }

    fn owed(&self, world: &World<'_>) -> Option<Closing<Action>> {
        self.janitor.next().next().map(|(id, after)| match after {
            Some(after) if after >= world.now() => Closing::Wait(after + 1),
            _ => Closing::Act(Action::Tidy(id)),
        })
    }

    fn may_stay(&self, key: &str, _world: &World<'_>) -> bool {
        key == TOKEN
    }
}
