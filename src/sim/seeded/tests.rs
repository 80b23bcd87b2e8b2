//! Many seeds.
//!
//! `SIM_SEED=7` runs one seed and prints its trace, `SIM_SEEDS=0..1000` so many, and
//! `SIM_SECONDS=60` as many as fit. `SIM_THREADS=1` uses one thread, not two. `SIM_SHRINK=0` does not shrink what fails,
//! and `SIM_STOP=1` stops there. `SIM_LEAST=1000` demands so many. `SIM_TWICE=100` runs so many seeds twice.

use std::{
    panic::catch_unwind,
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{Report, judgement::Tally, plan::Plan, run, shrink::shrink};
use crate::sometimes::counts;

/// So many seeds take each rare branch, but for the rarest.
const ENOUGH_SEEDS: u64 = 1_000;

/// Branches of semaphores and latches, which this simulation does not use: see `src/sim/counters`.
const OF_COUNTERS: &[&str] = &[
    "a counted request goes on in the background",
    "permits: parts with unanswered copies",
    "withdrawn: it had been granted",
];

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

/// A seed that takes this long of real time stands still.
const STANDS_STILL: Duration = Duration::from_secs(20);

fn env<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn seeds() -> std::ops::Range<u64> {
    let Ok(seeds) = std::env::var("SIM_SEEDS") else { return 0..u64::MAX };
    let (from, to) = seeds.split_once("..").expect("SIM_SEEDS=0..100");
    from.parse().unwrap()..to.parse().unwrap()
}

/// Shrinks what fails, and prints it.
fn explain(plan: &Plan) {
    let report = run(plan, true);
    print(plan, &report);
    if env::<u32>("SIM_SHRINK") == Some(0) {
        return;
    }
    let (plan, report) = shrink(plan, &report, 400);
    println!("shortest: {plan:#?}");
    report.lines.iter().for_each(|line| println!("{line}"));
    print(&plan, &report);
}

fn print(plan: &Plan, report: &Report) {
    println!("seed {}:", plan.seed);
    report.findings.iter().for_each(|finding| println!("  {finding}"));
}

/// What all seeds of a test came to.
#[derive(Default)]
struct Total {
    count: u64,
    operations: usize,
    time: Duration,
    longest_wait: Duration,
    tally: Tally,
    failed: Vec<u64>,
}

impl Total {
    fn add(&mut self, seed: u64, report: &Report) {
        self.count += 1;
        self.operations += report.operations;
        self.time += report.virtual_time;
        self.longest_wait = self.longest_wait.max(report.longest_wait);
        self.tally.add(&report.tally);
        if !report.findings.is_empty() {
            self.failed.push(seed);
        }
    }
}

/// Runs seeds on several threads until the time is up.
fn run_many(enough: Duration) -> Total {
    let (begun, total) = (Instant::now(), Mutex::new(Total::default()));
    let (next, stopped) = (AtomicU64::new(seeds().start), AtomicBool::new(false));
    let threads = env("SIM_THREADS").unwrap_or(2);
    let done = |current: &Mutex<Option<(u64, Instant)>>| {
        while begun.elapsed() < enough && !stopped.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds().contains(&seed) {
                break;
            }
            *current.lock().unwrap() = Some((seed, Instant::now()));
            let plan = Plan::draw(seed);
            let report = catch_unwind(|| run(&plan, false)).unwrap_or_else(|_| Report {
                findings: vec!["panic: of the run itself".into()],
                ..Report::default()
            });
            *current.lock().unwrap() = None;
            let is_first = {
                let mut total = total.lock().unwrap();
                total.add(seed, &report);
                total.failed.len() == 1
            };
            if !report.findings.is_empty() {
                if env::<u32>("SIM_STOP").is_some() {
                    stopped.store(true, Ordering::Relaxed);
                }
                println!("after {:.1?}:", begun.elapsed());
                match is_first {
                    true => explain(&plan),
                    false => print(&plan, &report),
                }
            }
        }
    };
    let current: Vec<_> = (0..threads).map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        let done = &done;
        let working: Vec<_> =
            current.iter().map(|current| scope.spawn(move || done(current))).collect();
        // A deadlock of threads stops the virtual clock, too.
        while working.iter().any(|thread| !thread.is_finished()) {
            thread::sleep(Duration::from_millis(50));
            for current in &current {
                if let Some((seed, since)) = *current.lock().unwrap()
                    && since.elapsed() > STANDS_STILL
                {
                    println!("seed {seed} stands still, after {:.1?}", begun.elapsed());
                    std::process::abort();
                }
            }
        }
    });
    total.into_inner().unwrap()
}

#[test]
fn whatever_goes_wrong_locks_exclude_and_everybody_gets_a_turn() {
    if let Some(seed) = env("SIM_SEED") {
        let plan = Plan::draw(seed);
        let report = run(&plan, true);
        println!("{plan:#?}");
        report.lines.iter().for_each(|line| println!("{line}"));
        if !report.findings.is_empty() {
            explain(&plan);
            panic!("{:#?}", report.findings);
        }
        return;
    }
    let begun = Instant::now();
    let Total { count, operations, time, longest_wait, tally, mut failed } =
        run_many(Duration::from_secs(env("SIM_SECONDS").unwrap_or(20)));
    failed.sort_unstable();
    println!(
        "{count} seeds in {:.1?}, {operations} operations, {:.1} virtual hours, longest wait for a turn {longest_wait:?}",
        begun.elapsed(),
        time.as_secs_f64() / 3600.0
    );
    for (check, count) in &tally.judged {
        println!("{check}: judged {count}");
    }
    for ((class, check), count) in &tally.within {
        println!("{class}, {check}: {count}");
    }
    let taken = counts();
    println!("rare branches: {taken:#?}");
    assert!(failed.is_empty(), "{} of {count} seeds fail: {failed:?}", failed.len());
    let least = env("SIM_LEAST").unwrap_or(1);
    assert!(count >= least && operations > 0, "only {count} seeds were tried");
    if count >= ENOUGH_SEEDS {
        let wanted = |branch: &&str| {
            let may_be_rare = count < ENOUGH_FOR_ALL && RAREST.contains(branch);
            !may_be_rare && !OF_COUNTERS.contains(branch)
        };
        let never = taken.iter().filter(|(branch, times)| **times == 0 && wanted(branch));
        let never: Vec<_> = never.collect();
        assert!(never.is_empty(), "never taken: {never:?}");
    }
}

#[test]
fn a_seed_has_one_trace() {
    for seed in 0..env("SIM_TWICE").unwrap_or(20) {
        let plan = Plan::draw(seed);
        let (one, other) = (run(&plan, true), run(&plan, true));
        let differs = one.lines.iter().zip(&other.lines).find(|(one, other)| one != other);
        assert_eq!(one.hash, other.hash, "seed {seed}: {differs:#?}");
    }
}
