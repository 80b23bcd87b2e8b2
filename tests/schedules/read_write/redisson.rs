//! The actions of Redisson's threads.

use harness::redis::{Value, cmd};

use super::call::{Call, Id, Seat, Verb, World};
use super::thread::Thread;
use super::times::WATCHDOG;
use super::{Life, ReadWrite};
use crate::model::{Kind, Ms};
use crate::template::latch;

impl ReadWrite {
    pub(super) fn thread_locks(
        &mut self,
        seat: Seat,
        lease: Option<Ms>,
        world: &mut World<'_>,
    ) -> bool {
        let is_busy = |thread: &Thread| {
            // One thing at a time, and never to write while it reads.
            let other = thread.seat.owner == seat.owner && thread.seat != seat;
            thread.pending.is_some() && thread.seat.owner == seat.owner
                || other && seat.write && !thread.ends.is_empty()
        };
        if self.life(seat.owner) != Life::Up || self.threads.iter().any(is_busy) {
            return false;
        }
        let thread = self.thread(seat);
        // A hold is kept as it began: Redisson does not mix leases and the watchdog well.
        if !thread.ends.is_empty() && thread.lease != lease {
            return false;
        }
        thread.pending = Some(world.step());
        self.thread_calls(seat, Verb::TheirLock { lease }, world)
    }

    pub(super) fn thread_unlocks(
        &mut self,
        seat: Seat,
        twice: bool,
        world: &mut World<'_>,
    ) -> bool {
        let is_busy = |thread: &Thread| thread.seat.owner == seat.owner && thread.pending.is_some();
        if self.threads.iter().any(is_busy) || self.thread(seat).ends.is_empty() {
            return false;
        }
        let thread = self.thread(seat);
        thread.pending = Some(world.step());
        let lease = thread.lease.unwrap_or(WATCHDOG);
        self.thread_calls(seat, Verb::TheirUnlock { lease, twice }, world)
    }

    fn thread_calls(&mut self, seat: Seat, verb: Verb, world: &mut World<'_>) -> bool {
        let id = self.thread(seat).id();
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
            let again = self.run_at_once(call, world);
            assert_eq!(again, *answer, "Redisson's latch answers a repeated unlock");
        }
        world.server.command(cmd("DEL").arg(latch(call.operation)));
    }

    pub(super) fn on_thread_reply(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let now = world.now();
        let count = self.truth.count(call.id).unwrap_or(0) as usize;
        let thread = self.thread(call.id.seat());
        thread.pending = None;
        match (call.verb, answer) {
            (Verb::TheirLock { lease }, Value::Nil) => {
                if thread.ends.is_empty() || count == 1 {
                    thread.renew_at = now + WATCHDOG / 3;
                }
                thread.lease = lease;
                thread.ends.resize(count, now);
                thread.ends[count - 1] = now + lease.unwrap_or(WATCHDOG);
                if count == 1 {
                    self.truth.begin_again(call.id);
                }
            }
            // A writer's partial unlock sets the TTL to one lease; a reader's takes the newest hold away.
            (Verb::TheirUnlock { lease, .. }, Value::Int(_)) => {
                thread.ends.truncate(count);
                if thread.seat.write {
                    thread.ends.fill(now + lease);
                }
            }
            (Verb::TheirUnlock { .. }, Value::Nil) => self.thread_lost(call.id, world),
            _ => {}
        }
    }

    pub(super) fn thread_renews(&mut self, seat: Seat, world: &mut World<'_>) {
        let thread = self.thread(seat);
        thread.renew_at += WATCHDOG / 3;
        let call = Call { id: thread.id(), verb: Verb::TheirRenewal, operation: world.step() };
        let answer = self.run_at_once(&call, world);
        match &answer {
            Value::Array(renewed) if renewed[..] == [Value::Int(1)] => {}
            Value::Int(1) => {}
            _ => self.thread_lost(call.id, world),
        }
    }

    fn thread_lost(&mut self, id: Id, world: &mut World<'_>) {
        self.thread(id.seat()).ends.clear();
        if !self.truth.was_lost(id) {
            let what = format!("Redisson's {id} is told that it was not held");
            world.violation(Kind::FalseAlarm, what);
        }
    }

    fn thread(&mut self, seat: Seat) -> &mut Thread {
        self.threads.iter_mut().find(|thread| thread.seat == seat).expect("a thread of that name")
    }
}
