//! [`CounterLine`]: the local waiters for one counter, and which of them asks the server.
//!
//! A message wakes the first waiter that has not been woken yet. Each answer of the server says how
//! many permits are free. They are offered to other waiters that want no more than that, in order of
//! arrival. A waiter that leaves without having asked wakes the next.
//!
//! So no waiter sleeps while enough permits for it are free, even if one before it wants more.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::error::Error;

/// No waiter asks sooner than this because a lease ends.
const SHORTEST: Duration = Duration::from_millis(2);

/// The waiters, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct CounterLine {
    state: Mutex<State>,
    /// The last waiter has left.
    pub(super) emptied: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiters: VecDeque<Waiting>,
    next: u64,
    /// When a waiter last began to ask the server.
    asked: Option<Instant>,
    /// When a lease ends, by the last answer, so that something may be free without a message.
    next_end: Option<Instant>,
    /// Whether a task listens to the messages.
    listening: bool,
    /// How many answers have come.
    answers: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    wants: i64,
    /// It is to ask the server.
    woken: bool,
    /// `Some(n)`: it is asking now, on behalf of all waiters numbered below `n`.
    asks: Option<u64>,
    /// How many answers had come when it began to ask.
    answers: u64,
    /// What it waits for has happened.
    done: bool,
    /// The server has failed another waiter, and so this one too.
    failed: Option<Error>,
    bell: Arc<Notify>,
}

/// A waiter's place in the line.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) number: u64,
    pub(super) bell: Arc<Notify>,
}

/// What a waiter is to do.
#[derive(Debug)]
pub(super) enum Step {
    Ask,
    Done,
    /// Fail: the server has failed another waiter, and so this one too.
    Failed(Error),
    /// Sleep until this moment, or until the bell rings.
    Sleep(Instant),
}

impl Waiting {
    fn wake(&mut self) {
        self.woken = true;
        self.bell.notify_one();
    }
}

impl CounterLine {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter that wants this many permits. Also returns whether a listener is to be started.
    pub(super) fn enter(&self, wants: i64) -> (Place, bool) {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let bell = Arc::new(Notify::new());
        state.waiters.push_back(Waiting {
            number,
            wants,
            woken: false,
            asks: None,
            answers: 0,
            done: false,
            failed: None,
            bell: bell.clone(),
        });
        let starts = !std::mem::replace(&mut state.listening, true);
        (Place { number, bell }, starts)
    }

    /// What a waiter is to do now. If nobody asks for this long, it asks.
    pub(super) fn step(&self, number: u64, ask_again: Duration) -> Step {
        let now = Instant::now();
        let mut state = self.state();
        let (next, answers) = (state.next, state.answers);
        let due = state.asked.map_or(now, |asked| asked + ask_again);
        let due = state.next_end.map_or(due, |end| end.min(due));
        let Some(waiting) = state.of(number) else { return Step::Done };
        match waiting {
            Waiting { done: true, .. } => return Step::Done,
            Waiting { failed: Some(error), .. } => return Step::Failed(error.clone()),
            _ => {}
        }
        if !waiting.woken && now < due {
            return Step::Sleep(due);
        }
        waiting.woken = false;
        (waiting.asks, waiting.answers) = (Some(next), answers);
        state.asked = Some(now);
        state.next_end = None;
        Step::Ask
    }

    /// The server has been asked outside of the line. The answer says nothing to those that wait.
    pub(super) fn was_asked_from_outside(&self) {
        let mut state = self.state();
        if state.waiters.is_empty() {
            state.asked = Some(Instant::now());
        }
    }

    /// By an answer that the server has just given, a lease ends after this time. The waiters learn it
    /// when one of them enters or leaves, or its own answer comes.
    pub(super) fn next_end(&self, after: Option<Duration>) {
        self.state().next_end = after.map(|after| Instant::now() + after.max(SHORTEST));
    }

    /// Wakes this waiter.
    pub(super) fn wake(&self, number: u64) {
        if let Some(waiting) = self.state().of(number) {
            waiting.wake();
        }
    }

    /// A message came: something may be free. `one`: nobody is woken while a woken waiter has not
    /// asked yet.
    pub(super) fn wake_first(&self, one: bool) {
        self.state().wake_first(one);
    }

    /// This waiter has its answer: this many permits are free.
    pub(super) fn answered(&self, number: u64, free: i64) {
        let mut state = self.state();
        state.answers += 1;
        let mut left = free;
        for waiting in &mut state.waiters {
            if waiting.number == number {
                waiting.asks = None;
            } else if !waiting.woken && waiting.wants <= left {
                left -= waiting.wants;
                waiting.wake();
            }
        }
    }

    /// This waiter has seen what all wait for. It has happened for those that waited when it asked.
    pub(super) fn finish(&self, number: u64) {
        let mut state = self.state();
        let Some(before) = state.of(number).and_then(|waiting| waiting.asks.take()) else { return };
        for waiting in state.waiters.iter_mut().filter(|waiting| waiting.number < before) {
            waiting.done = true;
            waiting.bell.notify_one();
        }
    }

    /// The server has failed this waiter. If it has answered nobody since this one began to ask, those
    /// that waited then and do not ask themselves fail too.
    pub(super) fn failed(&self, number: u64, error: &Error) {
        let mut state = self.state();
        let answers = state.answers;
        let asked = state.of(number).filter(|waiting| waiting.answers == answers);
        let Some(before) = asked.and_then(|waiting| waiting.asks) else { return };
        let waiters = state.waiters.iter_mut().filter(|waiting| waiting.number < before);
        for waiting in waiters.filter(|waiting| waiting.asks.is_none()) {
            waiting.failed = Some(error.clone());
            waiting.bell.notify_one();
        }
    }

    /// The waiter leaves. If it was to ask and has not heard the answer, another one is woken.
    pub(super) fn leave(&self, number: u64) {
        let mut state = self.state();
        let Some(at) = state.waiters.iter().position(|waiting| waiting.number == number) else {
            return;
        };
        let left = state.waiters.remove(at).expect("just found");
        if left.woken || left.asks.is_some() {
            state.wake_first(false);
        }
        match state.waiters.front() {
            // It sleeps, and may not know yet when the next lease ends.
            Some(first) if state.next_end.is_some() => first.bell.notify_one(),
            Some(_) => {}
            None => self.emptied.notify_one(),
        }
    }

    /// Whether the listener is to end, because there are no waiters. The next waiter then starts
    /// another one.
    pub(super) fn ends_listening(&self) -> bool {
        let mut state = self.state();
        state.listening = !state.waiters.is_empty();
        !state.listening
    }
}

impl State {
    fn of(&mut self, number: u64) -> Option<&mut Waiting> {
        self.waiters.iter_mut().find(|waiting| waiting.number == number)
    }

    fn wake_first(&mut self, one: bool) {
        if one && self.waiters.iter().any(|waiting| waiting.woken) {
            return;
        }
        if let Some(waiting) = self.waiters.iter_mut().find(|waiting| !waiting.woken) {
            waiting.wake();
        }
    }
}

#[cfg(test)]
mod tests;
