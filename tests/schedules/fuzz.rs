//! Runs thousands of schedules, and reports the results.

use std::collections::BTreeMap;
use std::env;
use std::fmt::Debug;
use std::time::Instant;

use harness::RedisServer;

use crate::model::{Kind, Model, Replacement, Rules, Server, Simulation, Step, Violation, shrink};

/// Schedules in which a rule left out has to show.
const BOUND: u64 = 20_000;
/// So many schedules are searched for a short example, even when there is one already.
const ENOUGH: u64 = 30;

/// A kind of lock under test.
pub(crate) trait Fuzzed {
    type Model: Model;
    /// What can be left out.
    type Rule: Copy + Debug + PartialEq;
    /// All that is loaded once; it also tells who takes part.
    type Scripts: Clone + Send + Sync + 'static;

    /// How many schedules a script with a mistake has to go through. With all rules kept there are half as many: they are others in
    /// each run. `FUZZ_SCHEDULES` asks for another number of both.
    const SCHEDULES: u64;
    /// Patterns of the lock's keys.
    const WATCHED: &[&str];

    fn load(server: &mut Server, rules: Rules<Self::Rule>) -> Self::Scripts;

    /// Loads Redisson's scripts, whose threads take part from now on; `false`, and a line that says so, when there is no Java.
    fn invite_redisson(scripts: &mut Self::Scripts, redis: &RedisServer, test: &str) -> bool;

    /// Whether no script reckons with a TTL, whose last digits are real time: then a server in process comes to the same.
    fn is_exact(_scripts: &Self::Scripts) -> bool {
        true
    }

    /// What was seen of what Redisson's scripts are known to do: a line each.
    fn known(_scripts: &Self::Scripts) -> String {
        String::new()
    }

    /// The beginning of a schedule.
    fn model(rules: Rules<Self::Rule>, scripts: &Self::Scripts) -> Self::Model;
}

/// A server, and a model to run on it again and again.
pub(crate) struct Fuzz<F: Fuzzed> {
    server: Server,
    rules: Rules<F::Rule>,
    pub(crate) scripts: F::Scripts,
}

type Steps<F> = Vec<Step<<<F as Fuzzed>::Model as Model>::Action>>;

impl<F: Fuzzed> Fuzz<F> {
    /// Without a real server. These are the scripts of another one, if Redisson's are among them.
    pub(crate) fn in_process(
        scripts: Option<F::Scripts>,
        replacement: Option<Replacement>,
    ) -> Self {
        let mut server = Server::in_process(F::WATCHED, replacement);
        let rules = Rules::all();
        let scripts = scripts.unwrap_or_else(|| F::load(&mut server, rules));
        Self { server, rules, scripts }
    }

    /// Whether a script was called that another stands in for.
    pub(crate) fn has_run_replacement(&self) -> bool {
        self.server.has_run_replacement()
    }

    pub(crate) fn new(redis: &RedisServer, rules: Rules<F::Rule>) -> Self {
        let mut server = Server::new(redis, F::WATCHED);
        let scripts = F::load(&mut server, rules);
        Self { server, rules, scripts }
    }

    /// The same with Redisson's threads, if they are asked for; `None` when there is no Java.
    pub(crate) fn with(
        redis: &RedisServer,
        rules: Rules<F::Rule>,
        test: &str,
        redisson: bool,
    ) -> Option<Self> {
        let mut fuzz = Self::new(redis, rules);
        (!redisson || F::invite_redisson(&mut fuzz.scripts, redis, test)).then_some(fuzz)
    }

    /// A schedule drawn from this seed. With an `aim` only violations of that kind count.
    pub(crate) fn random(&mut self, seed: u64, aim: Option<Kind>) -> (Steps<F>, Option<Violation>) {
        let model = F::model(self.rules, &self.scripts);
        Simulation::new(model, &mut self.server, aim).random(seed)
    }

    /// The same schedule again, and what happens in it line by line.
    pub(crate) fn trace(&mut self, steps: &Steps<F>, aim: Option<Kind>) -> Vec<String> {
        let model = F::model(self.rules, &self.scripts);
        Simulation::traced(model, &mut self.server, aim).replay(steps).1
    }

    /// The fewest steps that fail in the same way.
    fn shrink(&mut self, steps: Steps<F>, kind: Kind) -> Steps<F> {
        shrink(steps, |fewer| {
            let model = F::model(self.rules, &self.scripts);
            Simulation::new(model, &mut self.server, Some(kind)).replay(fewer).0.is_some()
        })
    }

    fn tell(&mut self, steps: &Steps<F>, kind: Kind) -> String {
        format!("{} steps:\n{}", steps.len(), self.trace(steps, Some(kind)).join("\n"))
    }
}

/// Many schedules, none of which may go wrong; on a server in process they come to the same.
pub(crate) fn run_all<F: Fuzzed>(test: &str, redisson: bool) {
    let redis = RedisServer::builder().unix_socket().start();
    let Some(mut fuzz) = Fuzz::<F>::with(&redis, Rules::all(), test, redisson) else { return };
    let seed = number("FUZZ_SEED");
    let schedules =
        number("FUZZ_SCHEDULES").unwrap_or(if seed.is_some() { 1 } else { F::SCHEDULES / 2 });
    let first = seed.unwrap_or_else(|| fastrand::u64(..));
    if F::is_exact(&fuzz.scripts) {
        fuzz.server.mirror();
    }
    let began = Instant::now();
    for seed in (0..schedules).map(|n| first.wrapping_add(n)) {
        if let (steps, Some(violation)) = fuzz.random(seed, None) {
            let shortest = fuzz.shrink(steps, violation.kind);
            let told = fuzz.tell(&shortest, violation.kind);
            let again = format!("FUZZ_SEED={seed} cargo test --test schedules {test}");
            panic!("{violation}\nin {told}\nagain: {again}");
        }
        if let Some(difference) = fuzz.server.difference() {
            panic!("seed {seed}: the server in process differs: {difference}");
        }
    }
    let rate = schedules as f64 / began.elapsed().as_secs_f64();
    println!("{schedules} schedules from seed {first}, {rate:.0} a second: nothing went wrong");
    let known = F::known(&fuzz.scripts);
    if !known.is_empty() {
        println!("seen, and no violation:{known}");
    }
}

/// How many schedules go wrong, and in which way first; for the record.
pub(crate) fn tell_how_often<F: Fuzzed>(fuzz: &mut Fuzz<F>, who: &str) {
    let schedules = number("FUZZ_SCHEDULES").unwrap_or(F::SCHEDULES / 5);
    let mut found = BTreeMap::new();
    for seed in 0..schedules {
        if let Some(violation) = fuzz.random(seed, None).1 {
            *found.entry(format!("{:?}", violation.kind)).or_insert(0) += 1;
        }
    }
    println!("{who}: {schedules} schedules, of which went wrong {found:?}");
}

/// A rule left out, and what goes wrong then.
pub(crate) struct LeftOut<R> {
    pub(crate) rule: R,
    pub(crate) violation: Kind,
    /// What is rare is found soon by a search that begins at this seed.
    pub(crate) from: u64,
    /// Whether it takes threads of Redisson's.
    pub(crate) redisson: bool,
}

/// With a rule left out, something goes wrong in this way.
pub(crate) fn is_found<F: Fuzzed>(test: &str, left_out: &LeftOut<F::Rule>) {
    let LeftOut { rule, violation: kind, from: begin, redisson } = *left_out;
    let redis = RedisServer::builder().unix_socket().start();
    let Some(mut fuzz) = Fuzz::<F>::with(&redis, Rules::without(rule), test, redisson) else {
        return;
    };
    let mut shortest: Option<Steps<F>> = None;
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

/// The tests of a kind of lock: with all rules no schedule fails, and without one rule some schedule does.
macro_rules! schedules {
    ($of:ty {
        all kept: $kept:ident;
        all kept, with Redisson: $beside:ident;
        $($left_out:tt)*
    }) => {
        #[test]
        fn $beside() {
            $crate::fuzz::run_all::<$of>(stringify!($beside), true);
        }

        $crate::fuzz::schedules!($of {
            all kept: $kept;
            $($left_out)*
        });
    };
    ($of:ty {
        all kept: $kept:ident;
        $($test:ident: $rule:ident, $violation:ident $(, from $seed:literal)? $(, with $who:ident)?;)*
    }) => {
        #[test]
        fn $kept() {
            $crate::fuzz::run_all::<$of>(stringify!($kept), false);
        }

        $(#[test]
        fn $test() {
            let left_out = $crate::fuzz::LeftOut {
                rule: super::rules::Rule::$rule,
                violation: $crate::model::Kind::$violation,
                from: [$($seed,)? 0][0],
                redisson: [$(stringify!($who) == "Redisson",)? false][0],
            };
            $crate::fuzz::is_found::<$of>(stringify!($test), &left_out);
        })*
    };
}

pub(crate) use schedules;

pub(crate) fn number(variable: &str) -> Option<u64> {
    let value = env::var(variable).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{variable} is a number, not {value}")))
}
