//! A plan that fails, without all that it fails without.

use super::{
    Report,
    plan::{Operation, Plan},
    run,
};

/// What a finding is about: its first word.
fn sort(finding: &str) -> &str {
    finding.split(':').next().unwrap_or(finding)
}

fn fails_alike(report: &Report, sorts: &[String]) -> bool {
    report.findings.iter().any(|finding| sorts.iter().any(|known| sort(finding) == known))
}

/// How an operation can be simpler.
const SIMPLER: [fn(&mut Operation); 6] = [
    |operation| operation.ask = None,
    |operation| operation.again = None,
    |operation| operation.cut = None,
    |operation| operation.unpolled = None,
    |operation| operation.lease = None,
    |operation| operation.asleep = false,
];

/// Leaves out bursts, then mishaps, then tasks, then operations, as long as the plan fails in the same way. Tries
/// `most` plans.
pub(super) fn shrink(plan: &Plan, found: &Report, most: usize) -> (Plan, Report) {
    let sorts: Vec<_> = found.findings.iter().map(|finding| sort(finding).to_owned()).collect();
    let mut best = (plan.clone(), run(plan, true));
    let mut tries = 0;
    loop {
        let size = best.0.size();
        let mut attempt = |best: &mut (Plan, Report), leave_out: &dyn Fn(&mut Plan)| {
            let mut plan = best.0.clone();
            leave_out(&mut plan);
            tries += 1;
            if tries > most {
                return false;
            }
            let report = run(&plan, true);
            let fails = fails_alike(&report, &sorts);
            if fails {
                *best = (plan, report);
            }
            fails
        };
        for burst in (1..best.0.bursts.len()).rev() {
            attempt(&mut best, &|plan| drop(plan.bursts.remove(burst)));
        }
        for burst in 0..best.0.bursts.len() {
            // Halves, quarters, and so on, and each by itself.
            let mut part = best.0.bursts[burst].mishaps.len();
            while part > 0 {
                let mut at = 0;
                while at < best.0.bursts[burst].mishaps.len() {
                    let end = (at + part).min(best.0.bursts[burst].mishaps.len());
                    let leave_out = |plan: &mut Plan| {
                        plan.bursts[burst].mishaps.drain(at..end);
                    };
                    if !attempt(&mut best, &leave_out) {
                        at = end;
                    }
                }
                part /= 2;
            }
            for task in (0..best.0.bursts[burst].tasks.len()).rev() {
                attempt(&mut best, &|plan| drop(plan.bursts[burst].tasks.remove(task)));
            }
            for task in (0..best.0.bursts[burst].tasks.len()).rev() {
                for operation in (0..best.0.bursts[burst].tasks[task].operations.len()).rev() {
                    attempt(&mut best, &|plan| {
                        plan.bursts[burst].tasks[task].operations.remove(operation);
                    });
                }
            }
            for task in 0..best.0.bursts[burst].tasks.len() {
                for operation in 0..best.0.bursts[burst].tasks[task].operations.len() {
                    for simplify in SIMPLER {
                        let mut changed = best.0.clone();
                        simplify(&mut changed.bursts[burst].tasks[task].operations[operation]);
                        if format!("{changed:?}") != format!("{:?}", best.0) {
                            attempt(&mut best, &|plan| {
                                simplify(&mut plan.bursts[burst].tasks[task].operations[operation]);
                            });
                        }
                    }
                }
            }
        }
        if best.0.size() == size || tries > most {
            return best;
        }
    }
}
