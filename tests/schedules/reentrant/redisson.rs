//! A thread of Redisson's: its own scripts, one id for ever, the hold counted by the server alone.
//!
//! Its calls arrive once and are answered at once, however long they were on their way: what Redisson makes of lost answers
//! is not ours to judge. But its unlock may run twice, as its latch allows.

use harness::redis::{Value, cmd};

use super::call::{Call, Id, Name, Verb};
use super::{Reentrant, World};
use crate::sim::{Kind, Ms, StepId};
use crate::template::latch;

/// The lease of a hold without one, renewed every third of it.
pub(crate) const WATCHDOG: Ms = 90;

/// One Java thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: Name,
    pub(super) count: u32,
    /// `None`: by the watchdog.
    lease: Option<Ms>,
    ends: Ms,
    renew_at: Ms,
    /// The call it waits for.
    pub(super) pending: Option<StepId>,
}

impl Thread {
    pub(super) fn new(name: Name) -> Self {
        Self { name, count: 0, lease: None, ends: 0, renew_at: 0, pending: None }
    }

    pub(super) fn id(&self) -> Id {
        Id { owner: self.name, number: 0 }
    }

    /// The hold it believes in: with the watchdog until it unlocks, else as long as the lease.
    pub(super) fn believes(&self, world: &World<'_>) -> Option<Id> {
        let unlocks = self
            .pending
            .and_then(|copy| world.network.get(copy))
            .is_some_and(|copy| matches!(copy.call.verb, Verb::TheirUnlock { .. }));
        let lasts = self.lease.is_none() || world.now() < self.ends;
        (self.count > 0 && !unlocks && lasts).then(|| self.id())
    }

    /// When it renews next.
    pub(super) fn alarm(&self) -> Option<Ms> {
        (self.count > 0 && self.lease.is_none()).then_some(self.renew_at)
    }
}

impl Reentrant {
    pub(super) fn thread_locks(
        &mut self,
        who: Name,
        lease: Option<Ms>,
        world: &mut World<'_>,
    ) -> bool {
        let thread = self.thread(who);
        // A hold is kept as it began: Redisson does not mix leases and the watchdog well.
        if thread.pending.is_some() || thread.count > 0 && thread.lease != lease {
            return false;
        }
        thread.pending = Some(world.step());
        self.thread_calls(who, Verb::TheirLock { lease }, world)
    }

    pub(super) fn thread_unlocks(&mut self, who: Name, twice: bool, world: &mut World<'_>) -> bool {
        let thread = self.thread(who);
        if thread.pending.is_some() || thread.count == 0 {
            return false;
        }
        thread.pending = Some(world.step());
        let lease = thread.lease.unwrap_or(WATCHDOG);
        self.thread_calls(who, Verb::TheirUnlock { lease, twice }, world)
    }

    fn thread_calls(&mut self, who: Name, verb: Verb, world: &mut World<'_>) -> bool {
        let id = self.thread(who).id();
        self.call(Call { id, verb, operation: world.step() }, world);
        true
    }

    /// The server has run an unlock: perhaps once more, and then the latch goes.
    pub(super) fn unlock_ran(
        &mut self,
        call: &Call,
        answer: &Value,
        twice: bool,
        world: &mut World<'_>,
    ) {
        if twice && *answer != Value::Nil {
            let again = world.run(&self.scripts.invocation(call));
            assert_eq!(again, *answer, "Redisson's latch answers a repeated unlock");
            self.note(call, answer, world);
        }
        world.server.command(cmd("DEL").arg(latch(call.operation)));
    }

    pub(super) fn thread_hears(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let now = world.now();
        let count = self.truth.count(call.id).unwrap_or(0);
        let thread = self.thread(call.id.owner);
        thread.pending = None;
        match (call.verb, answer) {
            (Verb::TheirLock { lease }, Value::Nil) => {
                if thread.count == 0 || count == 1 {
                    thread.renew_at = now + WATCHDOG / 3;
                }
                (thread.count, thread.lease, thread.ends) =
                    (count, lease, now + lease.unwrap_or(0));
                if count == 1 {
                    self.truth.begin_again(call.id);
                }
            }
            (Verb::TheirUnlock { lease, .. }, Value::Int(0)) => {
                (thread.count, thread.ends) = (count, now + lease)
            }
            (Verb::TheirUnlock { .. }, Value::Int(1)) => thread.count = 0,
            (Verb::TheirUnlock { .. }, Value::Nil) => self.thread_lost(call.id, world),
            _ => {}
        }
    }

    pub(super) fn thread_renews(&mut self, who: Name, world: &mut World<'_>) {
        let thread = self.thread(who);
        thread.renew_at += WATCHDOG / 3;
        let call = Call { id: thread.id(), verb: Verb::TheirRenewal, operation: world.step() };
        let answer = world.run(&self.scripts.invocation(&call));
        world.say(|| format!("      {call}"));
        self.note(&call, &answer, world);
        match &answer {
            Value::Array(renewed) if renewed[..] == [Value::Int(1)] => {}
            Value::Int(1) => {}
            _ => self.thread_lost(call.id, world),
        }
    }

    fn thread_lost(&mut self, id: Id, world: &mut World<'_>) {
        self.thread(id.owner).count = 0;
        if !self.truth.was_lost(id) {
            world.violation(
                Kind::FalseAlarm,
                format!("Redisson's {id} is told that it was not held"),
            );
        }
    }

    pub(super) fn thread(&mut self, name: Name) -> &mut Thread {
        self.threads.iter_mut().find(|thread| thread.name == name).expect("a thread of that name")
    }
}
