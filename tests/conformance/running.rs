//! Runs one test.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use harness::{Lang, control};

use crate::pair::Pair;
use crate::scenario::Test;
use crate::shared::Shared;

/// A whole scenario.
const SCENARIO_LIMIT: Duration = Duration::from_secs(120);

/// Runs a test to its end and looks that nothing is left of it.
pub(crate) fn run(shared: &Arc<Shared>, test: &Test) {
    let tries = Cell::new(0);
    let attempt = || {
        // What a try that failed has left is not in the way of the next.
        tries.set(tries.get() + 1);
        shared.block_on(run_once(shared, test, tries.get()));
    };
    match test.mix.needs(Lang::Rust) {
        true => attempt(),
        false => control(&test.name(), attempt),
    }
}

async fn run_once(shared: &Arc<Shared>, test: &Test, attempt: u32) {
    let Test { scenario, kind, mix, .. } = test;
    let lock = format!("conformance/{}/{}/{mix}/{attempt}", kind.name(), scenario.name);
    // Not counted: the first start of a peer may have to build it.
    let pair = Pair::new(shared, *mix, *kind, lock).await;
    let story = tokio::time::timeout(SCENARIO_LIMIT, (scenario.run)(&pair));
    story.await.unwrap_or_else(|_| panic!("not over after {SCENARIO_LIMIT:?}"));
    pair.assert_nothing_left().await;
}
