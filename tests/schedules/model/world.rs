//! The world of a model: the server, the network, the clock, and the record of violations.

use harness::redis::Value;

use super::network::Network;
use super::{Invocation, Kind, Ms, Server, StepId, Violation};

/// The world of one schedule.
pub(crate) struct World<'s, C> {
    pub(crate) server: &'s mut Server,
    pub(crate) network: Network<C>,
    pub(super) step: StepId,
    pub(super) violations: Vec<Violation>,
    trace: Option<Vec<String>>,
}

impl<'s, C> World<'s, C> {
    pub(super) fn new(server: &'s mut Server, traced: bool) -> Self {
        server.reset();
        let trace = traced.then(Vec::new);
        Self { server, network: Network::new(), step: 0, violations: Vec::new(), trace }
    }

    pub(crate) fn now(&self) -> Ms {
        self.server.now()
    }

    /// The step that is being done.
    pub(crate) fn step(&self) -> StepId {
        self.step
    }

    /// Gives a copy of a call to the network, under the name of this step.
    pub(crate) fn send(&mut self, call: C, invocation: Invocation) -> StepId {
        self.network.send(self.step, call, invocation, self.server.now());
        self.step
    }

    /// Runs a script at once, past the network.
    pub(crate) fn run(&mut self, invocation: &Invocation) -> Value {
        self.server.run(invocation)
    }

    pub(crate) fn violation(&mut self, kind: Kind, what: String) {
        self.say(|| format!("   !! {kind:?}: {what}"));
        self.violations.push(Violation { kind, what });
    }

    /// Adds a line to the trace; costs nothing when nobody reads it.
    pub(crate) fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(line());
        }
    }

    /// Adds the line of this step to the trace.
    pub(super) fn tell(&mut self, line: impl FnOnce() -> String) {
        let step = self.step;
        self.say(|| format!("{step:>5} {}", line()));
    }

    pub(super) fn take_trace(&mut self) -> Vec<String> {
        self.trace.take().unwrap_or_default()
    }
}
