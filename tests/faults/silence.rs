//! A network that drops everything silently.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use redisson_lock::{Config, Error, Loss};

use crate::stage::{
    LOCK, Stage, assert_redis_error, connect, gets_it, gets_through, renewed, soon, waiter,
    warm_up, why_not_held,
};

const TIMEOUT: Duration = Duration::from_millis(700);
const RETRY: Duration = Duration::from_millis(2_100);

fn impatient(stage: &Stage) -> Config {
    stage.config().command_timeout(TIMEOUT).retry_timeout(RETRY)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_hangs_in_a_black_hole_and_everything_works_after_it() {
    let stage = Stage::new().await;
    let client = connect(impatient(&stage)).await;
    let far = stage.far_client().await;
    warm_up(&client).await;
    let (held, others) = (client.lock("held"), client.lock("others"));
    let guard = held.lock().await.unwrap();
    let unlocked = client.lock("unlocked").lock().await.unwrap();
    let dropped = client.lock("dropped").lock().await.unwrap();
    let far_guard = far.lock("others").lock().await.unwrap();

    stage.proxy.blackhole(true);
    let (wait, patient) = (Duration::from_secs(1), client.lock(LOCK));
    tokio::join!(
        fails("try_lock", others.try_lock()),
        fails("try_lock for 1 s", others.try_lock().wait(wait)),
        fails("lock", patient.lock()),
        fails("unlock", unlocked.unlock()),
        fails("is_locked", others.is_locked()),
        fails("force_unlock", others.force_unlock()),
        fails("check", guard.check()),
    );
    drop(dropped);
    assert!(guard.is_held(), "its lease is long enough");

    stage.proxy.blackhole(false);
    gets_through(&client).await;
    far_guard.unlock().await.unwrap();
    let again = soon("to acquire", others.lock()).await.unwrap();
    again.unlock().await.unwrap();
    soon("to be asked", guard.check()).await.unwrap();
    soon("to unlock", guard.unlock()).await.unwrap();
    // With what could not be released at the time.
    stage.nothing_held().await;
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_in_a_black_hole_fails_and_a_patient_one_gets_through() {
    let stage = Stage::new().await;
    let impatient = connect(impatient(&stage)).await;
    let patient = connect(stage.config().command_timeout(TIMEOUT)).await;
    let far = stage.far_client().await;
    let guard = far.lock(LOCK).lock().await.unwrap();
    // Two in one line: both are told when the first finds out.
    let failing = [waiter(&impatient, LOCK), waiter(&impatient, LOCK)];
    let turn = waiter(&patient, LOCK);
    stage.listening(LOCK, 2).await;
    stage.proxy.blackhole(true);
    guard.unlock().await.unwrap();
    for failing in failing {
        assert_redis_error(soon("the waiter to fail", failing).await.unwrap());
    }
    assert!(!turn.is_finished());
    stage.proxy.blackhole(false);
    let (guard, took) = gets_it(turn).await;
    println!("after the black hole: got the lock {took:?} later");
    guard.unlock().await.unwrap();
    stage.end([impatient, patient, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_in_a_black_hole_is_told_when_its_trust_ends() {
    let stage = Stage::new().await;
    let watchdog = Duration::from_secs(2);
    let client = connect(impatient(&stage).watchdog(watchdog)).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    stage.proxy.blackhole(true);
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Expired);
    let unlocked = soon("to be refused", guard.unlock()).await;
    assert!(unlocked.is_err(), "{unlocked:?}");
    stage.proxy.blackhole(false);
    gets_through(&client).await;
    stage.nothing_held().await;
    let again = soon("to acquire", client.lock(LOCK).lock()).await.unwrap();
    again.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_black_hole_ends_in_time_loses_nothing() {
    let stage = Stage::new().await;
    let config = impatient(&stage).watchdog(Duration::from_secs(9));
    let client = connect(config).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    stage.proxy.blackhole(true);
    // Long enough for some renewals to fail.
    tokio::time::sleep(Duration::from_millis(3_600)).await;
    stage.proxy.blackhole(false);
    renewed(&guard).await;
    soon("to unlock", guard.unlock()).await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_can_be_closed_in_a_black_hole() {
    let stage = Stage::new().await;
    let (client, far) = (connect(impatient(&stage)).await, stage.far_client().await);
    let guard = client.lock("held").lock().await.unwrap();
    let late = client.lock("late").lock().await.unwrap();
    stage.proxy.blackhole(true);
    drop(late);
    let begun = Instant::now();
    assert_redis_error(soon("to close", client.close()).await);
    println!("black hole: closed after {:?}", begun.elapsed());
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Closed);
    assert!(guard.unlock().await.is_err());
    stage.proxy.blackhole(false);
    for lock in ["held", "late"] {
        assert!(far.lock(lock).force_unlock().await.unwrap());
    }
    stage.end([far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_ends_in_a_black_hole_is_not_held_afterwards() {
    let stage = Stage::new().await;
    let client = connect(impatient(&stage)).await;
    let lease = Duration::from_millis(1_500);
    let guard = client.lock(LOCK).lock().lease(lease).await.unwrap();
    stage.proxy.blackhole(true);
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Expired);
    stage.proxy.blackhole(false);
    gets_through(&client).await;
    assert_eq!(why_not_held(soon("to be refused", guard.check()).await), Loss::Expired);
    stage.nothing_held().await;
    assert_eq!(why_not_held(soon("to be refused", guard.unlock()).await), Loss::Expired);
    stage.end([client]).await;
}

async fn fails<T: Debug>(what: &str, operation: impl IntoFuture<Output = Result<T, Error>>) {
    let begun = Instant::now();
    assert_redis_error(soon("to fail", operation).await);
    println!("black hole: {what} failed after {:?}", begun.elapsed());
}
