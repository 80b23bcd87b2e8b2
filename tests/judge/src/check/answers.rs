//! C9: an answer was true at some moment of the operation.

use super::{Court, story::operation};
use crate::{
    bounds::MS,
    history::{Answer, Call, Code, Fault, Kind, Loss, Mode, Nanos, Place, Rule, Seen},
    run::{Guard, Op, Outcome},
    server::{Holder, Lock, State},
    spans::Span,
    verdict::Check,
};

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn answers(&mut self) {
        for op in &self.run.ops {
            let (Outcome::Answered(answer), Some(over)) = (op.outcome, op.over) else { continue };
            let error = self.bounds.clock_error;
            let span =
                Span { from: op.invoked.saturating_sub(error), to: over.saturating_add(error) };
            let Some((name, wrong)) = self.untrue(op, answer, span) else { continue };
            self.judged(Check::Answer);
            if let Some(wrong) = wrong {
                self.violation(Check::Answer, name, over, 0, wrong, operation(op));
            }
        }
    }

    /// The lock, and why the answer cannot have been true. `None`: it cannot be told.
    fn untrue(
        &self,
        op: &'r Op<'a>,
        answer: &Answer,
        span: Span,
    ) -> Option<(&'a str, Option<String>)> {
        let place = self.place(op)?;
        let lock = self.servers?.lock((&place.server, &place.name))?;
        let ever = |is: &dyn Fn(&State<'a>) -> bool| lock.ever(span, is);
        let (is_true, otherwise) = match (op.call, answer) {
            (Call::Acquire { .. }, Answer::Refused) => {
                (self.had_reason(op, span)?, "refused, but nobody was in the way")
            }
            (Call::Acquire { owner, .. }, Answer::Error { code: Code::WouldDeadlock }) => {
                let own = self.own(op, owner.as_deref(), None);
                let held =
                    ever(&|state| state.holders.iter().any(|holder| own.contains(&holder.id)));
                (held, "would deadlock, but its owner did not hold it")
            }
            (Call::Acquire { .. }, Answer::Error { code: Code::WrongKind }) => {
                let family = |mode| mode == Mode::Whole;
                let whole = family(place.kind.mode());
                let other = |holder: &Holder<'_>| family(holder.mode) != whole;
                (
                    ever(&|state| state.spoilt || state.holders.iter().any(other)),
                    "it was of no other kind",
                )
            }
            (Call::Unlock { guard } | Call::Check { guard }, Answer::NotHeld { .. }) => {
                let id = self.id_of(op.process, *guard)?;
                // At any moment since the grant.
                let span = Span { from: self.granted(op.process, *guard)?, to: span.to };
                // The user's trust ends before the lease does.
                let untrusted = || {
                    let guard = self.run.guard(op.process, *guard);
                    *answer == Answer::NotHeld { why: Loss::Expired }
                        && guard.is_some_and(|guard| !self.still_trusted(guard, span.to))
                };
                let gone = lock.ever(span, |state| !held(state, span, id));
                (gone || untrusted(), "not held, but it was")
            }
            (Call::Check { guard }, Answer::Done) => {
                let id = self.id_of(op.process, *guard)?;
                let begins = |state: &State<'a>, holder: &Holder<'_>| {
                    holder.until > state.span.from.max(span.from)
                };
                let is = |state: &State<'a>| {
                    state.holders.iter().any(|holder| holder.id == id && begins(state, holder))
                };
                (ever(&is), "held, but it was not")
            }
            (Call::Force { .. }, Answer::Freed { freed }) => {
                let forced = |to: Nanos| span.from <= to && to <= span.to;
                let removed = lock.tenures.iter().any(|tenure| {
                    let cause = crate::server::Cause::Removed(crate::witness::Taker::Force);
                    tenure.cause == cause && forced(tenure.span.to)
                });
                let free = || ever(&|state| is_free_of(state, span, place.kind));
                (if *freed { removed } else { free() }, "the server did otherwise")
            }
            (Call::IsLocked { .. }, Answer::Locked { locked }) => {
                let is = |state: &State<'a>| match locked {
                    true => !state.holders.is_empty(),
                    false => is_free(state, span),
                };
                (ever(&is), "it was not so")
            }
            (Call::Inspect { .. }, Answer::State { holders, queue }) => {
                (ever(&|state| shows(state, span, holders, queue, place.kind)), "it was never so")
            }
            (Call::Remaining { .. }, _) if self.is_reset(lock, span) => return None,
            (Call::Remaining { .. }, Answer::Remaining { left }) => (
                ever(&|state| has_left(state, span, *left, self.bounds.clock_error)),
                "it was never so long",
            ),
            (Call::Token { .. }, Answer::Token { token }) => {
                (ever(&|state| state.token == *token), "it was another")
            }
            _ => return None,
        };
        Some((&place.name, (!is_true).then(|| otherwise.to_owned())))
    }

    /// Whether a clock was set since the lease was. Nobody can say how long that lasts by the new one.
    fn is_reset(&self, lock: &Lock<'a>, span: Span) -> bool {
        lock.spans.touching(span).map(|(_, at)| &lock.tenures[at]).any(|tenure| {
            let known = tenure.leases.iter().map(|(set, _)| *set).filter(|set| *set <= span.to);
            let from = known.max().unwrap_or(tenure.span.from);
            self.run.begins(Fault::Clock, Span { from, to: span.to }).is_some()
        })
    }

    /// The lock that an operation is about.
    fn place(&self, op: &Op<'a>) -> Option<&'a Place> {
        match op.call {
            Call::Acquire { locks, .. } => locks.first(),
            Call::Force { lock }
            | Call::IsLocked { lock }
            | Call::Inspect { lock }
            | Call::Remaining { lock }
            | Call::Token { lock } => Some(lock),
            Call::Unlock { guard } | Call::Check { guard } => {
                let guard = self.run.guard(op.process, *guard)?;
                (!guard.is_multi()).then(|| &guard.locks[0])
            }
            Call::Use { .. } | Call::Connect | Call::Close => None,
        }
    }

    fn id_of(&self, process: &str, guard: u64) -> Option<&'a str> {
        self.run.guard(process, guard).map(|guard| guard.id())
    }

    fn granted(&self, process: &str, guard: u64) -> Option<Nanos> {
        self.run.guard(process, guard).map(|guard| guard.granted)
    }

    /// The holder ids of the operation's owner. `by`: but for those that were being released then, those of
    /// guards whose loss was told by then, and those that old data may have brought back by then, after they
    /// were released.
    fn own(&self, op: &Op<'a>, owner: Option<&str>, by: Option<Span>) -> Vec<&'a str> {
        let by_owner = self.run.owned.get(&(op.process, owner.unwrap_or_default()));
        let guards = by_owner.into_iter().flatten().map(|at| &self.run.guards[*at]);
        let is_back = |guard: &Guard<'a>| {
            guard.given_back.zip(by).is_some_and(|((from, _), by)| {
                let since = Span { from, to: by.to };
                [Fault::Data, Fault::Failover, Fault::Clock]
                    .into_iter()
                    .any(|class| self.run.begins(class, since).is_some())
            })
        };
        // Its owner waits for the release as long as it waits for the lock.
        let is_leaving = |guard: &Guard<'a>| {
            guard.given_back.zip(by).is_some_and(|((from, op), by)| {
                let op = op.map(|op| &self.run.ops[op]);
                let over = op.map_or(Some(from), |op| op.over).unwrap_or(Nanos::MAX);
                let in_doubt = if op.is_some_and(Op::is_done) { 0 } else { self.bounds.undo };
                from <= by.to && by.from <= over.saturating_add(in_doubt)
            })
        };
        // Trust ends before the lease does.
        let is_lost = |guard: &Guard<'a>| {
            guard
                .told()
                .zip(by)
                .is_some_and(|((told, why), by)| why == Loss::Expired && told <= by.to)
        };
        guards
            .filter(|_| owner.is_some())
            .filter(|guard| !is_back(guard) && !is_leaving(guard) && !is_lost(guard))
            .flat_map(|guard| guard.holds.iter().map(|hold| &*hold.id))
            .collect()
    }

    /// Whether a refused acquisition had a reason on enough of its locks.
    fn had_reason(&self, op: &'r Op<'a>, span: Span) -> Option<bool> {
        let Call::Acquire { locks, rule, owner, wait, .. } = op.call else { return None };
        let own = self.own(op, owner.as_deref(), Some(span));
        let mut reasons = 0;
        for place in locks {
            let key = (&*place.server, &*place.name);
            let lock = self.servers?.lock(key)?;
            // Another of the process was before it, in the line that the process keeps. Who has time waits
            // until the server has said that the lock is held.
            let mut others = self.run.attempts(op.process, key, span);
            let waits = *rule == Rule::One && *wait != Some(0);
            let line = !waits && others.any(|other| other.number != op.number);
            // It has had the lock, and leaves it to others.
            let lately = Span { from: span.from.saturating_sub(self.bounds.courtesy), to: span.to };
            let had = || {
                lock.spans.touching(lately).map(|(_, at)| &lock.tenures[at]).any(|tenure| {
                    let its =
                        self.run.maker(tenure.id).is_some_and(|(maker, _)| maker == op.process);
                    its && tenure.span.to <= lately.to
                })
            };
            // Another of the process does not know yet that his hold is gone.
            let believes = |guard: &Guard<'a>| {
                let his = guard.process == op.process
                    && (owner.is_none() || guard.owner != owner.as_deref());
                let excludes = |held: &Place| {
                    let shared = [place, held].iter().all(|place| place.kind.mode() == Mode::Read);
                    !shared && (&held.server, &held.name) == (&place.server, &place.name)
                };
                his && guard.locks.iter().any(excludes) && guard.belief().overlap(span).is_some()
            };
            let believed = || self.run.guards.iter().any(believes);
            // So does one that asks for several locks, and has not got all of them.
            let gathers = || {
                let attempts = self.run.attempts(op.process, key, span);
                attempts.filter(|other| other.is_multi()).any(|other| {
                    let since = Span { from: other.invoked, to: span.to };
                    lock.spans.touching(since).map(|(_, at)| &lock.tenures[at]).any(|tenure| {
                        let maker = self.run.maker(tenure.id);
                        maker.is_some_and(|(maker, _)| maker == op.process)
                    })
                })
            };
            let held = in_the_way(lock, span, place.kind, &own);
            reasons += usize::from(line || held || had() || believed() || gathers());
        }
        Some(match rule {
            Rule::One | Rule::All => reasons > 0,
            Rule::Majority => reasons > locks.len() - rule.quorum(locks.len()),
        })
    }
}

fn in_the_way(lock: &Lock<'_>, span: Span, kind: Kind, own: &[&str]) -> bool {
    lock.ever(span, |state| {
        let holds = state.holders.iter().any(|holder| {
            let shares = kind.mode() == Mode::Read && holder.mode == Mode::Read;
            !shares && !own.contains(&holder.id)
        });
        holds || kind.is_fair() && !state.queue.is_empty()
    })
}

/// Whether a holder is there at the end of the state, or of the span if that is earlier.
fn lasts(state: &State<'_>, span: Span, holder: &Holder<'_>) -> bool {
    holder.until > state.span.to.min(span.to)
}

fn held(state: &State<'_>, span: Span, id: &str) -> bool {
    state.holders.iter().any(|holder| holder.id == id && lasts(state, span, holder))
}

fn is_free(state: &State<'_>, span: Span) -> bool {
    !state.holders.iter().any(|holder| lasts(state, span, holder))
}

/// Whether nobody holds what a force unlock of this kind frees. The read side frees nothing while a writer holds.
fn is_free_of(state: &State<'_>, span: Span, kind: Kind) -> bool {
    let lasting = || state.holders.iter().filter(|holder| lasts(state, span, holder));
    let written = lasting().any(|holder| holder.mode == Mode::Write);
    match kind.mode() {
        Mode::Write => !written,
        Mode::Read => written || lasting().next().is_none(),
        Mode::Whole => lasting().next().is_none(),
    }
}

fn shows(state: &State<'_>, span: Span, holders: &[Seen], queue: &[String], kind: Kind) -> bool {
    let mut shown: Vec<_> = holders.iter().map(|seen| (&*seen.id, seen.count)).collect();
    shown.sort_unstable();
    let mut there: Vec<_> = state.holders.iter().map(|holder| (holder.id, holder.count)).collect();
    there.sort_unstable();
    let holders = shown == there || shown.is_empty() && is_free(state, span);
    holders && (!kind.is_fair() || queue.iter().map(String::as_str).eq(state.queue.iter().copied()))
}

fn has_left(state: &State<'_>, span: Span, left: Option<Nanos>, error: Nanos) -> bool {
    let Some(left) = left else { return is_free(state, span) };
    let Some(until) = state.holders.iter().map(|holder| holder.until).max() else { return false };
    // The server knows whole milliseconds.
    let from = state.span.from.saturating_sub(error).max(span.from);
    let to = state.span.to.saturating_add(error).min(span.to);
    from.saturating_add(left) <= until.saturating_add(MS)
        && to.saturating_add(left).saturating_add(MS) >= until
}
