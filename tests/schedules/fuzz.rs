//! Runs schedules by the thousand, and tells what it found.

use std::env;
use std::time::Instant;

use harness::{RedisServer, redis};

use crate::reentrant::{LOCK, Overheard, Reentrant, Rule, Rules, Scripts};
use crate::sim::{Kind, Model, Server, Sim, Step, Violation, shrink};

/// Schedules with all rules kept, when nothing else is asked for.
const SCHEDULES: u64 = 5_000;
/// Schedules in which a rule left out has to show.
const BOUND: u64 = 20_000;
/// So many schedules are searched for a short example, even when there is one already.
const ENOUGH: u64 = 60;

/// A server, and a model to run on it again and again.
pub(crate) struct Fuzz {
    server: Server,
    rules: Rules,
    scripts: Scripts,
}

type Steps = Vec<Step<<Reentrant as Model>::Action>>;

impl Fuzz {
    pub(crate) fn new(redis: &RedisServer, rules: Rules) -> Self {
        let client = redis::Client::open(redis.unix_url()).expect("the server's address");
        let mut server = Server::new(client.get_connection().expect("a connection"), &[LOCK]);
        let scripts = Scripts::load(&mut server, rules);
        Self { server, rules, scripts }
    }

    /// Redisson's threads take part.
    pub(crate) fn invite(&mut self, theirs: Overheard) {
        self.scripts.theirs = Some(theirs);
    }

    /// A schedule drawn from this seed. With an `aim` only violations of that kind count.
    pub(crate) fn random(&mut self, seed: u64, aim: Option<Kind>) -> (Steps, Option<Violation>) {
        let model = Reentrant::new(self.rules, &self.scripts);
        Sim::new(model, &mut self.server, aim).random(seed)
    }

    /// The same schedule again, and what happens in it line by line.
    pub(crate) fn trace(&mut self, steps: &Steps, aim: Option<Kind>) -> Vec<String> {
        let model = Reentrant::new(self.rules, &self.scripts);
        Sim::traced(model, &mut self.server, aim).replay(steps).1
    }

    /// The fewest steps that fail in the same way.
    fn shrink(&mut self, steps: Steps, kind: Kind) -> Steps {
        shrink(steps, |fewer| {
            let model = Reentrant::new(self.rules, &self.scripts);
            Sim::new(model, &mut self.server, Some(kind)).replay(fewer).0.is_some()
        })
    }

    fn tell(&mut self, steps: &Steps, kind: Kind) -> String {
        format!("{} steps:\n{}", steps.len(), self.trace(steps, Some(kind)).join("\n"))
    }
}

/// Many schedules, none of which may go wrong.
pub(crate) fn run_all(fuzz: &mut Fuzz, test: &str) {
    let seed = number("FUZZ_SEED");
    let schedules = number("FUZZ_SCHEDULES").unwrap_or(if seed.is_some() { 1 } else { SCHEDULES });
    let first = seed.unwrap_or_else(|| fastrand::u64(..));
    let began = Instant::now();
    for seed in (0..schedules).map(|n| first.wrapping_add(n)) {
        if let (steps, Some(violation)) = fuzz.random(seed, None) {
            let shortest = fuzz.shrink(steps, violation.kind);
            let told = fuzz.tell(&shortest, violation.kind);
            let again = format!("FUZZ_SEED={seed} cargo test --test schedules {test}");
            panic!("{violation}\nin {told}\nagain: {again}");
        }
    }
    let rate = schedules as f64 / began.elapsed().as_secs_f64();
    println!("{schedules} schedules from seed {first}, {rate:.0} a second: nothing went wrong");
}

/// With a rule left out, something goes wrong in this way.
pub(crate) fn is_found(rule: Rule, kind: Kind) {
    is_found_near(0, rule, kind);
}

/// As [`is_found`], for what is rare: a search that begins at this seed is short.
pub(crate) fn is_found_near(begin: u64, rule: Rule, kind: Kind) {
    let redis = RedisServer::builder().unix_socket().start();
    let mut fuzz = Fuzz::new(&redis, Rules::without(rule));
    let mut shortest: Option<Steps> = None;
    for n in 0..BOUND {
        if n >= ENOUGH && shortest.is_some() {
            break;
        }
        if let (steps, Some(_)) = fuzz.random(begin + n, Some(kind)) {
            let steps = fuzz.shrink(steps, kind);
            if shortest.is_none() {
                println!("without {rule:?} schedule {} goes wrong", begin + n);
            }
            if shortest.as_ref().is_none_or(|shortest| steps.len() < shortest.len()) {
                shortest = Some(steps);
            }
        }
    }
    let shortest =
        shortest.unwrap_or_else(|| panic!("{BOUND} schedules without {rule:?}, and no {kind:?}"));
    println!("without {rule:?}, {}", fuzz.tell(&shortest, kind));
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value}")))
}
