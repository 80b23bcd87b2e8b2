//! [`CounterLine`]: the local waiters for one counter, and which of them asks the server.
//!
//! A message wakes the first waiter that has not been woken yet. Each answer of the server says how
//! many permits are free. They are offered to other waiters that want no more than that, in order of
//! arrival. A waiter that leaves without having asked wakes the next.
//!
//! So no waiter sleeps while enough permits for it are free, even if one before it wants more.
//!
//! A woken waiter may not be polled, as when its future is kept beside others. After [`UNPOLLED`] its
//! wake-up goes to another waiter, too.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use crate::error::Error;

/// No waiter asks sooner than this because a lease ends.
const SHORTEST: Duration = Duration::from_millis(2);

/// A waiter that was woken this long ago and has not asked yet is not polled.
const UNPOLLED: Duration = Duration::from_millis(20);

/// The same for one that was woken while it waited for an answer. It asks again after that.
const UNANSWERED: Duration = Duration::from_millis(500);

/// The waiters, in order of arrival.
#[derive(Debug, Default)]
pub(super) struct CounterLine {
    state: Mutex<State>,
    /// For the listener: the last waiter has left, or somebody was woken.
    pub(super) changed: Notify,
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
    /// When to look whether somebody who was woken is not polled.
    look_at: Option<Instant>,
    /// How many answers have come.
    answers: u64,
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    wants: i64,
    woken: Woken,
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

/// Whether a waiter is to ask the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Woken {
    No,
    Since(Instant),
    /// It is not polled, and another one was woken instead. It asks when it is polled.
    Replaced,
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
    fn is_woken(&self) -> bool {
        self.woken != Woken::No
    }

    /// Whether a wake-up is of use to it.
    fn may_wake(&self) -> bool {
        !self.is_woken() && !self.done && self.failed.is_none()
    }

    /// When it counts as one that is not polled, unless it asks before.
    fn unpolled_at(&self) -> Option<Instant> {
        let Woken::Since(since) = self.woken else { return None };
        Some(since + if self.asks.is_some() { UNANSWERED } else { UNPOLLED })
    }

    fn wake(&mut self, now: Instant) {
        self.woken = Woken::Since(now);
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
            woken: Woken::No,
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
        if !waiting.is_woken() && now < due {
            return Step::Sleep(due);
        }
        waiting.woken = Woken::No;
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
    /// when one of them enters or leaves, or its own answer comes. An older answer may be told later: of
    /// two ends the sooner one counts.
    pub(super) fn next_end(&self, after: Option<Duration>) {
        let end = after.map(|after| Instant::now() + after.max(SHORTEST));
        let mut state = self.state();
        state.next_end = state.next_end.into_iter().chain(end).min();
    }

    /// Has this waiter, which is polled now, ask.
    pub(super) fn wake(&self, number: u64) {
        if let Some(waiting) = self.state().of(number) {
            waiting.wake(Instant::now());
        }
    }

    /// A message came: something may be free. `one`: nobody is woken while a woken waiter has not
    /// asked yet.
    pub(super) fn wake_first(&self, one: bool) {
        self.state().wake_first(one);
    }

    /// When the listener is to [look](Self::replace_unpolled) whether somebody is not polled.
    pub(super) fn look_at(&self) -> Option<Instant> {
        self.state().look_at
    }

    /// If somebody was woken and is not polled, another one is woken instead.
    pub(super) fn replace_unpolled(&self) {
        let mut state = self.state();
        let now = Instant::now();
        let mut is_one_unpolled = false;
        for waiting in &mut state.waiters {
            if waiting.unpolled_at().is_some_and(|at| at <= now) {
                waiting.woken = Woken::Replaced;
                is_one_unpolled = true;
            }
        }
        state.look_at = state.waiters.iter().filter_map(Waiting::unpolled_at).min();
        if is_one_unpolled {
            state.wake_first(false);
        }
    }

    /// This waiter has its answer: this many permits are free.
    pub(super) fn answered(&self, number: u64, free: i64) {
        let mut state = self.state();
        let now = Instant::now();
        state.answers += 1;
        let (mut left, mut has_woken) = (free, false);
        for waiting in &mut state.waiters {
            if waiting.number == number {
                waiting.asks = None;
            } else if waiting.may_wake() && waiting.wants <= left {
                left -= waiting.wants;
                waiting.wake(now);
                has_woken = true;
            }
        }
        if has_woken && state.will_look(now) {
            self.changed.notify_one();
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
        let passes_on = left.is_woken() || left.asks.is_some();
        if state.waiters.is_empty() {
            return self.changed.notify_one();
        }
        if state.next_end.is_some() {
            // It sleeps, and may not know yet when the next lease ends.
            state.waiters[0].bell.notify_one();
        }
        if passes_on && state.wake_first(false) {
            self.changed.notify_one();
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

    /// Returns whether the listener is to learn when to look.
    fn wake_first(&mut self, one: bool) -> bool {
        let now = Instant::now();
        let is_fresh = |waiting: &Waiting| waiting.unpolled_at().is_some_and(|at| now < at);
        if one && self.waiters.iter().any(is_fresh) {
            return false;
        }
        let Some(waiting) = self.waiters.iter_mut().find(|waiting| waiting.may_wake()) else {
            return false;
        };
        waiting.wake(now);
        self.will_look(now)
    }

    /// Somebody was woken. Returns whether no look was planned so soon.
    fn will_look(&mut self, now: Instant) -> bool {
        let at = now + UNPOLLED;
        let is_sooner = self.look_at.is_none_or(|known| at < known);
        if is_sooner {
            self.look_at = Some(at);
        }
        is_sooner
    }
}

#[cfg(test)]
mod tests;
