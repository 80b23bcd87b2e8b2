//! The actions of Redisson's threads.

use harness::redis::{Value, cmd};

use super::{Call, Clients, Redisson, Thread, Verb, WATCHDOG, WorldOf, is_renewed};
use crate::clients::CallOf;
use crate::model::{Kind, Ms};
use crate::template::latch;

/// Clients of which some are threads of Redisson's.
pub(crate) trait RedissonThreads: Clients {
    fn threads(&mut self) -> &mut [Thread<Self::Id>];

    /// Whether an unlock that leaves holds sets the time of all of them.
    fn unlock_levels(_id: Self::Id) -> bool {
        true
    }

    fn thread(&mut self, id: Self::Id) -> &mut Thread<Self::Id> {
        self.threads().iter_mut().find(|thread| thread.id == id).expect("a thread of that name")
    }

    fn thread_locks(
        &mut self,
        id: Self::Id,
        lease: Option<Ms>,
        world: &mut WorldOf<'_, Self>,
    ) -> bool {
        let can = self.thread(id).can_lock(lease);
        can && self.thread_calls(id, Redisson::Lock { lease, wait: 0 }, world)
    }

    fn thread_unlocks(&mut self, id: Self::Id, twice: bool, world: &mut WorldOf<'_, Self>) -> bool {
        let unlock = self.thread(id).unlock(twice);
        unlock.is_some_and(|unlock| self.thread_calls(id, unlock, world))
    }

    fn thread_calls(
        &mut self,
        id: Self::Id,
        verb: Redisson,
        world: &mut WorldOf<'_, Self>,
    ) -> bool {
        self.thread(id).pending = Some(world.step());
        self.call(Call::new(id, Verb::Redisson(verb), world.step()), world);
        true
    }

    /// The server has run a call of a thread: an unlock perhaps once more, and then its latch goes.
    fn thread_ran(&mut self, call: &CallOf<Self>, answer: &Value, world: &mut WorldOf<'_, Self>) {
        let Verb::Redisson(Redisson::Unlock { twice, .. }) = call.verb else { return };
        if twice && *answer != Value::Nil {
            let again = self.run_at_once(call, world);
            assert_eq!(again, *answer, "Redisson's latch answers a repeated unlock");
        }
        world.server.command(cmd("DEL").arg(latch(call.operation)));
    }

    /// A thread hears the answer to its call.
    fn on_thread_reply(
        &mut self,
        call: &CallOf<Self>,
        answer: &Value,
        world: &mut WorldOf<'_, Self>,
    ) {
        let (id, now) = (call.id, world.now());
        let count = self.count(id).unwrap_or(0);
        let thread = self.thread(id);
        thread.pending = None;
        match (call.verb, answer) {
            (Verb::Redisson(Redisson::Lock { lease, .. }), Value::Nil) => {
                thread.locked(lease, count, now);
                if count == 1 {
                    self.begin_again(id);
                }
            }
            (Verb::Redisson(Redisson::Unlock { lease, .. }), Value::Int(_)) => {
                thread.unlocked(count, Self::unlock_levels(id).then_some(now + lease));
            }
            (Verb::Redisson(Redisson::Unlock { .. }), Value::Nil) => self.thread_lost(id, world),
            _ => {}
        }
    }

    /// Those renew for whom it is time.
    fn threads_ring(&mut self, world: &mut WorldOf<'_, Self>) {
        let now = world.now();
        let due = |thread: &&Thread<_>| thread.alarm().is_some_and(|alarm| alarm <= now);
        let due: Vec<_> = self.threads().iter().filter(due).map(|thread| thread.id).collect();
        for id in due {
            self.thread(id).renew_at += WATCHDOG / 3;
            let call = Call::new(id, Verb::Redisson(Redisson::Renewal), world.step());
            let answer = self.run_at_once(&call, world);
            if !is_renewed(&answer) {
                self.thread_lost(id, world);
            }
        }
    }

    fn thread_lost(&mut self, id: Self::Id, world: &mut WorldOf<'_, Self>) {
        self.thread(id).ends.clear();
        if !self.was_lost(id) {
            let what = format!("Redisson's {id} is told that it was not held");
            world.violation(Kind::FalseAlarm, what);
        }
    }
}
