//! The tokens of a fenced lock, as the server gave them out: each is greater than all before it, and belongs to one holder.

use std::collections::HashMap;

use harness::redis::{Value, from_redis_value};

use super::call::{Call, Verb, World};
use super::scripts::TOKEN;
use crate::LOCK;
use crate::clients::{Id, Redisson};
use crate::model::Kind;

/// The record of all tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    /// The greatest that was ever given out.
    last: u64,
    /// Those of the holds there are now.
    held: HashMap<Id, u64>,
}

impl Tokens {
    /// The lock has expired: who comes again under an old id is granted anew.
    pub(super) fn expired(&mut self) {
        self.held.clear();
    }

    /// A script has run.
    pub(super) fn ran(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let holders = world.server.seen(LOCK).map(|seen| seen.fields.clone()).unwrap_or_default();
        let is_there = |id: &Id| holders.contains_key(&id.to_string());
        self.held.retain(|id, _| is_there(id));
        let id = call.taker();
        // Redisson counts its re-entries too.
        let counts = match call.verb {
            Verb::Acquire { .. } | Verb::Own(_) => !self.held.contains_key(&id),
            Verb::Redisson(Redisson::Lock { .. }) => *answer == Value::Nil,
            _ => false,
        };
        if counts && is_there(&id) {
            let token = world.server.seen(TOKEN).and_then(|seen| seen.text.parse().ok());
            let token = token.expect("a grant is counted");
            if token <= self.last {
                let last = self.last;
                let what = format!("{id} is granted token {token} after {last}");
                world.violation(Kind::BadToken, what);
            }
            self.last = self.last.max(token);
            self.held.insert(id, token);
        }
        if let (Verb::Acquire { .. } | Verb::Own(_), Value::Array(said)) = (call.verb, answer)
            && let [Value::Int(1), said] = &said[..]
            && self.held.get(&id).copied() != from_redis_value::<u64>(said.clone()).ok()
        {
            let own = self.held.get(&id);
            let what = format!("{id} is told token {said:?}, its own is {own:?}");
            world.violation(Kind::BadToken, what);
        }
    }
}
