//! Shrinking: the fewest steps that still fail.

use super::step::{Act, Step};

/// Drops steps, at first many at a time and then one by one, as long as what is left still `fails`.
pub(crate) fn shrink<A: Clone>(
    mut steps: Vec<Step<A>>,
    mut fails: impl FnMut(&[Step<A>]) -> bool,
) -> Vec<Step<A>> {
    let mut size = steps.len().div_ceil(2).max(1);
    loop {
        let before = steps.len();
        let mut end = steps.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let fewer: Vec<_> = steps[..start].iter().chain(&steps[end..]).cloned().collect();
            if fails(&fewer) {
                steps = fewer;
            }
            end = start;
        }
        if size > 1 {
            size /= 2;
            continue;
        }
        let merged = merge_ticks(&steps);
        if merged.len() < steps.len() && fails(&merged) {
            steps = merged;
        } else if steps.len() == before {
            return steps;
        }
    }
}

/// Where time passes twice in a row it may as well pass once.
fn merge_ticks<A: Clone>(steps: &[Step<A>]) -> Vec<Step<A>> {
    let mut merged: Vec<Step<A>> = Vec::new();
    for step in steps {
        match (merged.last_mut().map(|last| &mut last.act), &step.act) {
            (Some(Act::Tick(so_far)), Act::Tick(more)) => *so_far += more,
            _ => merged.push(step.clone()),
        }
    }
    merged
}
