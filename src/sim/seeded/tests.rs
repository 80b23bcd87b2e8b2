//! Many seeds.
//!
//! `SIM_SEED=7` runs one seed and prints its trace, `SIM_SEEDS=0..1000` so many, and
//! `SIM_SECONDS=60` as many as fit. `SIM_SHRINK=0` does not shrink what fails, and `SIM_STOP=1` stops there.

use std::time::{Duration, Instant};

use super::{Report, plan::Plan, run, shrink::shrink};
use crate::sometimes::counts;

/// So many seeds take each rare branch, but for the rarest.
const ENOUGH_SEEDS: u64 = 1_000;

/// So many seeds take these, too.
const ENOUGH_FOR_ALL: u64 = 4_000;
const RAREST: &[&str] = &[
    "batch: one is sent by itself",
    "head: found that it was put out",
    "lease: taken",
    "line: fails with the one before",
    "majority: those left out are asked too",
    "re-entry: its owner had released it",
    "release: unknown who did it",
    "swap: the hold was gone",
];

fn env<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(seeds) = std::env::var("SIM_SEEDS") else { return 0..u64::MAX };
    let (from, to) = seeds.split_once("..").expect("SIM_SEEDS=0..100");
    from.parse().unwrap()..to.parse().unwrap()
}

/// Shrinks what fails, and prints it.
fn explain(plan: &Plan, report: &Report) {
    println!("seed {}: {:#?}", plan.seed, report.findings);
    if env::<u32>("SIM_SHRINK") == Some(0) {
        return;
    }
    let (plan, report) = shrink(plan, report, 400);
    println!("shortest: {plan:#?}");
    report.lines.iter().for_each(|line| println!("{line}"));
    println!("seed {}: {:#?}", plan.seed, report.findings);
}

#[test]
fn whatever_goes_wrong_locks_exclude_and_everybody_gets_a_turn() {
    if let Some(seed) = env("SIM_SEED") {
        let plan = Plan::draw(seed);
        let report = run(&plan);
        println!("{plan:#?}");
        report.lines.iter().for_each(|line| println!("{line}"));
        if !report.findings.is_empty() {
            explain(&plan, &report);
            panic!("{:#?}", report.findings);
        }
        return;
    }
    let enough = Duration::from_secs(env("SIM_SECONDS").unwrap_or(20));
    let begun = Instant::now();
    let (mut count, mut operations, mut time, mut failed) = (0, 0, Duration::ZERO, Vec::new());
    let mut longest = Duration::ZERO;
    for seed in seeds() {
        if begun.elapsed() > enough {
            break;
        }
        let plan = Plan::draw(seed);
        let report = run(&plan);
        count += 1;
        operations += report.operations;
        time += report.virtual_time;
        longest = longest.max(report.longest_wait);
        if !report.findings.is_empty() {
            match failed.is_empty() {
                true => explain(&plan, &report),
                false => println!("seed {seed}: {:#?}", report.findings),
            }
            failed.push(seed);
            if env::<u32>("SIM_STOP").is_some() {
                break;
            }
        }
    }
    println!(
        "{count} seeds in {:.1?}, {operations} operations, {:.1} virtual hours, longest wait for a turn {longest:?}",
        begun.elapsed(),
        time.as_secs_f64() / 3600.0
    );
    let taken = counts();
    println!("rare branches: {taken:#?}");
    assert!(failed.is_empty(), "{} of {count} seeds fail: {failed:?}", failed.len());
    assert!(count > 0 && operations > 0, "nothing was tried");
    if count >= ENOUGH_SEEDS {
        let wanted = |branch: &&str| count >= ENOUGH_FOR_ALL || !RAREST.contains(branch);
        let never = taken.iter().filter(|(branch, times)| **times == 0 && wanted(branch));
        let never: Vec<_> = never.collect();
        assert!(never.is_empty(), "never taken: {never:?}");
    }
}

#[test]
fn a_seed_has_one_trace() {
    for seed in 0..20 {
        let plan = Plan::draw(seed);
        let (one, other) = (run(&plan), run(&plan));
        let differs = one.lines.iter().zip(&other.lines).find(|(one, other)| one != other);
        assert_eq!(one.hash, other.hash, "seed {seed}: {differs:#?}");
    }
}
