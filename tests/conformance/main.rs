//! One suite of scenarios for two peers, run over every mix of them.
//!
//! A test is named `kind::scenario::mix`, where the mix `rust_java` has Rust in the role of A and Java in that of B.
//! `java_java` proves that a scenario tells the truth about Redisson; the others prove this crate. Filters work as ever:
//! `cargo test --test conformance java_java`. Without a JVM the Java mixes are skipped, or fail with `REQUIRE_JAVA=1`.
//!
//! All tests share one server, and one peer in each role and language; each has a lock name and owners of its own.
//! A scenario that kills or pauses a peer starts that peer for itself.

mod crashes;
mod exclusion;
mod fair;
mod fenced;
mod holds;
mod kind;
mod leases;
mod multi;
mod names;
mod non_reentrant;
mod pair;
mod read_write;
mod scenario;
mod spin;
mod stage;
mod waiting;

use std::process::ExitCode;
use std::sync::Arc;

use harness::{Lang, PeerError, java_is_required, skip_or_panic};
use libtest_mimic::{Arguments, Trial};

use scenario::{Mix, Scenario, Test};
use stage::Stage;

/// Most scenarios wait most of the time.
const THREADS: usize = 6;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);

    let stage = Arc::new(Stage::new());
    let java_missing = is_java_wanted(&arguments).then(|| java_missing(&stage)).flatten();
    let trials = tests().map(|test| match &java_missing {
        Some(why) if test.mix.needs(Lang::Java) => skipped(&test, &arguments, why),
        _ => trial(test, &stage),
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Mix by mix, so that a peer that does not work shows at once.
fn tests() -> impl Iterator<Item = Test> {
    Mix::ALL.into_iter().flat_map(|mix| scenarios().flat_map(move |scenario| scenario.tests(mix)))
}

fn scenarios() -> impl Iterator<Item = &'static Scenario> {
    [
        exclusion::SCENARIOS,
        holds::SCENARIOS,
        waiting::SCENARIOS,
        leases::SCENARIOS,
        crashes::SCENARIOS,
        names::SCENARIOS,
        fair::SCENARIOS,
        read_write::SCENARIOS,
        fenced::SCENARIOS,
        non_reentrant::SCENARIOS,
        spin::SCENARIOS,
        multi::SCENARIOS,
    ]
    .into_iter()
    .flatten()
}

fn trial(test: Test, stage: &Arc<Stage>) -> Trial {
    let stage = Arc::clone(stage);
    Trial::test(test.name(), move || {
        stage.run(&test);
        Ok(())
    })
}

/// A test that cannot be run: ignored aloud, or a failure if it must not be.
fn skipped(test: &Test, arguments: &Arguments, why: &str) -> Trial {
    let (name, why) = (test.name(), why.to_owned());
    if java_is_required() {
        return Trial::test(name, move || Err(format!("REQUIRE_JAVA=1, but {why}").into()));
    }
    if is_wanted(arguments, &name) {
        skip_or_panic(&name, &why);
    }
    Trial::test(name, move || Err(why.into())).with_ignored_flag(true)
}

/// Whether a test that needs Java is going to be run.
fn is_java_wanted(arguments: &Arguments) -> bool {
    !arguments.list
        && tests().any(|test| test.mix.needs(Lang::Java) && is_wanted(arguments, &test.name()))
}

/// Whether the filters of the command line leave this test in.
fn is_wanted(arguments: &Arguments, name: &str) -> bool {
    let is_named = |filter: &String| {
        if arguments.exact { name == filter } else { name.contains(filter) }
    };
    arguments.filter.as_ref().is_none_or(is_named) && !arguments.skip.iter().any(is_named)
}

/// Why there is no Java peer, when there is none.
fn java_missing(stage: &Stage) -> Option<String> {
    match stage.try_java() {
        Ok(()) => None,
        Err(PeerError::Unavailable(why)) => Some(why),
        Err(error) => panic!("the Java peer does not start: {error}"),
    }
}
