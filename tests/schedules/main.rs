//! Random schedules of copies that come twice, late or never, on a real server: the five rules of "exactly once", proved
//! by breaking them.
//!
//! - `FUZZ_SCHEDULES=100000 cargo test --test schedules` runs longer than the default.
//! - `FUZZ_SEED=…` begins with that seed; a failure prints the command that does its schedule again.

mod reentrant;
mod sim;

use std::env;
use std::time::Instant;

use harness::RedisServer;

use reentrant::{LOCK, Reentrant, Rule, Rules, Scripts, overhear};
use sim::{Kind, Server, Sim, Step, StepId, Violation, shrink};

/// Steps drawn in one schedule.
const LENGTH: StepId = 90;
/// Schedules with all rules kept, when nothing else is asked for.
const SCHEDULES: u64 = 1_500;
/// Schedules in which a rule left out has to show.
const BOUND: u64 = 20_000;
/// When it has shown, so many schedules are searched for a short example.
const ENOUGH: u64 = 60;

#[test]
fn with_all_rules_kept_no_schedule_goes_wrong() {
    let redis = RedisServer::builder().unix_socket().start();
    run_all(&mut Fuzz::new(&redis, Rules::all()), "with_all_rules_kept_no_schedule_goes_wrong");
}

#[test]
fn with_all_rules_kept_no_schedule_with_redisson_goes_wrong() {
    const NAME: &str = "with_all_rules_kept_no_schedule_with_redisson_goes_wrong";
    let redis = RedisServer::builder().unix_socket().start();
    let Some(theirs) = overhear(&redis, NAME) else { return };
    let mut fuzz = Fuzz::new(&redis, Rules::all());
    fuzz.scripts.theirs = Some(theirs);
    run_all(&mut fuzz, NAME);
}

#[test]
fn rule_1_a_reused_id_lets_two_hold() {
    is_found(Rule::FreshIds, Kind::TwoHolders);
}

#[test]
fn rule_2_a_count_that_decides_leaves_the_lock_stuck() {
    is_found(Rule::ExistenceDecides, Kind::Orphan);
}

#[test]
fn rule_3_an_acquire_without_a_not_after_comes_when_nobody_waits_for_it() {
    is_found(Rule::NotAfter, Kind::Orphan);
}

#[test]
fn rule_4_without_a_janitor_what_is_given_up_stays() {
    is_found(Rule::Janitor, Kind::Orphan);
}

#[test]
fn rule_4_a_repeated_release_that_says_gone_is_no_loss() {
    is_found(Rule::GoneIsReleased, Kind::FalseAlarm);
}

#[test]
fn rule_4_one_copy_of_a_release_in_time_is_enough() {
    is_found(Rule::OneCopyInTime, Kind::FalseAlarm);
}

#[test]
fn rule_4_a_hand_over_given_up_is_undone_from_its_source() {
    is_found(Rule::SourceFirst, Kind::Orphan);
}

#[test]
fn rule_4_an_answer_that_comes_after_the_release_was_sent_clears_nothing() {
    is_found(Rule::AnswersInTime, Kind::Orphan);
}

#[test]
fn rule_4_an_acquire_never_answered_may_have_run_before_its_not_after() {
    is_found(Rule::UnansweredIsUnclear, Kind::Orphan);
}

#[test]
fn rule_5_a_swap_from_an_unclear_id_leaves_an_orphan() {
    is_found(Rule::ClearSwaps, Kind::Orphan);
}

#[test]
fn rule_5_a_swap_that_takes_mine_out_first_loses_the_ttl() {
    is_found(Rule::TheirsInFirst, Kind::NoTtl);
}

#[test]
fn trust_that_begins_with_the_answer_lets_two_hold() {
    is_found(Rule::TrustFromSending, Kind::TwoHolders);
}

#[test]
fn trust_without_a_drift_lets_a_slow_clock_believe_too_long() {
    is_found(Rule::Drift, Kind::Vanished);
}

#[test]
fn the_same_seed_is_the_same_schedule() {
    let redis = RedisServer::builder().unix_socket().start();
    let mut fuzz = Fuzz::new(&redis, Rules::all());
    for seed in 0..20 {
        let (steps, violation) = fuzz.random(seed, None);
        let (again, _) = fuzz.random(seed, None);
        assert!(violation.is_none());
        assert_eq!(format!("{steps:?}"), format!("{again:?}"));
        assert_eq!(fuzz.replay(&steps, None).1, fuzz.replay(&again, None).1);
    }
}

/// A server, and a model to run on it again and again.
struct Fuzz {
    server: Server,
    rules: Rules,
    scripts: Scripts,
}

type Steps = Vec<Step<<Reentrant as sim::Model>::Action>>;

impl Fuzz {
    fn new(redis: &RedisServer, rules: Rules) -> Self {
        let client = redis::Client::open(redis.unix_url()).expect("the server's address");
        let mut server = Server::new(client.get_connection().expect("a connection"), &[LOCK]);
        let scripts = Scripts::load(&mut server, rules, None);
        Self { server, rules, scripts }
    }

    fn model(&self) -> Reentrant {
        Reentrant::new(self.rules, &self.scripts)
    }

    fn random(&mut self, seed: u64, aim: Option<Kind>) -> (Steps, Option<Violation>) {
        Sim::new(self.model(), &mut self.server, aim).random(seed, LENGTH)
    }

    fn replay(&mut self, steps: &Steps, aim: Option<Kind>) -> (Option<Violation>, Vec<String>) {
        Sim::traced(self.model(), &mut self.server, aim).replay(steps)
    }

    /// The fewest steps that fail in the same way.
    fn shrink(&mut self, steps: Steps, kind: Kind) -> Steps {
        shrink(steps, |fewer| {
            let model = Reentrant::new(self.rules, &self.scripts);
            Sim::new(model, &mut self.server, Some(kind)).replay(fewer).0.is_some()
        })
    }

    /// A failure as text.
    fn told(&mut self, steps: &Steps, kind: Kind) -> String {
        let (_, trace) = self.replay(steps, Some(kind));
        format!("{} steps:\n{}", steps.len(), trace.join("\n"))
    }
}

/// Many schedules, none of which may go wrong.
fn run_all(fuzz: &mut Fuzz, test: &str) {
    let seed = number("FUZZ_SEED");
    let schedules = number("FUZZ_SCHEDULES").unwrap_or(if seed.is_some() { 1 } else { SCHEDULES });
    let first = seed.unwrap_or_else(|| fastrand::u64(..));
    let began = Instant::now();
    for seed in (0..schedules).map(|n| first.wrapping_add(n)) {
        let (steps, violation) = fuzz.random(seed, None);
        if let Some(violation) = violation {
            let shortest = fuzz.shrink(steps, violation.kind);
            let told = fuzz.told(&shortest, violation.kind);
            panic!(
                "{violation}\n{told}\nagain: FUZZ_SEED={seed} cargo test --test schedules {test}"
            );
        }
    }
    let rate = schedules as f64 / began.elapsed().as_secs_f64();
    println!("{schedules} schedules from seed {first}, {rate:.0} a second: nothing went wrong");
}

/// With a rule left out, something goes wrong in this way.
fn is_found(rule: Rule, kind: Kind) {
    let redis = RedisServer::builder().unix_socket().start();
    let mut fuzz = Fuzz::new(&redis, Rules::without(rule));
    let mut shortest: Option<Found> = None;
    let begin = number("FUZZ_SEED").unwrap_or(0);
    for seed in begin..begin + BOUND {
        let (steps, violation) = fuzz.random(seed, Some(kind));
        if violation.is_some() {
            let steps = fuzz.shrink(steps, kind);
            let first = shortest.as_ref().map_or(seed, |found| found.first);
            if shortest.as_ref().is_none_or(|found| steps.len() < found.steps.len()) {
                shortest = Some(Found { first, steps });
            }
        }
        if seed - begin >= ENOUGH && shortest.is_some() {
            break;
        }
    }
    let Found { first, steps } =
        shortest.unwrap_or_else(|| panic!("{BOUND} schedules without {rule:?}, and no {kind:?}"));
    println!(
        "without {rule:?}, found first by schedule {}; the shortest:\n{}",
        first + 1,
        fuzz.told(&steps, kind)
    );
}

/// What a rule left out has led to.
struct Found {
    /// The first schedule that found it.
    first: u64,
    steps: Steps,
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value}")))
}
