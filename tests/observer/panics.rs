//! An observer that panics breaks nothing.

use std::{panic, sync::Once};

use harness::{RedisServer, assert_nothing_left, soon};
use redisson_lock::{
    Client, Config, Loss,
    observer::{AcquireEnded, HoldBegun, HoldEnded, Observer, ReleaseFailed, Renewal, WaitBegun},
};

use crate::tally::Tally;

/// Panics at each event, after it was counted.
struct Panics;

const WORDS: &str = "an observer's mistake";

impl Observer for Panics {
    fn wait_begun(&self, _: &WaitBegun<'_>) {
        panic!("{WORDS}");
    }

    fn acquire_ended(&self, _: &AcquireEnded<'_>) {
        panic!("{WORDS}");
    }

    fn hold_begun(&self, _: &HoldBegun<'_>) {
        panic!("{WORDS}");
    }

    fn hold_ended(&self, _: &HoldEnded<'_>) {
        panic!("{WORDS}");
    }

    fn renewed(&self, _: &Renewal<'_>) {
        panic!("{WORDS}");
    }

    fn release_failed(&self, _: &ReleaseFailed<'_>) {
        panic!("{WORDS}");
    }
}

/// Leaves the expected panics out of the output.
fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let text = info.payload().downcast_ref::<String>().map(String::as_str);
            let words = info.payload().downcast_ref::<&str>().copied().or(text);
            if words != Some(WORDS) {
                hook(info);
            }
        }));
    });
}

#[tokio::test]
async fn an_observer_that_panics_breaks_nothing_and_is_told_the_next_event() {
    quiet();
    let server = RedisServer::start();
    let tally = Tally::default();
    let config = Config::from_url(server.url()).unwrap();
    let config = config.watchdog(std::time::Duration::from_secs(6));
    let client = Client::connect(config.observer((tally.clone(), Panics))).await.unwrap();
    let lock = client.lock("order:42");
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let lock = lock.clone();
        workers.spawn(async move {
            for _ in 0..20 {
                lock.lock().await.unwrap().unlock().await.unwrap();
            }
        });
    }
    while let Some(ended) = soon("for the workers to end", workers.join_next()).await {
        ended.unwrap();
    }
    assert_eq!(tally.of("holds"), 160);
    // The watchdog's task outlives a panic too: a renewal comes, and then one that finds a loss.
    let guard = lock.lock().await.unwrap();
    harness::eventually(harness::PATIENCE, "a renewal", || (tally.of("renewed") > 0).then_some(()))
        .await;
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    assert!(guard.unlock().await.is_err());
    soon("to close", client.close()).await.unwrap();
    assert_nothing_left(&server).await;
    tally.assert_over();
}
