//! The warnings that the crate writes to the log.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, Once};

use harness::{PATIENCE, eventually};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Each in a line.
#[derive(Clone, Default)]
pub(crate) struct Warnings(Arc<Mutex<Vec<String>>>);

thread_local! {
    static HEARD: RefCell<Option<Warnings>> = const { RefCell::new(None) };
}

/// Collects the warnings of this thread from now on: of all, in a test that has but one thread.
pub(crate) fn listen() -> Warnings {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // One for all threads, and from the start: what was once found to interest nobody is not asked for again.
        tracing::subscriber::set_global_default(Listener).expect("the only one");
        tracing::callsite::rebuild_interest_cache();
    });
    HEARD.with_borrow_mut(|heard| heard.insert(Warnings::default()).clone())
}

struct Listener;

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

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && *metadata.level() <= Level::WARN
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        HEARD.with_borrow(|heard| {
            if let Some(Warnings(lines)) = heard {
                lines.lock().unwrap().push(line.0);
            }
        });
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
