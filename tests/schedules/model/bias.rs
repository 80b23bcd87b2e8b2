//! The preferences of one schedule. Schedules with equal preferences rarely do anything rare, so each draws its own.

use fastrand::Rng;

use super::step::{Act, Model};
use super::{Ms, StepId, World};

/// The classes of actions a model can have.
const CLASSES: usize = 16;

/// The preferences of one schedule.
#[derive(Debug)]
pub(super) struct Bias {
    rng: Rng,
    /// How much each class of actions is liked; 0 is never.
    classes: [u32; CLASSES],
    /// How many steps are drawn: the end of a schedule has its own dangers, and comes sooner in a short one.
    pub(super) length: StepId,
    /// How often time passes, clients act, copies run, answers come.
    pace: [u32; 4],
}

impl Bias {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut classes = [0; CLASSES];
        classes.fill_with(|| [0, 4, 4, 16][rng.usize(0..4)]);
        // Without the first class nothing begins; where it is rare, those who have begun are left to themselves.
        classes[0] = [1, 4, 16][rng.usize(0..3)];
        let length = [30, 30, 50, 100][rng.usize(0..4)];
        let pace = [rng.u32(1..4), rng.u32(3..6), rng.u32(3..6), rng.u32(2..6)];
        Self { rng, classes, length, pace }
    }

    /// What happens next, if there is anything of the sort that is drawn.
    pub(super) fn draw<M: Model>(
        &mut self,
        model: &M,
        world: &World<'_, M::Call>,
    ) -> Option<Act<M::Action>> {
        let [time, clients, runs, _] = self.pace;
        let drawn = self.rng.u32(0..self.pace.iter().sum());
        match drawn {
            _ if drawn < time => Some(Act::Tick(self.time())),
            _ if drawn < time + clients => self.action(model, world).map(Act::Client),
            _ if drawn < time + clients + runs => self.copy(&world.network.to_run()).map(Act::Run),
            _ => self.copy(&world.network.to_answer()).map(Act::Answer),
        }
    }

    fn time(&mut self) -> Ms {
        if self.rng.u32(0..8) == 0 { self.rng.u64(20..150) } else { self.rng.u64(1..10) }
    }

    fn action<M: Model>(&mut self, model: &M, world: &World<'_, M::Call>) -> Option<M::Action> {
        let mut choices = model.choices(world);
        for (weight, action) in &mut choices {
            *weight *= self.classes[M::class(action)];
        }
        let mut at = self.rng.u32(0..choices.iter().map(|(weight, _)| weight).sum::<u32>().max(1));
        for (weight, action) in choices {
            if at < weight {
                return Some(action);
            }
            at -= weight;
        }
        None
    }

    /// Mostly the newest; sometimes one that has been on its way for long.
    fn copy(&mut self, copies: &[StepId]) -> Option<StepId> {
        if self.rng.u32(0..3) > 0 {
            copies.last().copied()
        } else {
            self.rng.choice(copies.iter().copied())
        }
    }
}
