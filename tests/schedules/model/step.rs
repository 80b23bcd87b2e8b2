//! The steps of a schedule, and the model of a kind of lock that takes them.

use std::fmt;

use harness::redis::Value;

use super::{Ms, StepId, World};

/// A kind of lock and its clients.
pub(crate) trait Model {
    /// What a client may do of its own accord.
    type Action: Clone + fmt::Display;
    /// What a copy of a script call is to its client.
    type Call: Clone + fmt::Display;

    /// What could be done now, each with its weight.
    fn choices(&self, world: &World<'_, Self::Call>) -> Vec<(u32, Self::Action)>;

    /// The class of an action, of 16; 0 is what everything begins with.
    fn class(action: &Self::Action) -> usize;

    /// Does it, or answers `false` when it cannot be done now. It sends one copy at most.
    fn act(&mut self, action: &Self::Action, world: &mut World<'_, Self::Call>) -> bool;

    /// The server has run a copy. `true`: its client has the answer at the same moment.
    fn ran(&mut self, call: &Self::Call, answer: &Value, world: &mut World<'_, Self::Call>)
    -> bool;

    /// A client hears the answer to its copy `name`.
    fn answered(
        &mut self,
        name: StepId,
        sent: Ms,
        call: &Self::Call,
        answer: &Value,
        world: &mut World<'_, Self::Call>,
    );

    /// When the next client does something by itself (renews, gives up its belief), if any will.
    fn alarm(&self) -> Option<Ms>;

    /// It is time for what [`Model::alarm`] told.
    fn ring(&mut self, world: &mut World<'_, Self::Call>);

    /// These keys have just expired.
    fn expired(&mut self, keys: &[String], world: &mut World<'_, Self::Call>);

    /// Looks for what must never be seen.
    fn check(&self, world: &mut World<'_, Self::Call>);

    /// What is to be done next so that all clients are done, `None` when they are.
    fn closing(&self, world: &World<'_, Self::Call>) -> Option<Closing<Self::Action>>;

    /// What is to be done next so that nobody owes anything, `None` when that is so.
    fn owed(&self, world: &World<'_, Self::Call>) -> Option<Closing<Self::Action>>;

    /// Whether this key may still be there when all is over.
    fn may_stay(&self, _key: &str, _world: &World<'_, Self::Call>) -> bool {
        false
    }
}

/// One step towards the end.
pub(crate) enum Closing<A> {
    /// A client does this, its copy runs and is answered.
    Act(A),
    /// A copy already sent runs, and is answered.
    Run(StepId),
    /// Nothing to do before this moment.
    Wait(Ms),
}

/// What happens in one step.
#[derive(Debug, Clone)]
pub(crate) enum Act<A> {
    /// Time passes.
    Tick(Ms),
    /// A client does something.
    Client(A),
    /// The server runs a copy.
    Run(StepId),
    /// A client hears the answer to its copy.
    Answer(StepId),
}

/// One step of a schedule, with its name.
#[derive(Debug, Clone)]
pub(crate) struct Step<A> {
    pub(crate) name: StepId,
    pub(crate) act: Act<A>,
}
