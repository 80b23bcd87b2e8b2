//! The actions of Redisson's threads.

use harness::redis::{Value, cmd};

use super::Reentrant;
use super::call::{Call, Id, Name, Verb, World};
use super::thread::{Thread, WATCHDOG};
use crate::model::{Kind, Ms};
use crate::template::latch;

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

    pub(super) fn on_thread_reply(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
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
