use futures::FutureExt;

use super::{head::BREATH, *};
use crate::engine::Wakeups;

async fn enter(queue: &Queue) -> Result<Option<Turn<'_>>, Error> {
    queue.enter(Replicas::None, || Ok(()), || ()).await
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_and_a_cancelled_one_is_passed_over() {
    let queue = Queue::default();
    let first = enter(&queue).await.unwrap().unwrap();
    let mut second = Box::pin(enter(&queue));
    let mut third = Box::pin(enter(&queue));
    assert!((&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    drop(second);
    drop(first);
    assert!(third.now_or_never().is_some());
    assert!(queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_last_to_leave_gives_the_subscription_back() {
    let queue = Queue::default();
    let wakeups = Wakeups::new();
    let mut first = enter(&queue).await.unwrap().unwrap();
    first.listen(&wakeups, "c").await;
    let mut second = Box::pin(enter(&queue));
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    assert!(wakeups.is_subscribed("c"), "kept for the next");
    drop(second);
    assert!(!wakeups.is_subscribed("c"));
}

#[tokio::test(start_paused = true)]
async fn a_message_the_head_did_not_follow_wakes_the_next() {
    let queue = Queue::default();
    let wakeups = Wakeups::new();
    let mut first = enter(&queue).await.unwrap().unwrap();
    let mut second = Box::pin(enter(&queue));
    assert!((&mut second).now_or_never().is_none());
    first.listen(&wakeups, "c").await;
    first.arm();
    first.held_for(None, None);
    assert!(!first.must_look());
    wakeups.take(crate::wire::Event::Message("c".into()));
    drop(first);
    let mut second = second.await.unwrap().unwrap();
    assert!(second.must_look());
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_found_out_once_for_all_who_wait() {
    let queue = Arc::new(Queue::default());
    let mut first = enter(&queue).await.unwrap().unwrap();
    let mut second = Box::pin(enter(&queue));
    assert!((&mut second).now_or_never().is_none());
    tokio::time::advance(Duration::from_secs(10)).await;
    first.fail(Error::Redis(RedisError::new("gone")), Replicas::None);
    drop(first);
    assert!(matches!(second.await, Err(Error::Redis(_))));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(enter(&queue).await.is_ok(), "a later one tries for itself");
}

#[tokio::test(start_paused = true)]
async fn a_ttl_of_zero_is_no_reason_to_spin() {
    let queue = Queue::default();
    let mut turn = enter(&queue).await.unwrap().unwrap();
    turn.held_for(Some(Duration::ZERO), None);
    assert!(!turn.must_look());
    let begun = Instant::now();
    turn.news().await;
    assert!(begun.elapsed() >= BREATH);
}

#[tokio::test(start_paused = true)]
async fn once_the_line_is_open_all_who_waited_may_try_and_newcomers_wait() {
    let queue = Queue::default();
    let mut first = enter(&queue).await.unwrap().unwrap();
    let mut second = Box::pin(enter(&queue));
    let mut third = Box::pin(enter(&queue));
    assert!((&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    tokio::time::advance(Duration::from_millis(1)).await;
    first.open();
    drop(first);
    assert!(second.await.unwrap().is_none());
    assert!(third.await.unwrap().is_none());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(enter(&queue).await.unwrap().is_some());
}
