//! The two servers, side by side.

use redis_in_process::Reply;

use crate::draw::BEGIN;
use crate::in_process::InProcess;
use crate::outcome::{Outcome, spoken};
use crate::real::Real;
use crate::step::Step;

/// Whether the step asks for names, which Redis tells in any order.
fn is_without_order(step: &Step) -> bool {
    let (Step::Command(words) | Step::Script(_, _, words)) = step else { return false };
    words.iter().any(|word| matches!(&word[..], b"keys" | b"channels" | b"shardchannels"))
}

fn order(reply: &mut Reply) {
    if let Reply::Array(items) = reply {
        items.iter_mut().for_each(order);
        items.sort_by_key(spoken);
    }
}

/// A message goes to the patterns it matches in any order.
fn order_patterns(heard: &mut [Vec<Vec<u8>>]) {
    let is_same = |one: &Vec<Vec<u8>>, other: &Vec<Vec<u8>>| {
        one[0] == b"pmessage" && other[0] == one[0] && other[2..] == one[2..]
    };
    heard.chunk_by_mut(is_same).for_each(<[_]>::sort);
}

/// Both servers.
pub(crate) struct Pair {
    pub(crate) real: Real,
    pub(crate) in_process: InProcess,
}

impl Pair {
    pub(crate) fn start() -> Self {
        Self { real: Real::start(), in_process: InProcess::start() }
    }

    /// Does a schedule on both; the first step after which they differ, and in what. `each` sees every step that was done, and
    /// how it was answered.
    pub(crate) fn first_difference(
        &mut self,
        steps: &[Step],
        mut each: impl FnMut(&Step, &Reply),
    ) -> Option<(usize, [Outcome; 2])> {
        self.real.set_clock(BEGIN);
        self.in_process.server.set_now(BEGIN);
        self.real.begin();
        self.in_process.begin();
        for (n, step) in steps.iter().enumerate() {
            let mut outcomes = [self.real.step(step), self.in_process.step(step)];
            for outcome in &mut outcomes {
                outcome.heard.iter_mut().for_each(|heard| order_patterns(heard));
                if is_without_order(step) {
                    order(&mut outcome.answer);
                }
            }
            if outcomes[0] != outcomes[1] {
                return Some((n, outcomes));
            }
            each(step, &outcomes[0].answer);
        }
        None
    }
}
