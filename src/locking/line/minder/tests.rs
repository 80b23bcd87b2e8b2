use std::sync::atomic::Ordering;

use futures::FutureExt;
use tokio::{task::yield_now, time::advance};

use super::*;
use crate::locking::line::{
    head::Head,
    tests::{Remote, enter, head},
};

/// Shows that the head is polled.
fn poll(head: &Head<'_, Remote>) {
    assert!(head.showing(async {}.boxed()).now_or_never().is_some());
}

/// Time passes, and what is due is done. The process stands still meanwhile if that is more than a tick.
async fn pass(time: Duration) {
    advance(time).await;
    for _ in 0..5 {
        yield_now().await;
    }
}

/// A head that was polled until after its first tick, and one behind it.
#[tokio::test(start_paused = true)]
async fn a_head_that_is_not_polled_has_two_ticks_and_is_then_passed() {
    for polled in 0..4 {
        let lock = Remote::new();
        let first = head(&lock).await;
        let mut second = Box::pin(enter(&lock));
        assert!((&mut second).now_or_never().is_none());
        let minder = tokio::spawn(Minder::new(lock.clone()).run());
        yield_now().await;
        for _ in 0..polled {
            pass(TICK_EVERY).await;
            poll(&first);
        }
        pass(TICK_EVERY).await;
        assert!((&mut second).now_or_never().is_none(), "polled for {polled} ticks");
        pass(TICK_EVERY).await;
        assert!(!lock.emptied.load(Ordering::Relaxed), "the second is left");
        assert!((&mut second).now_or_never().is_some(), "polled for {polled} ticks");
        drop(minder);
    }
}

/// The process has not run, and so nobody was polled.
#[tokio::test(start_paused = true)]
async fn a_head_of_a_process_that_stood_still_once_keeps_its_place() {
    let lock = Remote::new();
    let first = head(&lock).await;
    let mut second = Box::pin(enter(&lock));
    assert!((&mut second).now_or_never().is_none());
    let minder = tokio::spawn(Minder::new(lock.clone()).run());
    yield_now().await;
    pass(TICK_EVERY).await;
    poll(&first);
    pass(TICK_EVERY).await;
    pass(2 * TICK_EVERY).await;
    assert!((&mut second).now_or_never().is_none());
    poll(&first);
    pass(TICK_EVERY).await;
    assert!((&mut second).now_or_never().is_none());
    minder.abort();
}
