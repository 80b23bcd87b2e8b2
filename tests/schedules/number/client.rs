//! A client of this crate: its request, what it does in the background, and the permits that it has.

use harness::redis::Value;

use super::call::{Call, Verb};
use super::terms::{IN_TIME, KEPT};
use crate::clients::Name;
use crate::model::{Ms, StepId};

const MAX_COPIES: u32 = 4;

/// A request, from its first copy to its end.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) verb: Verb,
    pub(super) operation: StepId,
    /// When its first copy was sent, of those that may have run.
    pub(super) begun: Ms,
    /// The copy whose answer is waited for.
    current: Option<StepId>,
    copies: u32,
    /// Whether a copy without an answer may have run, or may yet.
    unclear: bool,
    /// An acquisition that was refused, and is to be tried again.
    is_refused: bool,
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

    pub(super) fn is_at_rest(&self) -> bool {
        self.is_refused
    }

    pub(super) fn may_resend(&self, now: Ms) -> bool {
        !self.is_refused && self.copies < MAX_COPIES && !self.is_over(now)
    }

    /// Whether the server may have forgotten it when a copy sent now runs.
    pub(super) fn is_over(&self, now: Ms) -> bool {
        now + 2 * IN_TIME > self.begun + KEPT
    }

    /// Undoes a request from now on.
    fn undo(verb: Verb, of: &Self, now: Ms) -> Self {
        Self::new(verb, of.operation, now)
    }
}

/// A client.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) name: Name,
    pub(super) request: Option<Request>,
    pub(super) duties: Vec<Request>,
    /// Requests of which no copy is under way any more.
    pub(super) settled: Vec<StepId>,
    /// The acquisitions that were granted, and how many permits.
    pub(super) permits: Vec<(StepId, i64)>,
}

impl Client {
    pub(super) fn new(name: Name) -> Self {
        Self { name, request: None, duties: vec![], settled: vec![], permits: vec![] }
    }

    /// The acquisitions whose permits it has, wants, or is going to return.
    pub(super) fn accounts_for(&self) -> impl Iterator<Item = StepId> {
        let requests = self.request.iter().chain(&self.duties).map(|request| match request.verb {
            Verb::Release { of, .. } => of,
            _ => request.operation,
        });
        requests.chain(self.permits.iter().map(|(of, _)| *of))
    }

    /// The caller goes away, or waits no longer.
    pub(super) fn abandon(&mut self, undoes: bool, now: Ms) {
        let Some(request) = self.request.take() else { return };
        let may_have_run = request.current.is_some() || request.unclear;
        match request.verb {
            Verb::Acquire(n) if may_have_run && undoes => {
                self.duties.push(Request::undo(Verb::Withdraw(n), &request, now));
            }
            // These are done in the end.
            Verb::Release { .. } | Verb::Add(_) | Verb::CountDown => self.duties.push(request),
            _ => {}
        }
    }

    /// The answer to a copy. Only the last copy's is waited for.
    pub(super) fn on_reply(
        &mut self,
        copy: StepId,
        call: &Call,
        answer: &Value,
        (now, next): (Ms, StepId),
        settles_all: bool,
        undoes: bool,
    ) {
        let is_it = |request: &Request| {
            request.current == Some(copy) && request.operation == call.operation
        };
        let in_background = self.duties.iter().position(is_it);
        let request = match in_background {
            Some(n) => self.duties.get_mut(n),
            None => self.request.as_mut().filter(|request| is_it(request)),
        };
        let Some(request) = request else { return };
        request.current = None;
        let said = said(answer);
        if said == Said::Late {
            request.unclear |= !matches!(request.verb, Verb::Acquire(_));
            return;
        }
        let request = match in_background {
            Some(n) => self.duties.remove(n),
            None => self.request.take().expect("it was there"),
        };
        if matches!(said, Said::Yes) && !request.verb.is_undo() {
            self.settled.retain(|id| !call.settled.contains(id));
        }
        let undo = match (request.verb, said) {
            (Verb::Withdraw(_) | Verb::Cancel, _) => return,
            (Verb::Acquire(n), Said::Yes) => {
                self.permits.push((request.operation, n));
                None
            }
            (Verb::Acquire(n), _) if request.unclear => {
                // The unanswered copies are given up, and the next one has another id.
                let mut other = Request::new(request.verb, next, now);
                other.is_refused = true;
                self.request = Some(other);
                Some(Verb::Withdraw(n))
            }
            (Verb::Acquire(_), _) => {
                self.request = Some(Request { is_refused: true, ..request });
                return;
            }
            (Verb::Drain { expected }, Said::No) => Some(Verb::Withdraw(expected)),
            (Verb::Release { permits, .. }, Said::Gone) => Some(Verb::Withdraw(-permits)),
            (Verb::Set(_) | Verb::CountDown, Said::No) => Some(Verb::Cancel),
            _ => None,
        };
        match undo {
            Some(undo) if request.unclear && undoes => {
                self.duties.push(Request::undo(undo, &request, now));
            }
            _ if !request.unclear || settles_all => self.settled.push(request.operation),
            _ => {}
        }
    }
}

/// What a script of ours answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    Yes,
    No,
    /// There is no such semaphore.
    Gone,
    Late,
}

pub(super) fn said(answer: &Value) -> Said {
    match answer {
        Value::Int(1) => Said::Yes,
        Value::Int(0) => Said::No,
        Value::Int(-1) => Said::Gone,
        Value::Array(parts) => match parts[..] {
            [Value::Int(1), _] => Said::Yes,
            [Value::Int(0), _] => Said::No,
            [_] => Said::Late,
            _ => panic!("no answer of ours: {answer:?}"),
        },
        _ => panic!("no answer of ours: {answer:?}"),
    }
}
