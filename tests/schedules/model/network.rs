//! The network: every copy of every script call, and its state.

use std::collections::BTreeMap;

use harness::redis::Value;

use super::{Invocation, Ms, StepId};

/// One copy of a script call. A call that is sent again is another copy.
#[derive(Debug, Clone)]
pub(crate) struct Copy<C> {
    /// What the model calls it.
    pub(crate) call: C,
    /// What goes to the server.
    pub(crate) invocation: Invocation,
    /// When its client sent it.
    pub(crate) sent: Ms,
    /// Where it is.
    pub(crate) progress: Progress,
}

/// How far a copy has come. It may stay anywhere for ever: that is a lost request or a lost answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Progress {
    /// The server has not seen it.
    Sent,
    /// The server has run it; this is the answer, on its way back.
    Ran(Value),
    /// Its client has the answer.
    Answered,
}

/// All copies of one schedule.
#[derive(Debug)]
pub(crate) struct Network<C> {
    copies: BTreeMap<StepId, Copy<C>>,
}

impl<C> Network<C> {
    pub(crate) fn new() -> Self {
        Self { copies: BTreeMap::new() }
    }

    pub(crate) fn send(&mut self, name: StepId, call: C, invocation: Invocation, now: Ms) {
        let copy = Copy { call, invocation, sent: now, progress: Progress::Sent };
        assert!(self.copies.insert(name, copy).is_none(), "one step sends one copy: {name}");
    }

    pub(crate) fn get(&self, name: StepId) -> Option<&Copy<C>> {
        self.copies.get(&name)
    }

    pub(crate) fn get_mut(&mut self, name: StepId) -> Option<&mut Copy<C>> {
        self.copies.get_mut(&name)
    }

    /// The copies that may still run, oldest first.
    pub(crate) fn to_run(&self) -> Vec<StepId> {
        self.named(|progress| *progress == Progress::Sent)
    }

    /// The copies whose answer may still come, oldest first.
    pub(crate) fn to_answer(&self) -> Vec<StepId> {
        self.named(|progress| matches!(progress, Progress::Ran(_)))
    }

    fn named(&self, wanted: impl Fn(&Progress) -> bool) -> Vec<StepId> {
        self.copies
            .iter()
            .filter(|(_, copy)| wanted(&copy.progress))
            .map(|(name, _)| *name)
            .collect()
    }
}
