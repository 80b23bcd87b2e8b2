//! [`Line`]: the local waiters for one counter, and which of them asks the server.
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
pub(super) struct Line {
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
}

#[derive(Debug)]
struct Waiting {
    number: u64,
    wants: i64,
    /// It is to ask the server.
    woken: bool,
    /// `Some(n)`: it is asking now, on behalf of all waiters numbered below `n`.
    asks: Option<u64>,
    /// What it waits for has happened.
    done: bool,
    /// The server has not answered another waiter for so long that it fails too.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    Ask,
    Done,
    /// See [`Line::failure`].
    Failed,
    /// Sleep until this moment, or until the bell rings.
    Sleep(Instant),
}

impl Waiting {
    fn wake(&mut self) {
        self.woken = true;
        self.bell.notify_one();
    }
}

impl Line {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a waiter that wants this many permits. Also returns whether a listener is to be started.
    pub(super) fn enter(&self, wants: i64) -> (Place, bool) {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let bell = Arc::new(Notify::new());
        let (woken, asks, done, failed) = (false, None, false, None);
        let waiting = Waiting { number, wants, woken, asks, done, failed, bell: bell.clone() };
        state.waiters.push_back(waiting);
        let starts = !std::mem::replace(&mut state.listening, true);
        (Place { number, bell }, starts)
    }

    /// What a waiter is to do now. If nobody asks for this long, it asks.
    pub(super) fn turn(&self, number: u64, ask_again: Duration) -> Turn {
        let now = Instant::now();
        let mut state = self.state();
        let (next, due) = (state.next, state.asked.map_or(now, |asked| asked + ask_again));
        let due = state.next_end.map_or(due, |end| end.min(due));
        let Some(waiting) = state.of(number) else { return Turn::Done };
        if waiting.done {
            return Turn::Done;
        }
        if waiting.failed.is_some() {
            return Turn::Failed;
        }
        if !waiting.woken && now < due {
            return Turn::Sleep(due);
        }
        waiting.woken = false;
        waiting.asks = Some(next);
        state.asked = Some(now);
        state.next_end = None;
        Turn::Ask
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

    /// The server has failed this waiter. Those that waited when it asked, and do not ask themselves,
    /// fail too.
    pub(super) fn failed(&self, number: u64, error: &Error) {
        let mut state = self.state();
        let Some(before) = state.of(number).and_then(|waiting| waiting.asks) else { return };
        let waiters = state.waiters.iter_mut().filter(|waiting| waiting.number < before);
        for waiting in waiters.filter(|waiting| waiting.asks.is_none()) {
            waiting.failed = Some(error.clone());
            waiting.bell.notify_one();
        }
    }

    /// Why this waiter fails.
    pub(super) fn failure(&self, number: u64) -> Option<Error> {
        self.state().of(number)?.failed.clone()
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

    /// The listener has ended in another way.
    pub(super) fn stopped_listening(&self) {
        self.state().listening = false;
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
mod tests {
    use super::*;

    const AGAIN: Duration = Duration::from_secs(3);

    /// Which of the waiters are to ask now.
    fn asking(line: &Line, waiters: &[Place]) -> Vec<usize> {
        let is_asking = |place: &Place| line.turn(place.number, AGAIN) == Turn::Ask;
        (0..waiters.len()).filter(|&at| is_asking(&waiters[at])).collect()
    }

    fn line_of(wants: &[i64]) -> (Line, Vec<Place>) {
        let line = Line::default();
        line.was_asked_from_outside();
        let places = wants.iter().map(|&wants| line.enter(wants).0).collect();
        (line, places)
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_wakes_the_first_that_is_not_woken() {
        let (line, waiters) = line_of(&[1, 1, 1]);
        assert!(asking(&line, &waiters).is_empty());
        line.wake_first(false);
        line.wake_first(false);
        assert_eq!(asking(&line, &waiters), [0, 1]);
        line.wake_first(true);
        line.wake_first(true);
        assert_eq!(asking(&line, &waiters), [0]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_one_cannot_use_is_offered_to_those_that_can() {
        let (line, waiters) = line_of(&[3, 2, 1, 1]);
        line.wake_first(false);
        assert_eq!(asking(&line, &waiters), [0]);
        line.answered(waiters[0].number, 1);
        assert_eq!(asking(&line, &waiters), [2], "one permit is enough for one of them");
        line.answered(waiters[2].number, 0);
        assert!(asking(&line, &waiters).is_empty());
        // Granted, and some are left.
        line.answered(waiters[3].number, 5);
        line.leave(waiters[3].number);
        assert_eq!(asking(&line, &waiters), [0, 1]);
        line.answered(waiters[0].number, -4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_leaves_passes_its_wake_up_on() {
        let (line, waiters) = line_of(&[1, 1, 1]);
        line.wake_first(false);
        line.leave(waiters[0].number);
        assert_eq!(asking(&line, &waiters[1..]), [0], "woken, but did not ask");
        line.leave(waiters[1].number);
        assert_eq!(asking(&line, &waiters[2..]), [0], "asked, but did not hear");
        line.answered(waiters[2].number, 0);
        line.leave(waiters[2].number);
        assert!(line.ends_listening());
        assert!(line.enter(1).1, "the next one starts another");
        assert!(!line.enter(1).1);
        assert!(!line.ends_listening());
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_them_asks_again_after_a_while() {
        let (line, waiters) = line_of(&[1, 1]);
        tokio::time::advance(AGAIN - Duration::from_millis(1)).await;
        assert!(asking(&line, &waiters).is_empty());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(asking(&line, &waiters), [0], "for both");
        tokio::time::advance(AGAIN).await;
        assert_eq!(asking(&line, &waiters[1..]), [0], "the first is not polled");
    }

    #[tokio::test(start_paused = true)]
    async fn one_of_them_asks_when_a_lease_ends() {
        let (line, waiters) = line_of(&[1, 1]);
        line.next_end(Some(Duration::from_millis(70)));
        let Turn::Sleep(until) = line.turn(waiters[0].number, AGAIN) else { panic!("asks") };
        assert_eq!(until, Instant::now() + Duration::from_millis(70));
        tokio::time::advance(Duration::from_millis(70)).await;
        assert_eq!(asking(&line, &waiters), [0], "for both");
        line.answered(waiters[0].number, 0);
        line.next_end(Some(Duration::ZERO));
        assert!(asking(&line, &waiters).is_empty(), "not at once");
        line.leave(waiters[0].number);
        waiters[1].bell.notified().await;
        tokio::time::advance(SHORTEST).await;
        assert_eq!(asking(&line, &waiters[1..]), [0]);
        line.next_end(None);
        assert!(asking(&line, &waiters[1..]).is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn waiters_that_come_do_not_put_off_what_the_others_ask() {
        let (line, waiters) = line_of(&[1]);
        tokio::time::advance(AGAIN - Duration::from_millis(1)).await;
        line.was_asked_from_outside();
        let _wants_more = line.enter(3);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(asking(&line, &waiters), [0], "the answer was for the other one");
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_happened_has_happened_for_those_that_waited_then() {
        let (line, waiters) = line_of(&[1, 1]);
        line.wake_first(true);
        assert_eq!(asking(&line, &waiters), [0]);
        let late = line.enter(1).0;
        line.finish(waiters[0].number);
        assert_eq!(line.turn(waiters[1].number, AGAIN), Turn::Done);
        assert!(matches!(line.turn(late.number, AGAIN), Turn::Sleep(_)), "it came later");
    }
}
