//! Time on a server in the process: its clock, and the strangers who renew their holds.

use std::{sync::Arc, time::Duration};

use redis_in_process::{Entry, Server, Value};

use super::state::{State, Upkeep};
use crate::{
    owner::HoldId,
    protocol::{Protocol, ScriptArgs, Wish},
    wire::{Invocation, Reply, WireError},
};

/// The lease of a stranger's hold: Redisson's `lockWatchdogTimeout`.
const STRANGERS_LEASE: u64 = 30_000;
/// How often a stranger renews, in µs: as Redisson does.
const STRANGERS_RENEWAL: u64 = 10_000_000;

/// By how much the clock can be set ahead in all, in µs: 100 years.
const FARTHEST: u64 = 100 * 365 * 86_400 * 1_000_000;

impl State {
    /// Sets the clock. What is renewed meanwhile is renewed at its own moment.
    pub(super) fn come_to(&mut self, micros: u64) {
        let now = (micros + self.ahead).max(self.redis.now());
        loop {
            let due = self.strangers.iter().map(|(number, upkeep)| (upkeep.due, *number)).min();
            let Some((due, number)) = due.filter(|(due, _)| *due <= now) else { break };
            self.redis.set_now(due.max(self.redis.now()));
            self.renew(number);
        }
        self.redis.set_now(now);
    }

    pub(super) fn advance(&mut self, by: Duration) {
        let most = FARTHEST.saturating_sub(self.ahead);
        let by = u64::try_from(by.as_micros()).unwrap_or(u64::MAX).min(most);
        let now = self.redis.now();
        self.come_to(now.saturating_sub(self.ahead) + by);
        self.ahead += by;
    }

    // ---- Strangers

    /// Takes a lock, and renews it until `release` or `forget`. `None`: it is held.
    pub(super) fn hold(&mut self, protocol: Arc<dyn Protocol>, id: HoldId) -> Option<u64> {
        let args = ScriptArgs { lease: STRANGERS_LEASE, not_after: self.redis.now() / 1000 };
        let call = protocol.acquire(&id, args, &Wish::default());
        let granted = self.unrefused(|state| state.call_now(&call));
        if !holds(&self.redis, &*protocol, &id) {
            debug_assert!(granted.is_ok(), "{granted:?}");
            return None;
        }
        let due = self.redis.now() + STRANGERS_RENEWAL;
        let number = self.number();
        self.strangers.insert(number, Upkeep { protocol, id, due });
        Some(number)
    }

    fn renew(&mut self, number: u64) {
        let Some(upkeep) = self.strangers.get_mut(&number) else { return };
        upkeep.due += STRANGERS_RENEWAL;
        let (protocol, id) = (upkeep.protocol.clone(), upkeep.id.clone());
        // A hold that was taken away does not come back.
        if holds(&self.redis, &*protocol, &id) {
            let args = ScriptArgs { lease: STRANGERS_LEASE, not_after: self.redis.now() / 1000 };
            let call = protocol.acquire(&id, args, &Wish::default());
            // It acquires what it has: that raises the TTL.
            drop(self.unrefused(|state| state.call_now(&call)));
        }
    }

    pub(super) fn release(&mut self, number: u64) {
        if let Some(Upkeep { protocol, id, .. }) = self.strangers.remove(&number) {
            let call = protocol.release(&id, 0);
            drop(self.unrefused(|state| state.call_now(&call)));
        }
    }

    pub(super) fn forget(&mut self, number: u64) {
        self.strangers.remove(&number);
    }

    /// Runs a call that no fault concerns.
    fn call_now(&mut self, call: &Invocation) -> Result<Reply, WireError> {
        let failing = std::mem::take(&mut self.failing);
        let lost = std::mem::take(&mut self.lost_replies);
        let answer = self.call(call);
        (self.failing, self.lost_replies) = (failing, lost);
        answer.expect("no answer is lost")
    }

    fn unrefused<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.redis.accept_all();
        let done = act(self);
        for why in &self.refused {
            self.redis.refuse(*why);
        }
        done
    }
}

/// Whether this holder is in the lock's hash.
fn holds(redis: &Server, protocol: &dyn Protocol, id: &HoldId) -> bool {
    let Some(Entry { value: Value::Hash(fields), .. }) = redis.look(protocol.key()) else {
        return false;
    };
    fields.iter().any(|(field, _)| field[..] == id.as_bytes()[..])
}
