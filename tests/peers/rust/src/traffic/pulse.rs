//! Sees when the runtime of this process does not run.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use judge::{MS, What};
use tokio::time::sleep;

use super::recorder::{Recorder, now};

const BEAT: Duration = Duration::from_millis(2);
/// What a timer is late without anything being wrong.
const USUAL: u64 = 3 * MS;
/// How often it leaves a sign of life.
const SIGN: u64 = 10 * MS;

/// Writes down each time in which it should have run and did not: no user believed anything then. In this file is the
/// last moment at which it ran: a process that is killed while it does not run writes nothing more.
pub(crate) async fn watch(recorder: Arc<Recorder>, path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    let mut signed = 0;
    // From one beat to the next, so that no time is left out: it may be stopped while it writes, too.
    let mut beat = now();
    loop {
        sleep(BEAT).await;
        let (before, after) = (beat, now());
        beat = after;
        if after - before > 2 * MS + USUAL {
            recorder.note_at(before + 2 * MS, What::Pause);
            recorder.note_at(after, What::Resume);
        }
        if after - signed >= SIGN {
            signed = after;
            file.rewind()?;
            file.write_all(&after.to_le_bytes())?;
        }
    }
}
