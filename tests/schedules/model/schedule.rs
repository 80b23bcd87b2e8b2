//! Schedules: drawn at random, or repeated step by step.

use super::bias::Bias;
use super::seen::spoken;
use super::step::{Act, Closing, Model, Step};
use super::{Kind, Ms, Progress, StepId, Violation, World};

/// The first name of a step of the end, after all drawn ones.
const END: StepId = 1_000;

/// A model in its world.
pub(crate) struct Simulation<'s, M: Model> {
    model: M,
    world: World<'s, M::Call>,
    aim: Option<Kind>,
}

impl<'s, M: Model> Simulation<'s, M> {
    /// With an `aim` only violations of that kind count.
    pub(crate) fn new(model: M, server: &'s mut super::Server, aim: Option<Kind>) -> Self {
        Self { model, world: World::new(server, false), aim }
    }

    /// As [`Simulation::new`], and writes down what happens.
    pub(crate) fn traced(model: M, server: &'s mut super::Server, aim: Option<Kind>) -> Self {
        Self { model, world: World::new(server, true), aim }
    }

    /// Draws and does some steps, then brings everything to its end. The steps, and what went wrong first.
    pub(crate) fn random(mut self, seed: u64) -> (Vec<Step<M::Action>>, Option<Violation>) {
        let mut bias = Bias::new(seed);
        let mut steps = Vec::new();
        for name in 1..=bias.length {
            let Some(act) = bias.draw(&self.model, &self.world) else { continue };
            let step = Step { name, act };
            self.step(&step);
            steps.push(step);
            if let Some(violation) = self.found() {
                return (steps, Some(violation));
            }
        }
        let violation = self.end();
        (steps, violation)
    }

    /// Does these steps, leaving out what cannot be done, then brings everything to its end. What went wrong first, and the trace.
    pub(crate) fn replay(mut self, steps: &[Step<M::Action>]) -> (Option<Violation>, Vec<String>) {
        for step in steps {
            self.step(step);
            if let Some(violation) = self.found() {
                return (Some(violation), self.world.take_trace());
            }
        }
        (self.end(), self.world.take_trace())
    }

    fn found(&self) -> Option<Violation> {
        self.world
            .violations
            .iter()
            .find(|violation| self.aim.is_none_or(|aim| aim == violation.kind))
            .cloned()
    }

    /// Does one step. `false` when it could not be done.
    fn step(&mut self, step: &Step<M::Action>) -> bool {
        self.world.step = step.name;
        let done = match &step.act {
            Act::Tick(time) => self.tick(*time),
            Act::Client(action) => self.client(action),
            Act::Run(name) => self.run(*name),
            Act::Answer(name) => self.answer(*name),
        };
        if done {
            self.model.check(&mut self.world);
        }
        done
    }

    fn tick(&mut self, time: Ms) -> bool {
        let to = self.world.now() + time;
        self.world.tell(|| format!("time passes, it is {to}"));
        loop {
            // Every moment at which something ends is looked at, however long the step.
            let next = self.model.alarm().into_iter().chain(self.world.server.next_expiry()).min();
            let Some(next) = next.filter(|next| *next <= to) else { break };
            self.advance(next.max(self.world.now()));
            if self.model.alarm().is_some_and(|alarm| alarm <= next) {
                self.model.ring(&mut self.world);
            }
            self.model.check(&mut self.world);
        }
        self.advance(to);
        true
    }

    fn advance(&mut self, to: Ms) {
        let expired = self.world.server.advance(to);
        if !expired.is_empty() {
            self.model.expired(&expired, &mut self.world);
        }
    }

    fn client(&mut self, action: &M::Action) -> bool {
        let done = self.model.act(action, &mut self.world);
        if done {
            let sent =
                self.world.network.get(self.world.step).map(|copy| format!(": {}", copy.call));
            self.world.tell(|| format!("{action}{}", sent.unwrap_or_default()));
        }
        done
    }

    fn run(&mut self, name: StepId) -> bool {
        let Some(copy) =
            self.world.network.get(name).filter(|copy| copy.progress == Progress::Sent).cloned()
        else {
            return false;
        };
        let answer = self.world.server.run(&copy.invocation);
        self.world.tell(|| format!("copy {name} runs, {}: {}", copy.call, spoken(&answer)));
        self.world.network.get_mut(name).expect("it was there").progress =
            Progress::Ran(answer.clone());
        if self.model.ran(&copy.call, &answer, &mut self.world) {
            self.answer(name);
        }
        true
    }

    fn answer(&mut self, name: StepId) -> bool {
        let Some(copy) = self.world.network.get_mut(name) else { return false };
        let Progress::Ran(answer) = copy.progress.clone() else { return false };
        copy.progress = Progress::Answered;
        let (sent, call) = (copy.sent, copy.call.clone());
        self.world.tell(|| format!("the answer to copy {name} comes"));
        self.model.answered(name, sent, &call, &answer, &mut self.world);
        true
    }

    /// Everybody gives back what he holds, and then does what he owes. Of the copies still under way some come in between, and
    /// the others when all is done.
    fn end(&mut self) -> Option<Violation> {
        self.world.step = END;
        self.world.say(|| "      -- all give back what they hold".to_string());
        self.close(M::closing)
            .or_else(|| self.let_come("      -- late copies arrive", |name| name % 2 == 0))
            .or_else(|| {
                self.world.say(|| "      -- all do what they owe".to_string());
                self.close(M::owed)
            })
            .or_else(|| self.let_come("      -- later copies arrive", |_| true))
            .or_else(|| {
                let mut left = self.world.server.keys();
                left.retain(|key| !self.model.may_stay(key, &self.world));
                if !left.is_empty() {
                    self.world
                        .violation(Kind::Orphan, format!("in the end there still is {left:?}"));
                }
                self.found()
            })
    }

    fn close(
        &mut self,
        next: impl Fn(&M, &World<'_, M::Call>) -> Option<Closing<M::Action>>,
    ) -> Option<Violation> {
        while let Some(closing) = next(&self.model, &self.world) {
            let name = self.world.step + 1;
            assert!(name < 2 * END, "the clients do not come to an end");
            match closing {
                Closing::Wait(until) => {
                    let time = until - self.world.now();
                    self.step(&Step { name, act: Act::Tick(time) });
                }
                Closing::Act(action) => {
                    let done = self.step(&Step { name, act: Act::Client(action) });
                    assert!(done, "a closing action that cannot be done");
                    self.step(&Step { name, act: Act::Run(name) });
                    self.step(&Step { name, act: Act::Answer(name) });
                }
                Closing::Run(copy) => {
                    self.step(&Step { name, act: Act::Run(copy) });
                    self.step(&Step { name, act: Act::Answer(copy) });
                }
            }
            if let Some(violation) = self.found() {
                return Some(violation);
            }
        }
        None
    }

    fn let_come(&mut self, title: &str, which: impl Fn(StepId) -> bool) -> Option<Violation> {
        self.world.say(|| title.to_string());
        let name = self.world.step + 1;
        for copy in self.world.network.to_run().into_iter().filter(|copy| which(*copy)) {
            self.step(&Step { name, act: Act::Run(copy) });
        }
        self.found()
    }
}
