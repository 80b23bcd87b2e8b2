//! The warnings that the crate writes to the log.

use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex};

use harness::{PATIENCE, eventually};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Each in a line.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

/// Collects the warnings of this thread for as long as the guard lives. Only for tests that have but one thread.
pub(crate) fn listen() -> (Warnings, tracing::subscriber::DefaultGuard) {
    let warnings = Warnings::default();
    let guard = tracing::subscriber::set_default(warnings.clone());
    (warnings, guard)
}

impl Warnings {
    /// How many lines have this in them.
    pub(crate) fn count(&self, part: &str) -> usize {
        let lines = self.0.lock().unwrap();
        lines.iter().filter(|line| line.contains(part)).count()
    }

    pub(crate) fn assert_without(&self, part: &str) {
        assert_eq!(self.count(part), 0, "{:?}", self.0.lock().unwrap());
    }

    /// Waits for a line with all of this in it.
    pub(crate) async fn eventually_has(&self, parts: &[&str]) {
        eventually(PATIENCE, &format!("a warning with {parts:?}"), || {
            let lines = self.0.lock().unwrap();
            let has_all = |line: &String| parts.iter().all(|part| line.contains(part));
            lines.iter().any(has_all).then_some(())
        })
        .await;
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[derive(Default)]
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
