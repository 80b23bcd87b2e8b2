use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use tokio::time::advance;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
    subscriber::with_default,
};

use super::*;
use crate::locking::line::tests::Remote;

/// Notes what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0.lock().unwrap().push(format!("{value:?}"));
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// How often each word was in a warning of one who looked each second for so many.
async fn warned<const N: usize>(
    warnings: &mut WaitWarnings,
    lock: &Remote,
    seconds: u64,
    words: [&str; N],
) -> [usize; N] {
    let log = Log::default();
    for _ in 0..seconds {
        advance(Duration::from_secs(1)).await;
        with_default(log.clone(), || warnings.warn(lock));
    }
    let lines = log.0.lock().unwrap();
    words.map(|word| lines.iter().filter(|line| line.contains(word)).count())
}

const WORDS: [&str; 3] = ["this client holds", "without a TTL", "still waiting"];

#[tokio::test(start_paused = true)]
async fn a_long_wait_is_told_after_30_seconds_and_each_time_it_has_doubled() {
    let (mut warnings, lock) = (WaitWarnings::new(), Remote::new());
    let mut told = Vec::new();
    for second in 1..=250 {
        if warned(&mut warnings, &lock, 1, WORDS).await == [0, 0, 1] {
            told.push(second);
        }
    }
    assert_eq!(told, [30, 60, 120, 240]);
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_what_this_client_holds_is_told_once_after_5_seconds() {
    let (mut warnings, mut lock) = (WaitWarnings::new(), Remote::new());
    assert_eq!(warned(&mut warnings, &lock, 10, WORDS).await, [0, 0, 0]);
    lock.holds = 1;
    assert_eq!(warned(&mut warnings, &lock, 1, WORDS).await, [1, 0, 0]);
    assert_eq!(warned(&mut warnings, &lock, 10, WORDS).await, [0, 0, 0]);
    let mut warnings = WaitWarnings::new();
    assert_eq!(warned(&mut warnings, &lock, 4, WORDS).await, [0, 0, 0]);
    assert_eq!(warned(&mut warnings, &lock, 1, WORDS).await, [1, 0, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_key_without_a_ttl_is_told_once() {
    let (mut warnings, lock) = (WaitWarnings::new(), Remote::new());
    assert_eq!(warned(&mut warnings, &lock, 1, WORDS).await, [0, 0, 0]);
    warnings.held(Some(Duration::from_secs(1)));
    assert_eq!(warned(&mut warnings, &lock, 1, WORDS).await, [0, 0, 0]);
    warnings.held(None);
    assert_eq!(warned(&mut warnings, &lock, 1, WORDS).await, [0, 1, 0]);
    assert_eq!(warned(&mut warnings, &lock, 1, WORDS).await, [0, 0, 0]);
}
