//! An observer that is not always enabled, and a recorder that is installed late.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use harness::{RedisServer, soon};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use redisson_lock::{
    Client, Config,
    metrics::MetricsObserver,
    observer::{AcquireEnded, HoldBegun, HoldEnded, Observer, WaitBegun},
};

use crate::tally::Tally;

#[derive(Default)]
struct Switched {
    on: AtomicBool,
    tally: Tally,
}

impl Observer for Switched {
    fn is_enabled(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    fn wait_begun(&self, wait: &WaitBegun<'_>) {
        self.tally.wait_begun(wait);
    }

    fn acquire_ended(&self, end: &AcquireEnded<'_>) {
        self.tally.acquire_ended(end);
    }

    fn hold_begun(&self, hold: &HoldBegun<'_>) {
        self.tally.hold_begun(hold);
    }

    fn hold_ended(&self, end: &HoldEnded<'_>) {
        self.tally.hold_ended(end);
    }
}

#[tokio::test]
async fn an_acquisition_is_told_with_its_hold_if_the_observer_is_enabled_when_it_begins() {
    let server = RedisServer::start();
    let observer = Arc::new(Switched::default());
    let config = Config::from_url(server.url()).unwrap().observer(observer.clone());
    let client = Client::connect(config).await.unwrap();
    let lock = client.lock("switched");
    let guard = lock.lock().await.unwrap();
    // It begins before the observer is enabled.
    let waiter = tokio::spawn(lock.lock().into_future());
    tokio::task::yield_now().await;
    observer.on.store(true, Ordering::Relaxed);
    guard.unlock().await.unwrap();
    let guard = soon("to be next", waiter).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    assert!(observer.tally.counts().is_empty(), "{:?}", observer.tally.counts());

    let guard = lock.lock().await.unwrap();
    observer.on.store(false, Ordering::Relaxed);
    assert!(lock.try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    let told = observer.tally.counts();
    assert_eq!(told["acquire granted"], 1, "{told:?}");
    assert_eq!(told.get("acquire busy"), None, "{told:?}");
    observer.tally.assert_over();

    // Beside others whose acquisitions are not told, and after them.
    let both = client.read_write_lock("shared");
    let one = both.read().await.unwrap();
    observer.on.store(true, Ordering::Relaxed);
    let two = both.read().await.unwrap();
    assert_eq!(one.holder(), two.holder());
    let told = observer.tally.counts();
    assert_eq!((told["acquire joined"], told["holds"]), (1, 2), "{told:?}");
    observer.on.store(false, Ordering::Relaxed);
    two.unlock().await.unwrap();
    one.unlock().await.unwrap();
    observer.tally.assert_over();

    // Of a pair, one is enough.
    let (one, two) = (Arc::new(Switched::default()), Tally::default());
    assert!(!(one.clone(), one.clone()).is_enabled());
    assert!((one.clone(), two.clone()).is_enabled() && (two, one).is_enabled());
}

/// The only test here that installs one for the whole process. Others have one for their thread.
#[tokio::test]
async fn a_recorder_that_is_installed_late_has_what_begins_from_then_on() {
    let server = RedisServer::start();
    let config = Config::from_url(server.url()).unwrap().observer(MetricsObserver::new());
    let client = Client::connect(config).await.unwrap();
    let lock = client.lock("late");
    let guard = lock.lock().await.unwrap();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    recorder.install().unwrap();
    guard.unlock().await.unwrap();
    assert!(snapshotter.snapshot().into_vec().is_empty());

    lock.lock().await.unwrap().unlock().await.unwrap();
    let mut found = Vec::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let value = match value {
            DebugValue::Counter(value) => value as f64,
            DebugValue::Gauge(value) => value.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        found.push((key.key().name().to_owned(), value));
    }
    found.sort_by(|one, two| one.0.cmp(&two.0));
    found.dedup();
    let expected = [
        ("redisson_lock.acquire.duration", 1.0),
        ("redisson_lock.hold.duration", 1.0),
        ("redisson_lock.holds", 0.0),
        ("redisson_lock.lost", 0.0),
        ("redisson_lock.release.failures", 0.0),
    ];
    assert_eq!(found, expected.map(|(name, value)| (name.to_owned(), value)));
}
