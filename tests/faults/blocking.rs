//! Work that blocks its thread, so that it cannot be told of a loss.

use std::time::Duration;

use redisson_lock::Loss;

use crate::stage::{LOCK, Stage, why_not_held};

#[tokio::test]
async fn work_that_blocked_past_its_lease_is_not_taken_for_done() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let lease = Duration::from_millis(1_500);
    let guard = client.lock(LOCK).lock().lease(lease).await.unwrap();
    let worked = guard.while_held(async { std::thread::sleep(lease) }).await;
    assert_eq!(why_not_held(worked), Loss::Expired);
    drop(guard);
    stage.end([client]).await;
}
