//! What the server last said of a lock to those who wait for it: whether one whose wait is over may be told
//! that the lock is held, or has to be told that the server cannot be asked.

use std::{
    sync::{Mutex, MutexGuard},
    time::Duration,
};

use tokio::{
    sync::{Notify, futures::Notified},
    time::Instant,
};

use crate::{error::Error, replicas::Replicas, wire::WireError};

/// Who waits looks again sooner than that. What was said before says nothing of now: whoever asked is not polled.
const FRESH: Duration = Duration::from_secs(6);

#[derive(Debug, Default)]
pub(crate) struct Answers {
    state: Mutex<State>,
    said: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The question that has no answer yet.
    open: Option<u64>,
    questions: u64,
    /// How many answers came, and the last one, with when it came.
    count: u64,
    last: Option<(Instant, Answer)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Good,
    Failed(Failure),
}

/// How the server has failed one who asked this of replicas.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) replicas: Replicas,
}

impl Failure {
    /// Whether one who asks this of replicas would fare no better: who asks nothing of them needs less
    /// than one who does.
    pub(crate) fn concerns(&self, replicas: Replicas) -> bool {
        self.replicas == Replicas::None || self.replicas == replicas
    }
}

/// What is known at this moment.
#[derive(Debug)]
pub(crate) struct Known {
    /// How many answers came so far.
    pub(crate) count: u64,
    /// Whether a question is open.
    pub(crate) asked: bool,
    /// The last one, unless it is old.
    pub(crate) last: Option<Answer>,
}

impl Answers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The server is being asked.
    pub(crate) fn ask(&self) -> Question<'_> {
        let mut state = self.state();
        state.questions += 1;
        let number = state.questions;
        state.open = Some(number);
        Question { answers: self, number }
    }

    /// The server has answered one who asked this of replicas, or has failed to.
    pub(crate) fn say(&self, failure: Option<&WireError>, lock: &str, replicas: Replicas) {
        let answer = match failure {
            Some(error) => {
                Answer::Failed(Failure { error: error.clone().into_error(lock), replicas })
            }
            None => Answer::Good,
        };
        {
            let mut state = self.state();
            state.count += 1;
            state.last = Some((Instant::now(), answer));
        }
        self.said.notify_waiters();
    }

    /// The server has answered, and whoever was known to hold the lock does not any more.
    pub(crate) fn freed(&self) {
        {
            let mut state = self.state();
            state.count += 1;
            state.last = None;
        }
        self.said.notify_waiters();
    }

    /// Nobody waits for an answer any more.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.open = None;
        state.last = None;
    }

    /// Who asked is not there to hear the answer.
    pub(crate) fn abandon(&self) {
        self.state().open = None;
    }

    /// How many answers came so far.
    pub(crate) fn count(&self) -> u64 {
        self.state().count
    }

    pub(crate) fn known(&self) -> Known {
        let state = self.state();
        let fresh = state.last.as_ref().filter(|(came, _)| came.elapsed() < FRESH);
        let last = fresh.map(|(_, answer)| answer.clone());
        Known { count: state.count, asked: state.open.is_some(), last }
    }

    /// Done at the next answer from now on.
    pub(crate) fn next(&self) -> Notified<'_> {
        self.said.notified()
    }
}

/// A question that is open until the server has answered, or who asked is gone.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    answers: &'a Answers,
    number: u64,
}

impl Question<'_> {
    /// See [`Answers::say`].
    pub(crate) fn answered(self, failure: Option<&WireError>, lock: &str, replicas: Replicas) {
        self.answers.say(failure, lock, replicas);
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut state = self.answers.state();
        if state.open == Some(self.number) {
            state.open = None;
        }
    }
}
