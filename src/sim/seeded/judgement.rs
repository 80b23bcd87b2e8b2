//! What the judge says of a run.
//!
//! All of its checks apply: C1 to C11 and C13. What it is not told, and why:
//! - who holds a read/write lock by its inspection: a reader whose lease is over is shown as long as others read;
//! - a bound for an acquisition of several locks: its parts have bounds, one after another.

use std::{collections::BTreeMap, time::Duration};

use judge::{Bounds, Check, Class, History, Left, Nanos, Witness, judge};

use super::{mishap::What, options::Options, plan::Plan, world::World};

const MS: Nanos = 1_000_000;
const SECOND: Nanos = 1_000 * MS;

/// How often a check had something to judge, and how often a class of faults excused something.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) judged: BTreeMap<Check, usize>,
    pub(super) within: BTreeMap<(Class, Check), usize>,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        for (check, count) in &other.judged {
            *self.judged.entry(*check).or_default() += count;
        }
        for (class, count) in &other.within {
            *self.within.entry(*class).or_default() += count;
        }
    }
}

/// The findings, each with the name of its check first, the number of operations, and what was judged.
pub(super) fn sentence(world: &World, plan: &Plan) -> (Vec<String>, usize, Tally) {
    let history: History = world.recorder.take();
    let mut witness = Witness::default();
    for server in &world.servers {
        witness.logs.extend(server.logs());
    }
    witness.left = world.left.lock().unwrap().iter().map(left).collect();
    let verdict = judge(&history, Some(&witness), &bounds(plan));
    let findings = verdict.violations().map(|finding| format!("{}: {finding}", finding.check));
    let figures = &verdict.figures;
    let within = figures.tolls.iter().map(|(class, toll)| (*class, toll.count)).collect();
    let tally = Tally { judged: figures.judged.clone(), within };
    (findings.collect(), figures.operations, tally)
}

fn left((server, key): &(String, String)) -> Left {
    Left { server: server.clone(), key: key.clone() }
}

/// By how much a server's clock may repeat itself.
pub(super) fn repeated(plan: &Plan) -> Duration {
    let steps_back = plan.mishaps().filter_map(|mishap| match mishap.what {
        What::StepClock { by_ms, .. } if by_ms < 0 => Some(by_ms.unsigned_abs()),
        _ => None,
    });
    Duration::from_millis(steps_back.sum())
}

/// How long after its end a mishap may be felt.
fn recovery(options: &Options) -> Nanos {
    // There is another connection, with its subscriptions.
    if options.faults.iter().all(|fault| fault.is_noticed()) {
        return SECOND / 2;
    }
    // A connection that is dead is noticed by a probe, or by three calls without an answer.
    5 * SECOND + 6 * nanos(options.command_timeout)
}

fn bounds(plan: &Plan) -> Bounds {
    let options = &plan.options;
    let command_timeout = nanos(options.command_timeout);
    let repeated = nanos(repeated(plan));
    Bounds {
        watchdog: nanos(options.watchdog),
        command_timeout,
        retry_timeout: nanos(options.retry_timeout),
        fair_wait: nanos(options.fair_wait),
        // The longest way there and back of a calm network.
        rtt: 8 * MS,
        slack: 100 * MS,
        undo: 2 * command_timeout + 5 * SECOND + repeated,
        recovery: recovery(options),
        // Nobody has to wait until he looks again by himself.
        news: SECOND,
        // Two signs are waited for, and those that stand behind one that gives none may not either.
        idle: 4 * SECOND,
        turn: None,
        failover: 2 * SECOND,
        follow: SECOND + recovery(options),
        ..Bounds::default()
    }
}

pub(super) fn nanos(time: Duration) -> Nanos {
    time.as_nanos() as Nanos
}
