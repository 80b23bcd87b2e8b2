//! Sees when the runtime of this process does not run.

use std::sync::Arc;
use std::time::Duration;

use judge::{MS, What};
use tokio::time::sleep;

use super::recorder::{Recorder, now};

const BEAT: Duration = Duration::from_millis(2);
/// What a timer is late without anything being wrong.
const USUAL: u64 = 3 * MS;

/// Writes down each time in which it should have run and did not: no user believed anything then.
pub(crate) async fn watch(recorder: Arc<Recorder>) {
    loop {
        let before = now();
        sleep(BEAT).await;
        let after = now();
        if after - before > 2 * MS + USUAL {
            recorder.note_at(before + 2 * MS, What::Pause);
            recorder.note_at(after, What::Resume);
        }
    }
}
