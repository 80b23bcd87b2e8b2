//! A client of this crate, with the guards that it has, and a client of Redisson's.

use std::collections::BTreeSet;

use harness::redis::Value;

use super::call::{Call, Permits, Verb};
use super::terms::{DRIFT, IN_TIME, KEPT};
use crate::clients::Name;
use crate::model::{Ms, StepId};

const MAX_COPIES: u32 = 4;

/// A request, from its first copy to its end.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) verb: Verb,
    pub(super) operation: StepId,
    begun: Ms,
    /// The copy whose answer is waited for.
    current: Option<StepId>,
    copies: u32,
    /// Whether a copy without an answer may have run, or may yet.
    unclear: bool,
    /// An acquisition that was refused, and is to be tried again.
    pub(super) is_refused: bool,
}

impl Request {
    pub(super) fn new(verb: Verb, operation: StepId, begun: Ms) -> Self {
        let (current, copies, unclear, is_refused) = (None, 0, false, false);
        Self { verb, operation, begun, current, copies, unclear, is_refused }
    }

    pub(super) fn sent(&mut self, copy: StepId) {
        self.unclear |= self.current.is_some();
        self.current = Some(copy);
        self.copies += 1;
        self.is_refused = false;
    }

    pub(super) fn may_resend(&self, now: Ms) -> bool {
        !self.is_refused && self.copies < MAX_COPIES && !self.is_over(now)
    }

    /// Whether the server may have forgotten it when a copy sent now runs.
    pub(super) fn is_over(&self, now: Ms) -> bool {
        now + 2 * IN_TIME > self.begun + KEPT
    }
}

/// Permits that a client has.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    pub(super) permits: Permits,
    pub(super) lease: Ms,
    pub(super) trusted_until: Ms,
    pub(super) unclear: bool,
    pub(super) is_lost: bool,
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: Name,
    pub(super) request: Option<Request>,
    pub(super) duties: Vec<Request>,
    pub(super) settled: Vec<StepId>,
    pub(super) guards: Vec<Guard>,
}

impl Client {
    pub(super) fn new(name: Name) -> Self {
        Self { name, request: None, duties: vec![], settled: vec![], guards: vec![] }
    }

    pub(super) fn has_guards(&self) -> bool {
        !self.guards.is_empty()
    }

    /// The ids of permits that it has, wants, or is going to return.
    pub(super) fn accounts_for(&self) -> BTreeSet<String> {
        let own = |of, n| Permits { whose: self.name, of, n };
        let requests = self.request.iter().chain(&self.duties);
        let requests = requests.filter_map(|request| match request.verb {
            Verb::Release { permits, .. } => Some(permits),
            Verb::Acquire { n, .. } | Verb::Withdraw(n) => Some(own(request.operation, n)),
            _ => None,
        });
        requests
            .chain(self.guards.iter().map(|guard| guard.permits))
            .flat_map(Permits::ids)
            .collect()
    }

    /// The caller goes away, or waits no longer.
    pub(super) fn abandon(&mut self, undoes: bool, now: Ms) {
        let Some(request) = self.request.take() else { return };
        match request.verb {
            Verb::Acquire { n, .. } if request.current.is_some() || request.unclear => {
                self.withdraw(request.operation, n, undoes, now);
            }
            Verb::Release { .. } | Verb::By(_) | Verb::To(_) => self.duties.push(request),
            _ => {}
        }
    }

    fn withdraw(&mut self, operation: StepId, n: usize, undoes: bool, now: Ms) {
        if undoes {
            self.duties.push(Request::new(Verb::Withdraw(n), operation, now));
        }
    }

    /// The answer to a copy. Only the last copy's is waited for.
    pub(super) fn on_reply(
        &mut self,
        copy: StepId,
        sent: Ms,
        call: &Call,
        answer: &Value,
        (now, next): (Ms, StepId),
        undoes: bool,
    ) {
        if let Verb::Renew { permits, lease } = call.verb {
            let guard = self.guards.iter_mut().find(|guard| guard.permits == permits);
            let Some(guard) = guard.filter(|guard| !guard.is_lost) else { return };
            match said(answer) {
                Said::Yes => guard.trusted_until = guard.trusted_until.max(sent + lease - DRIFT),
                _ => guard.is_lost = true,
            }
            return;
        }
        let is_it = |request: &Request| {
            request.current == Some(copy) && request.operation == call.operation
        };
        let in_background = self.duties.iter().position(is_it);
        let mut request = match in_background {
            Some(n) => self.duties.remove(n),
            None if self.request.as_ref().is_some_and(is_it) => {
                self.request.take().expect("it was there")
            }
            None => return,
        };
        request.current = None;
        let said = said(answer);
        if said == Said::Late {
            request.unclear |= !matches!(request.verb, Verb::Acquire { .. });
            match in_background {
                Some(n) => self.duties.insert(n, request),
                None => self.request = Some(request),
            }
            return;
        }
        let Request { verb, operation, unclear, .. } = request;
        match (verb, said) {
            (Verb::Withdraw(_), _) => {}
            (Verb::Acquire { n, lease }, Said::Yes) => {
                let (lease, permits) =
                    (lease.expect("ours"), Permits { whose: self.name, of: operation, n });
                let trusted_until = sent + lease - DRIFT;
                if trusted_until <= now {
                    return self.withdraw(operation, n, undoes, now);
                }
                self.guards.push(Guard { permits, lease, trusted_until, unclear, is_lost: false });
            }
            (Verb::Acquire { n, .. }, _) => {
                let other = match unclear {
                    true => Request::new(verb, next, now),
                    false => request,
                };
                self.request = Some(Request { is_refused: true, begun: now, ..other });
                if unclear {
                    self.withdraw(operation, n, undoes, now);
                }
            }
            _ => {
                self.settled.retain(|id| !call.settled.contains(id));
                if !unclear {
                    self.settled.push(operation);
                }
            }
        }
    }
}

/// What a script of ours answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Yes,
    No,
    Late,
}

pub(super) fn said(answer: &Value) -> Said {
    match answer {
        Value::Int(1) => Said::Yes,
        Value::Int(0) => Said::No,
        Value::Array(parts) => match parts[..] {
            [Value::Int(1), _, _] => Said::Yes,
            [Value::Int(0)] | [Value::Int(0), _, _] => Said::No,
            [_] => Said::Late,
            _ => panic!("no answer of ours: {answer:?}"),
        },
        _ => panic!("no answer of ours: {answer:?}"),
    }
}

/// A client of Redisson's. It may send a call again when it has no answer, as Redisson does outside of its single mode.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) name: Name,
    /// What it calls, which operation that is, and how many copies there are.
    pub(super) pending: Option<(Verb, StepId, u32)>,
    pub(super) permits: Vec<Permits>,
}

impl Thread {
    pub(super) fn new(name: Name) -> Self {
        Self { name, pending: None, permits: Vec::new() }
    }

    /// The first answer is the one that counts.
    pub(super) fn on_reply(&mut self, call: &Call, answer: &Value) {
        if self.pending.is_none_or(|(_, operation, _)| operation != call.operation) {
            return;
        }
        self.pending = None;
        if matches!(call.verb, Verb::Acquire { .. }) && is_granted(answer) {
            self.permits.push(call.permits());
        }
    }
}

/// Redisson's script grants: a status, and not the moment at which a lease ends.
pub(super) fn is_granted(answer: &Value) -> bool {
    match answer {
        Value::Okay => true,
        Value::SimpleString(text) => !text.starts_with(':'),
        Value::BulkString(text) => !text.starts_with(b":"),
        _ => false,
    }
}
