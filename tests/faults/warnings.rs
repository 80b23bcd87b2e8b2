//! The log lines of the crate and of the libraries below it.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::{Arc, Mutex, Once};

use harness::{PATIENCE, eventually};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Each in a line.
#[derive(Clone)]
pub(crate) struct Warnings {
    lines: Arc<Mutex<Vec<String>>>,
    /// Not the crate's own alone, and not warnings alone.
    everything: bool,
}

thread_local! {
    static HEARD: RefCell<Option<Warnings>> = const { RefCell::new(None) };
}

/// Collects the warnings of this thread from now on: of all, in a test that has but one thread.
pub(crate) fn listen() -> Warnings {
    listen_to(false)
}

/// Collects all that is written to the log by this thread from now on, by this crate and by others, each line with its
/// level before it.
pub(crate) fn listen_to_everything() -> Warnings {
    listen_to(true)
}

fn listen_to(everything: bool) -> Warnings {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // One for all threads, and from the start: what was once found to interest nobody is not asked for again.
        tracing::subscriber::set_global_default(Listener).expect("the only one");
        tracing::callsite::rebuild_interest_cache();
        log::set_logger(&Listener).expect("the only one");
        log::set_max_level(log::LevelFilter::Trace);
    });
    let warnings = Warnings { lines: Arc::default(), everything };
    HEARD.with_borrow_mut(|heard| heard.insert(warnings).clone())
}

fn hear(everything: bool, line: impl FnOnce() -> String) {
    // A thread may log while it ends.
    let _ = HEARD.try_with(|heard| {
        if let Some(warnings) = &*heard.borrow()
            && (warnings.everything || !everything)
        {
            warnings.lines.lock().unwrap().push(line());
        }
    });
}

struct Listener;

impl Warnings {
    /// How many lines have this in them.
    pub(crate) fn count(&self, part: &str) -> usize {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter(|line| line.contains(part)).count()
    }

    pub(crate) fn assert_without(&self, part: &str) {
        let lines = self.lines.lock().unwrap();
        let found: Vec<_> = lines.iter().filter(|line| line.contains(part)).collect();
        assert!(found.is_empty(), "{found:#?}");
    }

    pub(crate) fn assert_without_any(&self, parts: &[String]) {
        let lines = self.lines.lock().unwrap().join("\n");
        for part in parts {
            let found = lines.find(part.as_str());
            assert_eq!(found, None, "{:?}", found.map(|at| &lines[at.saturating_sub(300)..]));
        }
    }

    /// Waits for a line with all of this in it.
    pub(crate) async fn eventually_has(&self, parts: &[&str]) {
        eventually(PATIENCE, &format!("a warning with {parts:?}"), || {
            let lines = self.lines.lock().unwrap();
            let has_all = |line: &String| parts.iter().all(|part| line.contains(part));
            lines.iter().any(has_all).then_some(())
        })
        .await;
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event()
    }

    fn event(&self, event: &Event<'_>) {
        let level = *event.metadata().level();
        hear(level > Level::WARN, || {
            let mut line = Line(format!("{level} "));
            event.record(&mut line);
            line.0
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

/// fred and others do not use `tracing`.
impl log::Log for Listener {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        hear(true, || format!("{} {}: {}", record.level(), record.target(), record.args()));
    }

    fn flush(&self) {}
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}
