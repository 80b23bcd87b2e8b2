//! Writes the history of this process: one line an event, at once, so that a kill loses nothing.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use judge::{Answer, Call, Event, History, Nanos, What};
use nix::time::{ClockId, clock_gettime};

#[derive(Debug)]
pub(crate) struct Recorder {
    process: String,
    file: Mutex<File>,
    operations: AtomicU64,
    guards: AtomicU64,
}

/// The clock that all processes of one machine share.
pub(crate) fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a monotonic clock");
    let nanos = i128::from(time.tv_sec()) * 1_000_000_000 + i128::from(time.tv_nsec());
    nanos.try_into().expect("a clock that has run for less than 500 years")
}

impl Recorder {
    pub(crate) fn new(process: String, path: &Path) -> io::Result<Self> {
        let mut file = File::create(path)?;
        file.write_all(History::default().to_lines().as_bytes())?;
        let (operations, guards) = (AtomicU64::new(1), AtomicU64::new(1));
        Ok(Self { process, file: Mutex::new(file), operations, guards })
    }

    pub(crate) fn note(&self, what: What) {
        self.note_at(now(), what);
    }

    pub(crate) fn note_at(&self, at: Nanos, what: What) {
        let event = Event { at, process: self.process.clone(), what };
        let mut line = serde_json::to_vec(&event).expect("an event as JSON");
        line.push(b'\n');
        let mut file = self.file.lock().expect("the history");
        file.write_all(&line).expect("a file that can be written to");
    }

    pub(crate) fn guard(&self) -> u64 {
        self.guards.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed) - 1
    }

    pub(crate) fn invoke(&self, call: Call) -> u64 {
        let op = self.operations.fetch_add(1, Ordering::Relaxed);
        self.note(What::Invoke { op, call });
        op
    }

    pub(crate) async fn operation(&self, call: Call, work: impl Future<Output = Answer>) {
        let op = self.invoke(call);
        let answer = work.await;
        self.note(What::Answer { op, answer });
    }
}
