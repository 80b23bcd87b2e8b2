//! Runs schedules by the thousand, and tells what it found.

use std::env;
use std::fmt::Debug;
use std::time::Instant;

use harness::{RedisServer, redis};

use crate::sim::{Kind, Model, Server, Sim, Step, Violation, shrink};

/// Schedules with Redisson alone.
const COUNTED: u64 = 500;
/// Schedules in which a rule left out has to show.
const BOUND: u64 = 20_000;
/// So many schedules are searched for a short example, even when there is one already.
const ENOUGH: u64 = 60;

/// A kind of lock under test: what its models are made from, again and again.
pub(crate) trait Subject: Sized {
    type Model: Model;
    /// What can be left out.
    type Rule: Copy + Debug;
    /// The keys that are watched.
    const WATCHED: &[&str];
    /// Schedules with all rules kept, when nothing else is asked for.
    const SCHEDULES: u64;

    /// All rules are kept, or all but one.
    fn load(server: &mut Server, without: Option<Self::Rule>) -> Self;

    /// The model at the beginning of a schedule.
    fn model(&self) -> Self::Model;
}

/// A server, and a model to run on it again and again.
pub(crate) struct Fuzz<S> {
    server: Server,
    subject: S,
}

type Steps<S> = Vec<Step<<<S as Subject>::Model as Model>::Action>>;

impl<S: Subject> Fuzz<S> {
    pub(crate) fn new(redis: &RedisServer, without: Option<S::Rule>) -> Self {
        let client = redis::Client::open(redis.unix_url()).expect("the server's address");
        let connection = client.get_connection().expect("a connection");
        let mut server = Server::new(connection, S::WATCHED);
        let subject = S::load(&mut server, without);
        Self { server, subject }
    }

    /// The same with other players: Redisson's threads take part, say.
    pub(crate) fn with(mut self, change: impl FnOnce(&mut S)) -> Self {
        change(&mut self.subject);
        self
    }

    /// A schedule drawn from this seed. With an `aim` only violations of that kind count.
    pub(crate) fn random(&mut self, seed: u64, aim: Option<Kind>) -> (Steps<S>, Option<Violation>) {
        Sim::new(self.subject.model(), &mut self.server, aim).random(seed)
    }

    /// The same schedule again, and what happens in it line by line.
    pub(crate) fn trace(&mut self, steps: &Steps<S>, aim: Option<Kind>) -> Vec<String> {
        Sim::traced(self.subject.model(), &mut self.server, aim).replay(steps).1
    }

    /// The fewest steps that fail in the same way.
    fn shrink(&mut self, steps: Steps<S>, kind: Kind) -> Steps<S> {
        shrink(steps, |fewer| {
            let model = self.subject.model();
            Sim::new(model, &mut self.server, Some(kind)).replay(fewer).0.is_some()
        })
    }

    fn tell(&mut self, steps: &Steps<S>, kind: Kind) -> String {
        format!("{} steps:\n{}", steps.len(), self.trace(steps, Some(kind)).join("\n"))
    }
}

/// Many schedules, none of which may go wrong.
pub(crate) fn run_all<S: Subject>(fuzz: &mut Fuzz<S>, test: &str) {
    let (first, schedules) = asked_for(S::SCHEDULES);
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

/// In how many schedules something goes wrong in one of these ways, for the record.
pub(crate) fn count_all<S: Subject>(fuzz: &mut Fuzz<S>, kinds: &[Kind]) {
    let (first, schedules) = asked_for(COUNTED);
    for kind in kinds {
        let seeds = (0..schedules).map(|n| first.wrapping_add(n));
        let found = seeds.filter(|seed| fuzz.random(*seed, Some(*kind)).1.is_some()).count();
        println!("{kind:?} in {found} of {schedules} schedules from seed {first}");
    }
}

/// With a rule left out, something goes wrong in this way.
pub(crate) fn is_found<S: Subject>(rule: S::Rule, kind: Kind) {
    is_found_near::<S>(0, rule, kind);
}

/// As [`is_found`], for what is rare: a search that begins at this seed is short.
pub(crate) fn is_found_near<S: Subject>(begin: u64, rule: S::Rule, kind: Kind) {
    let redis = RedisServer::builder().unix_socket().start();
    is_found_by(&mut Fuzz::<S>::new(&redis, Some(rule)), begin, rule, kind);
}

/// As [`is_found_near`], with these players.
pub(crate) fn is_found_by<S: Subject>(fuzz: &mut Fuzz<S>, begin: u64, rule: S::Rule, kind: Kind) {
    let mut shortest: Option<Steps<S>> = None;
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

/// The first seed, and how many.
fn asked_for(default: u64) -> (u64, u64) {
    let seed = number("FUZZ_SEED");
    let schedules = number("FUZZ_SCHEDULES").unwrap_or(if seed.is_some() { 1 } else { default });
    (seed.unwrap_or_else(|| fastrand::u64(..)), schedules)
}

fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value}")))
}
