//! [`Answers`]: what the server last told the local waiters of a lock. A waiter whose deadline passes
//! returns what this says: another holds the lock, or the server does not answer.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, futures::Notified},
    time::Instant,
};

use crate::{engine::ASK_AGAIN, error::Error, options::Replicas, wire::WireError};

/// A waiter asks again sooner than this. An older answer says nothing about now: its asker is not
/// being polled.
const FRESH: Duration = ASK_AGAIN.saturating_mul(2);

#[derive(Debug, Default)]
pub(crate) struct Answers {
    state: Mutex<State>,
    said: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The question without an answer.
    open: Option<u64>,
    questions: u64,
    /// How many answers have come, and how many had when the last one came that was no failure.
    count: u64,
    served: u64,
    /// The last answer, and when it came.
    last: Option<(Instant, Answer)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Answer {
    /// The server has answered, and by that somebody holds the lock.
    Held,
    /// The server has not answered, or refused.
    Failed(Failure),
}

/// A failed answer to a waiter that needed these replicas.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: Error,
    pub(crate) replicas: Replicas,
}

impl Failure {
    /// Whether it applies to a waiter that needs `replicas` too. A waiter that needs no replicas
    /// needs less than one that does.
    pub(crate) fn concerns(&self, replicas: Replicas) -> bool {
        self.replicas == Replicas::None || self.replicas == replicas
    }
}

/// What is known now.
#[derive(Debug)]
pub(crate) struct Known {
    /// How many answers have come.
    pub(crate) count: u64,
    /// Whether a question is open.
    pub(crate) is_asking: bool,
    /// The last answer, unless it is old.
    pub(crate) last: Option<Answer>,
}

impl Answers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server is being asked.
    pub(crate) fn ask(&self) -> Question<'_> {
        let mut state = self.state();
        state.questions += 1;
        let number = state.questions;
        state.open = Some(number);
        Question { answers: self, number }
    }

    /// The server has said that somebody holds the lock, or has failed a waiter that needed these
    /// replicas.
    pub(crate) fn say(&self, failure: Option<&WireError>, lock: &str, replicas: Replicas) {
        let answer = match failure {
            Some(error) => {
                Answer::Failed(Failure { error: error.clone().into_error(lock), replicas })
            }
            None => Answer::Held,
        };
        {
            let mut state = self.state();
            state.count += 1;
            if matches!(answer, Answer::Held) {
                state.served = state.count;
            }
            state.last = Some((Instant::now(), answer));
        }
        self.said.notify_waiters();
    }

    /// The server has answered, and the lock is not known to be held: its known holder has released
    /// it, or shares it, or is gone.
    pub(crate) fn freed(&self) {
        {
            let mut state = self.state();
            state.count += 1;
            state.served = state.count;
            state.last = None;
        }
        self.said.notify_waiters();
    }

    /// No waiter waits for an answer any more.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.open = None;
        state.last = None;
    }

    /// The asker is gone and will not get the answer.
    pub(crate) fn abandon(&self) {
        self.state().open = None;
    }

    /// How many answers have come.
    pub(crate) fn count(&self) -> u64 {
        self.state().count
    }

    pub(crate) fn known(&self) -> Known {
        let state = self.state();
        let fresh = state.last.as_ref().filter(|(came, _)| came.elapsed() < FRESH);
        let last = fresh.map(|(_, answer)| answer.clone());
        Known { count: state.count, is_asking: state.open.is_some(), last }
    }

    /// Whether the server has answered after the first `count` answers.
    pub(crate) fn has_served_since(&self, count: u64) -> bool {
        self.state().served > count
    }

    /// Completes at the next answer.
    pub(crate) fn next(&self) -> Notified<'_> {
        self.said.notified()
    }
}

/// An open question, until the server has answered or the asker is gone.
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

    /// The server has granted a lock that can be shared, or has not said that it is held. See
    /// [`Answers::freed`].
    pub(crate) fn freed(self) {
        self.answers.freed();
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

#[cfg(test)]
mod tests;
