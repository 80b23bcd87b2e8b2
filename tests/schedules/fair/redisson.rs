//! The actions of Redisson's threads.

use harness::redis::{Value, cmd};

use super::Fair;
use super::call::{Call, Verb, World};
use super::thread::Wish;
use super::times::{THEIR_WAIT, WATCHDOG};
use crate::model::{Ms, virtual_ms};
use crate::reentrant::Name;
use crate::template::latch;

/// A wait of 0 is a hot spin to Redisson; here it takes so long.
const SPIN: Ms = 5;

impl Fair {
    pub(super) fn thread_locks(
        &mut self,
        who: Name,
        lease: Option<Ms>,
        wait: Option<Ms>,
        skew: i64,
        world: &mut World<'_>,
    ) -> bool {
        let thread = self.thread(who);
        // A hold is kept as it began: Redisson does not mix leases and the watchdog well.
        let mixes = thread.count > 0 && thread.lease != lease;
        if thread.dead || thread.pending.is_some() || thread.wish.is_some() || mixes {
            return false;
        }
        thread.skew = skew;
        let gives_up = wait.map(|wait| world.now() + wait);
        let wait = wait.unwrap_or(THEIR_WAIT);
        thread.wish = Some(Wish { lease, wait, gives_up, refused: false, wake_at: None });
        self.thread_calls(who, Verb::TheirLock { lease, wait }, world)
    }

    pub(super) fn thread_unlocks(&mut self, who: Name, world: &mut World<'_>) -> bool {
        let thread = self.thread(who);
        let busy = thread.pending.is_some() || thread.wish.is_some();
        if thread.dead || busy || thread.count == 0 {
            return false;
        }
        let lease = thread.lease.unwrap_or(WATCHDOG);
        self.thread_calls(who, Verb::TheirUnlock { lease }, world)
    }

    pub(super) fn thread_dies(&mut self, who: Name) -> bool {
        let thread = self.thread(who);
        let dies = !thread.dead && thread.pending.is_none();
        thread.dead |= dies;
        dies
    }

    fn thread_calls(&mut self, who: Name, verb: Verb, world: &mut World<'_>) -> bool {
        let thread = self.thread(who);
        thread.pending = Some(world.step());
        let id = thread.id();
        self.call(id, verb, world.step(), world);
        true
    }

    /// Somebody has published to its channel; that it was woken is kept until it looks.
    pub(super) fn thread_is_woken(&mut self, who: Name, now: Ms) {
        if let Some(wish) = &mut self.thread(who).wish {
            wish.wake_at = Some(now);
        }
    }

    pub(super) fn on_thread_reply(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let now = world.now();
        let count = self.line.count(call.id);
        let thread = self.thread(call.id.owner);
        thread.pending = None;
        match (call.verb, answer) {
            (Verb::TheirLock { lease, .. }, Value::Nil) => {
                if thread.count == 0 || count == 1 {
                    thread.renew_at = now + WATCHDOG / 3;
                }
                (thread.count, thread.lease, thread.wish) = (count, lease, None);
                thread.ends = now + lease.unwrap_or(0);
                if count == 1 {
                    self.line.begin_again(call.id);
                }
            }
            (Verb::TheirLock { .. }, Value::Int(ttl)) => {
                let wish = thread.wish.as_mut().expect("a wish");
                wish.wake_at = if wish.refused {
                    virtual_ms(*ttl).map(|ttl| now + ttl.max(SPIN))
                } else {
                    Some(now)
                };
                wish.refused = true;
            }
            (Verb::TheirUnlock { lease }, Value::Int(0)) => {
                (thread.count, thread.ends) = (count, now + lease)
            }
            (Verb::TheirUnlock { .. }, _) => thread.count = 0,
            _ => {}
        }
        if let Verb::TheirUnlock { .. } = call.verb {
            world.server.command(cmd("DEL").arg(latch(call.operation)));
        }
    }

    /// What a thread does by itself, when it is time for it.
    pub(super) fn thread_rings(&mut self, who: Name, world: &mut World<'_>) {
        let (now, asynchronous) = (world.now(), self.scripts.asynchronous);
        let thread = self.thread(who);
        let id = thread.id();
        let clock = now.cast_signed() + thread.skew;
        let call = |verb| Call { id, verb, operation: 0, clock };
        if thread.count > 0 && thread.lease.is_none() && thread.renew_at <= now {
            thread.renew_at = now + WATCHDOG / 3;
            let answer = self.run_at_once(&call(Verb::TheirRenewal), world);
            let renewed = match &answer {
                Value::Array(renewed) => renewed[..] == [Value::Int(1)],
                answer => *answer == Value::Int(1),
            };
            if !renewed {
                self.thread(who).count = 0;
            }
            return;
        }
        let Some(wish) = thread.wish else { return };
        if wish.gives_up.is_some_and(|end| end <= now) {
            let wait = if asynchronous { THEIR_WAIT } else { wish.wait };
            self.run_at_once(&call(Verb::TheirGiveUp { wait }), world);
            self.thread(who).wish = None;
        } else {
            let call = call(Verb::TheirLock { lease: wish.lease, wait: wish.wait });
            let answer = self.run_at_once(&call, world);
            self.on_thread_reply(&call, &answer, world);
        }
    }
}
