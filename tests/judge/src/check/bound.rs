//! C10: answers come in time.

use super::{Court, story::operation};
use crate::{
    history::{Answer, Call, Code, Nanos, Rule},
    run::{Op, Outcome},
    spans::Span,
    verdict::Check,
};

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn bound(&mut self) {
        for op in &self.run.ops {
            // The bounds are those of this crate's settings.
            if self.run.process(op.process).redisson {
                continue;
            }
            let over = op.over.unwrap_or(self.run.end);
            let span = Span { from: self.counted_from(op, over), to: over };
            let Some(bound) = self.allowed(op) else { continue };
            self.judged(Check::Bound);
            let bound = bound + self.bounds.slack;
            let took: Nanos = self.run.polled(op, span).iter().map(|piece| piece.length()).sum();
            if took > bound {
                let what = match op.outcome {
                    Outcome::Answered(_) => "answered late",
                    Outcome::Cut => "cut, when an answer was due",
                    Outcome::Unknown => "not answered",
                };
                let (name, late) = (op.process, took - bound);
                let what = format!(
                    "{what}: took {:.6} s, and may take {:.6} s",
                    took as f64 / 1e9,
                    bound as f64 / 1e9
                );
                self.violation(
                    Check::Bound,
                    name,
                    over.saturating_sub(late),
                    late,
                    what,
                    operation(op),
                );
            }
        }
    }

    /// A `lock` may wait for any time before the trouble begins that makes it fail. One that was not polled may
    /// have lost its place, and begins anew.
    fn counted_from(&self, op: &Op<'_>, over: Nanos) -> Nanos {
        let Call::Acquire { wait: None, .. } = op.call else { return op.invoked };
        let begins = self.run.troubles.iter().map(|trouble| trouble.span.from);
        let anew = op.idle.iter().map(|idle| idle.to);
        let begins = begins.chain(anew).filter(|at| op.invoked < *at && *at <= over);
        begins.max().unwrap_or(op.invoked)
    }

    /// How long it may take. `None`: as long as it likes.
    fn allowed(&self, op: &Op<'a>) -> Option<Nanos> {
        let bounds = self.bounds;
        Some(match op.call {
            Call::Acquire { wait: Some(wait), .. } => wait.saturating_add(bounds.command_timeout),
            // Answers that come later than a quarter of the lease are none. Between the tries in vain
            // there are refusals, by grants to others that came too late for them.
            Call::Acquire { wait: None, rule: Rule::Majority, lease: Some(lease), .. }
                if lease / 4 <= bounds.rtt =>
            {
                return None;
            }
            Call::Acquire { wait: None, .. } => match op.outcome {
                Outcome::Answered(Answer::Error { code: Code::Redis }) => {
                    // A waiter that sleeps finds out when it asks next.
                    bounds.poll + bounds.retry_timeout + bounds.command_timeout
                }
                _ => return None,
            },
            Call::Unlock { guard } => {
                let lease = self.run.guard(op.process, *guard).and_then(|guard| guard.lease);
                bounds.retry_timeout.min(lease.unwrap_or(bounds.watchdog)) + bounds.command_timeout
            }
            Call::Force { .. } => bounds.retry_timeout + bounds.command_timeout,
            Call::Check { .. }
            | Call::IsLocked { .. }
            | Call::Inspect { .. }
            | Call::Remaining { .. }
            | Call::Token { .. } => bounds.command_timeout,
            Call::Connect => 3 * bounds.command_timeout + bounds.discovery,
            Call::Close => bounds.retry_timeout + bounds.farewell,
            Call::Use { .. } => return None,
        })
    }
}
