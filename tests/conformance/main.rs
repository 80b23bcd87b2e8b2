//! One suite of scenarios for two peers, run over every mix of them, on one server, on a cluster and behind sentinels, and with two
//! peers in Rust on the server in process of the module `test_util`.
//!
//! A test is named `kind::scenario::mix`, on a cluster `cluster/kind::scenario::mix`, behind sentinels
//! `sentinel/kind::scenario::mix`, and in process `in_process/kind::scenario::mix`. The mix `rust_java` has Rust in the role of A and Java in that of B. `java_java` shows that a
//! scenario is true for Redisson; the other mixes test this crate. Filters work as usual:
//! `cargo test --test conformance java_java`. Without a JVM the Java mixes are skipped, or fail with `REQUIRE_JAVA=1`.
//!
//! On one server all scenarios run. On the others only those run whose result may differ there;
//! `CONFORMANCE_EVERYWHERE=1` runs all. `-- cluster/` runs the tests on a cluster, and
//! `-- --skip cluster/ --skip sentinel/` those on one server.
//!
//! All tests of a topology share its servers, and one peer in each role and language. Each test has its own lock name and owners.
//! A scenario that kills or pauses a peer starts its own.

mod asking;
mod crashes;
mod exclusion;
mod expirable;
mod expirable_keys;
mod fair;
mod fenced;
mod holds;
mod in_process;
mod kind;
mod latch;
mod leases;
mod mix;
mod multi;
mod names;
mod non_reentrant;
mod pair;
mod read_write;
mod running;
mod scenario;
mod semaphore;
mod shared;
mod spin;
mod topology;
mod waiting;

use std::process::ExitCode;
use std::sync::Arc;

use harness::{Lang, PeerError, java_is_required, skip_or_panic};
use libtest_mimic::{Arguments, Trial};

use running::run;
use scenario::{Scenario, Test};
use shared::Shared;
use topology::Topology;

/// Most scenarios wait most of the time: so many at once keep two cores busy.
const THREADS: usize = 24;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);

    topology::check(scenarios().map(|scenario| scenario.name));
    let all_shared = Topology::ALL.map(|topology| Arc::new(Shared::on(topology)));
    let java_missing = all_shared
        .iter()
        .find(|shared| is_java_wanted(shared.topology(), &arguments))
        .and_then(|shared| java_missing(shared));
    let trials: Vec<_> = all_shared
        .iter()
        .flat_map(|shared| trials(shared, &arguments, java_missing.as_deref()))
        .collect();
    // What is shared is gone when the last of its trials is over, and with it its servers and peers.
    drop(all_shared);
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(shared: &Arc<Shared>, arguments: &Arguments, java_missing: Option<&str>) -> Vec<Trial> {
    let trials = tests(shared.topology()).map(|test| match java_missing {
        Some(why) if test.mix.needs(Lang::Java) => skipped(&test, arguments, why),
        _ => trial(test, shared),
    });
    trials.collect()
}

/// Mix by mix, so that a peer that does not work shows at once.
fn tests(topology: Topology) -> impl Iterator<Item = Test> {
    let of = move |mix| scenarios().flat_map(move |scenario| scenario.tests(topology, mix));
    topology.mixes().iter().copied().flat_map(of)
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
        semaphore::SCENARIOS,
        expirable::SCENARIOS,
        expirable_keys::SCENARIOS,
        latch::SCENARIOS,
        multi::SCENARIOS,
        asking::SCENARIOS,
    ]
    .into_iter()
    .flatten()
}

fn trial(test: Test, shared: &Arc<Shared>) -> Trial {
    let shared = Arc::clone(shared);
    Trial::test(test.name(), move || {
        run(&shared, &test);
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

/// Whether a test that needs Java is going to be run on this topology.
fn is_java_wanted(topology: Topology, arguments: &Arguments) -> bool {
    let is_wanted = |test: Test| test.mix.needs(Lang::Java) && is_wanted(arguments, &test.name());
    !arguments.list && tests(topology).any(is_wanted)
}

/// Whether the filters of the command line leave this test in.
fn is_wanted(arguments: &Arguments, name: &str) -> bool {
    let is_named = |filter: &String| {
        if arguments.exact { name == filter } else { name.contains(filter) }
    };
    arguments.filter.as_ref().is_none_or(is_named) && !arguments.skip.iter().any(is_named)
}

/// Why there is no Java peer, when there is none.
fn java_missing(shared: &Shared) -> Option<String> {
    match shared.try_java() {
        Ok(()) => None,
        Err(PeerError::Unavailable(why)) => Some(why),
        Err(error) => panic!("the Java peer does not start: {error}"),
    }
}
