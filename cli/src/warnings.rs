//! [`Warnings`]: what the library warns of, on stderr.

use std::{
    collections::HashSet,
    fmt,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
    subscriber::set_global_default,
};

use crate::outcome::note;

/// What is said elsewhere: that the lock was lost or not released, by `run`; that locks may be evicted, by `doctor`.
/// Who cannot announce itself needs no warning.
const SAID_ELSEWHERE: [&str; 5] = [
    "redisson_lock::engine::lease",
    "redisson_lock::locking::baton",
    "redisson_lock::locking::hold::release",
    "redisson_lock::wire::eviction",
    "redisson_lock::engine::announcer",
];

/// What is of no interest any more when the client is being closed.
const OF_WAITERS: &str = "redisson_lock::engine::subscriptions";

static CLOSES: AtomicBool = AtomicBool::new(false);

/// Tells the warnings of the library, each sentence once.
#[derive(Debug)]
struct Warnings {
    json: bool,
    told: Mutex<HashSet<String>>,
}

/// From now on they are told.
pub(crate) fn tell(json: bool) {
    // There is no other one.
    let _ = set_global_default(Warnings { json, told: Mutex::default() });
}

/// The client is about to be closed: nobody waits any more.
pub(crate) fn closing() {
    CLOSES.store(true, Ordering::Relaxed);
}

impl Subscriber for Warnings {
    fn enabled(&self, it: &Metadata<'_>) -> bool {
        it.is_event()
            && *it.level() <= Level::WARN
            && it.target().starts_with("redisson_lock::")
            && !SAID_ELSEWHERE.contains(&it.target())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        if CLOSES.load(Ordering::Relaxed) && event.metadata().target().starts_with(OF_WAITERS) {
            return;
        }
        let mut sentence = Sentence::default();
        event.record(&mut sentence);
        let words = sentence.words();
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(words.clone()) {
            note(words, self.json);
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The parts of a warning.
#[derive(Debug, Default)]
struct Sentence {
    message: String,
    details: Vec<String>,
    error: String,
}

impl Visit for Sentence {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "error" => self.error = format!(": {value:?}"),
            name => self.details.push(format!("{name} {value:?}")),
        }
    }
}

impl Sentence {
    fn words(self) -> String {
        let Self { message, details, error } = self;
        match &details[..] {
            [] => format!("{message}{error}"),
            details => format!("{message} ({}){error}", details.join(", ")),
        }
    }
}
