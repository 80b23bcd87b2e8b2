//! The actions of Redisson's threads. Each has a clock of its own.

use harness::redis::{Value, cmd};

use super::Fair;
use super::call::{Call, Verb, World};
use super::thread::Wish;
use crate::clients::{Name, Redisson, THEIR_WAIT, WATCHDOG, is_renewed};
use crate::model::{Ms, virtual_ms};
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
        if thread.own.dead || thread.own.wish.is_some() || !thread.can_lock(lease) {
            return false;
        }
        thread.own.skew = skew;
        let gives_up = wait.map(|wait| world.now() + wait);
        let wait = wait.unwrap_or(THEIR_WAIT);
        thread.own.wish = Some(Wish { lease, wait, gives_up, refused: false, wake_at: None });
        self.thread_calls(who, Redisson::Lock { lease, wait }, world)
    }

    pub(super) fn thread_unlocks(&mut self, who: Name, world: &mut World<'_>) -> bool {
        let thread = self.thread(who);
        let busy = thread.own.dead || thread.own.wish.is_some();
        let Some(unlock) = thread.unlock(false).filter(|_| !busy) else { return false };
        self.thread_calls(who, unlock, world)
    }

    pub(super) fn thread_dies(&mut self, who: Name) -> bool {
        let thread = self.thread(who);
        let dies = !thread.own.dead && thread.pending.is_none();
        thread.own.dead |= dies;
        dies
    }

    fn thread_calls(&mut self, who: Name, verb: Redisson, world: &mut World<'_>) -> bool {
        let thread = self.thread(who);
        thread.pending = Some(world.step());
        let id = thread.id;
        self.call(id, Verb::Redisson(verb), world.step(), world);
        true
    }

    /// Somebody has published to its channel; that it was woken is kept until it looks.
    pub(super) fn thread_is_woken(&mut self, who: Name, now: Ms) {
        if let Some(wish) = &mut self.thread(who).own.wish {
            wish.wake_at = Some(now);
        }
    }

    pub(super) fn on_thread_reply(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let Verb::Redisson(verb) = call.verb else { return };
        let now = world.now();
        let count = self.line.count(call.id);
        let thread = self.thread(call.id.owner);
        thread.pending = None;
        match (verb, answer) {
            (Redisson::Lock { lease, .. }, Value::Nil) => {
                thread.locked(lease, count, now);
                thread.own.wish = None;
                if count == 1 {
                    self.line.begin_again(call.id);
                }
            }
            (Redisson::Lock { .. }, Value::Int(ttl)) => {
                let wish = thread.own.wish.as_mut().expect("a wish");
                wish.wake_at = if wish.refused {
                    virtual_ms(*ttl).map(|ttl| now + ttl.max(SPIN))
                } else {
                    Some(now)
                };
                wish.refused = true;
            }
            (Redisson::Unlock { lease, .. }, Value::Int(0)) => {
                thread.unlocked(count, Some(now + lease));
            }
            (Redisson::Unlock { .. }, _) => thread.ends.clear(),
            _ => {}
        }
        if let Redisson::Unlock { .. } = verb {
            world.server.command(cmd("DEL").arg(latch(call.operation)));
        }
    }

    /// What a thread does by itself, when it is time for it.
    pub(super) fn thread_rings(&mut self, who: Name, world: &mut World<'_>) {
        let (now, asynchronous) = (world.now(), self.scripts.asynchronous);
        let thread = self.thread(who);
        let id = thread.id;
        let clock = now.cast_signed() + thread.own.skew;
        let call = |verb| Call { clock, ..Call::new(id, Verb::Redisson(verb), 0) };
        if thread.alarm().is_some_and(|renewal| renewal <= now) {
            thread.renew_at = now + WATCHDOG / 3;
            let answer = self.run_at_once(&call(Redisson::Renewal), world);
            if !is_renewed(&answer) {
                self.thread(who).ends.clear();
            }
            return;
        }
        let Some(wish) = thread.own.wish else { return };
        if wish.gives_up.is_some_and(|end| end <= now) {
            let wait = if asynchronous { THEIR_WAIT } else { wish.wait };
            self.run_at_once(&call(Redisson::GiveUp { wait }), world);
            self.thread(who).own.wish = None;
        } else {
            let call = call(Redisson::Lock { lease: wish.lease, wait: wish.wait });
            let answer = self.run_at_once(&call, world);
            self.on_thread_reply(&call, &answer, world);
        }
    }
}
