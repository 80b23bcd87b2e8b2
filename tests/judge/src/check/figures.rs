//! Figures of a run.

use super::Court;
use crate::{
    history::{Answer, Call},
    run::Outcome,
    spans::Span,
    verdict::Spread,
};

impl Court<'_, '_> {
    pub(super) fn figures(&mut self) {
        let run = self.run;
        let mut stale = (0, 0);
        for op in &run.ops {
            let Call::Use { guard, .. } = op.call else { continue };
            let Some(guard) = run.guard(op.process, *guard) else { continue };
            if self.cover(guard).is_some_and(|end| end.at < op.invoked) {
                stale.0 += 1;
                let accepted = op.outcome == Outcome::Answered(&Answer::Used { accepted: true });
                stale.1 += usize::from(accepted);
            }
        }
        let waits = run.guards.iter().map(|guard| Span { from: guard.invoked, to: guard.granted });
        let calm = waits.clone().filter(|wait| run.is_calm(*wait, self.bounds.recovery));
        let figures = &mut self.verdict.figures;
        figures.stale_uses = stale;
        figures.operations = run.ops.len();
        figures.unknown =
            run.ops.iter().filter(|op| !matches!(op.outcome, Outcome::Answered(_))).count();
        figures.grants = run.guards.len();
        figures.calm_waits = Spread::of(calm.map(Span::length).collect());
        figures.waits = Spread::of(waits.map(Span::length).collect());
        for (_, why) in run.guards.iter().filter_map(|guard| guard.told()) {
            *figures.losses.entry(why).or_default() += 1;
        }
    }
}
