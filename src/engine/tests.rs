use super::{
    scripted::{Scripted, engine},
    *,
};
use crate::observer::LockKind;

#[tokio::test(start_paused = true)]
async fn a_failed_release_is_repeated_unless_that_is_useless() {
    let engine = engine(&Arc::default());
    let (now, mut backoff) = (Instant::now(), Backoff::new());
    let end = now + Duration::from_secs(60);
    let odd = engine.retry_even_if_refused(WireError::WrongType, &mut backoff, end).await;
    assert!(matches!(odd, Err(WireError::WrongType)));
    let refused =
        engine.retry_even_if_refused(WireError::from_server("OOM"), &mut backoff, end).await;
    assert!(refused.is_ok() && Instant::now() > now);
}

#[tokio::test(start_paused = true)]
async fn where_no_server_replaces_another_no_release_is_kept() {
    let engine = engine(&Arc::default());
    let protocol = LockKind::Reentrant.protocol("l", &engine.settings);
    assert_eq!(engine.server_for_release(&*protocol), None);
}

#[tokio::test(start_paused = true)]
async fn the_time_of_the_servers_is_asked_for_again_and_again_until_the_client_is_closed() {
    let transport = Arc::new(Scripted::default());
    let engine = engine(&transport);
    let kept = || *transport.times_kept.lock().unwrap();
    sleep(10 * CLOCK_INTERVAL + CLOCK_INTERVAL / 2).await;
    assert_eq!(kept(), 10);
    engine.close().await.unwrap();
    sleep(10 * CLOCK_INTERVAL).await;
    assert_eq!(kept(), 10);
}

#[tokio::test(start_paused = true)]
async fn waiters_are_told_when_the_closing_begins() {
    let engine = engine(&Arc::default());
    let busy = engine.janitor.busy();
    let told = engine.closing();
    let closing = engine.close();
    tokio::pin!(told, closing);
    assert!(futures::poll!(&mut told).is_pending() && futures::poll!(&mut closing).is_pending());
    assert!(matches!(timeout(Duration::from_millis(1), told).await, Ok(Error::Closed)));
    assert!(futures::poll!(&mut closing).is_pending());
    drop(busy);
    closing.await.unwrap();
    assert!(engine.check_open().is_err());
}
