//! Runs one test.

use std::sync::Arc;
use std::time::Duration;

use crate::pair::Pair;
use crate::scenario::Test;
use crate::stage::Stage;

/// A whole scenario.
const SCENARIO_LIMIT: Duration = Duration::from_secs(120);

/// Runs a test to its end and looks that nothing is left of it.
pub(crate) fn run(stage: &Arc<Stage>, test: &Test) {
    stage.block_on(async {
        // Not counted: the first start of a peer may have to build it.
        let name = format!("conformance/{}/{}/{}", test.kind.name(), test.scenario.name, test.mix);
        let pair = Pair::new(stage, test.mix, test.kind, name).await;
        let story = tokio::time::timeout(SCENARIO_LIMIT, (test.scenario.run)(&pair));
        story.await.unwrap_or_else(|_| panic!("not over after {SCENARIO_LIMIT:?}"));
        pair.assert_nothing_left().await;
    });
}
