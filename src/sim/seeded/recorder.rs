//! [`Recorder`]: what the clients of a run saw and what was done to them, for the judge.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard},
};

use judge::{Answer, Call, Code, Event, Fault, Held, History, Nanos, Policy, What};

use super::trace::Trace;
use crate::{Error, Loss};

pub(super) struct Recorder {
    trace: Arc<Trace>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    events: Vec<Event>,
    /// What they do after their end is seen by nobody.
    dead: BTreeSet<usize>,
    /// The last number of an operation, of a guard or of a fault.
    number: u64,
}

/// An operation under way. It is cut when this is dropped.
pub(super) struct Underway {
    recorder: Arc<Recorder>,
    client: usize,
    op: u64,
    answered: bool,
}

/// A fault that lasts until this is dropped.
pub(super) struct Lasting {
    recorder: Arc<Recorder>,
    fault: String,
}

impl Recorder {
    pub(super) fn new(trace: Arc<Trace>) -> Arc<Self> {
        Arc::new(Self { trace, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn now(&self) -> Nanos {
        self.trace.nanos()
    }

    /// Leaves the recorder empty.
    pub(super) fn take(&self) -> History {
        History { events: std::mem::take(&mut self.state().events) }
    }

    fn note(&self, client: usize, what: What) {
        let at = self.now();
        let mut state = self.state();
        if !state.dead.contains(&client) {
            state.events.push(Event { at, process: process(client), what });
        }
    }

    fn next(&self) -> u64 {
        let mut state = self.state();
        state.number += 1;
        state.number
    }

    // ---- Clients

    /// `ids`: the client has one on each server.
    pub(super) fn start(&self, client: usize, ids: impl Iterator<Item = String>, policy: Policy) {
        for id in ids {
            self.note(client, What::Start { client: Some(id), redisson: false, policy });
        }
    }

    pub(super) fn end(&self, client: usize) {
        self.note(client, What::End);
        self.state().dead.insert(client);
    }

    /// Nobody is polled.
    pub(super) fn sleep(&self, clients: usize, sleeps: bool) {
        for client in 0..clients {
            self.note(client, if sleeps { What::Pause } else { What::Resume });
        }
    }

    // ---- Operations

    pub(super) fn invoke(self: &Arc<Self>, client: usize, call: Call) -> Underway {
        let op = self.next();
        self.note(client, What::Invoke { op, call });
        Underway { recorder: self.clone(), client, op, answered: false }
    }

    // ---- Guards

    pub(super) fn guard(&self) -> u64 {
        self.next()
    }

    pub(super) fn lost(&self, client: usize, guard: u64, why: Loss) {
        self.note(client, What::Lost { guard, why: loss(why) });
    }

    pub(super) fn joined(&self, client: usize, guard: u64, hold: Held) {
        self.note(client, What::Joined { guard, hold });
    }

    pub(super) fn dropped(&self, client: usize, guard: u64) {
        self.note(client, What::Drop { guard });
    }

    // ---- Faults

    pub(super) fn begin(self: &Arc<Self>, class: Fault, target: String) -> Lasting {
        let fault = format!("{target} #{}", self.next());
        let event = What::Begin { fault: fault.clone(), class, target };
        let at = self.now();
        self.state().events.push(Event { at, process: "nemesis".into(), what: event });
        Lasting { recorder: self.clone(), fault }
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        let what = What::Heal { fault: std::mem::take(&mut self.fault) };
        let at = self.recorder.now();
        self.recorder.state().events.push(Event { at, process: "nemesis".into(), what });
    }
}

impl Underway {
    /// Its future is polled no more, or again.
    pub(super) fn polled(&self, polled: bool) {
        let op = self.op;
        self.recorder
            .note(self.client, if polled { What::Polled { op } } else { What::Idle { op } });
    }

    pub(super) fn answer(mut self, answer: Answer) {
        self.answered = true;
        self.recorder.note(self.client, What::Answer { op: self.op, answer });
    }

    /// Of an operation that says nothing but whether it succeeded.
    pub(super) fn done(self, result: &Result<(), Error>) {
        self.answer(match result {
            Ok(()) => Answer::Done,
            Err(Error::NotHeld { why }) => Answer::NotHeld { why: loss(*why) },
            Err(error) => Answer::Error { code: code(error) },
        });
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        if !self.answered {
            self.recorder.note(self.client, What::Cut { op: self.op });
        }
    }
}

/// The name of a client.
pub(super) fn process(client: usize) -> String {
    format!("c{client}")
}

pub(super) fn code(error: &Error) -> Code {
    match error {
        Error::Redis(_) => Code::Redis,
        Error::NotReplicated { .. } => Code::NotReplicated,
        Error::WouldDeadlock { .. } => Code::WouldDeadlock,
        Error::WrongKind { .. } => Code::WrongKind,
        Error::Closed => Code::Closed,
        // An acquisition whose grant came too late has no code of its own.
        Error::NotHeld { .. } | Error::Invalid(_) | Error::Config(_) => Code::Invalid,
        #[cfg(feature = "blocking")]
        Error::InAsyncCode => unreachable!("no call here blocks"),
    }
}

fn loss(why: Loss) -> judge::Loss {
    match why {
        Loss::Expired => judge::Loss::Expired,
        Loss::Removed => judge::Loss::Removed,
        Loss::Taken => judge::Loss::Taken,
        Loss::Closed => judge::Loss::Closed,
        Loss::Unknown => judge::Loss::Unknown,
    }
}
