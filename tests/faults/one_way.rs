//! A network that loses one direction, and keeps connections open.

use std::time::{Duration, Instant};

use harness::{PATIENCE, eventually};
use redisson_lock::{Client, Loss};
use tokio::time::sleep;

use crate::held::{self, KINDS, SLACK, all_told, lock_of, one_of_each, rival_of};
use crate::stage::{
    LOCK, SHORT, Stage, assert_redis_error, connect, gets_it, soon, trusted_until, waiter,
};

/// A command may take so long, and so may one that is repeated.
const TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// What the server says is lost; it hears everything.
    FromServer,
    /// What the server is told is lost; what it says arrives.
    ToServer,
}

impl Direction {
    fn lose(self, stage: &Stage, on: bool) {
        match self {
            Self::FromServer => stage.proxy.swallow_replies(on),
            Self::ToServer => stage.proxy.swallow_requests(on),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_is_heard_and_hears_nothing_is_told_and_keeps_nobody_waiting() {
    one_direction_stays_lost(Direction::FromServer).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_hears_and_is_not_heard_is_told_and_keeps_nobody_waiting() {
    one_direction_stays_lost(Direction::ToServer).await;
}

async fn one_direction_stays_lost(direction: Direction) {
    let stage = Stage::new().await;
    let config = stage.config().watchdog(SHORT).command_timeout(TIMEOUT);
    let client = connect(config.retry_timeout(2 * TIMEOUT)).await;
    let far = stage.far_client().await;
    let held = one_of_each(&client, "held").await;
    let others = far.lock(LOCK).lock().await.unwrap();
    let patient = connect(stage.config().retry_timeout(PATIENCE)).await;
    let turn = waiter(&patient, LOCK);
    stage.listening(LOCK, 1).await;
    let turns = held.iter().map(|held| {
        let lock = rival_of(&far, held.kind, &held.name);
        tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            (Instant::now(), guard)
        })
    });
    let turns: Vec<_> = turns.collect();

    direction.lose(&stage, true);
    let lost = Instant::now();
    // What was on its way has come by then. On a busy machine the task that is told may run later than the trust ends.
    sleep(Duration::from_millis(50)).await;
    let trusted: Vec<_> = held.iter().map(|held| trusted_until(&held.guard)).collect();
    let told = all_told(held);
    for kind in KINDS {
        let lock = lock_of(&client, kind, &format!("tried:{kind}"));
        assert_redis_error(soon("to be told", lock.try_lock()).await);
    }
    // It heard of it, or will look itself; it has no way to take it.
    others.unlock().await.unwrap();
    // Locks of others, by others.
    far.lock("beside").lock().await.unwrap().unlock().await.unwrap();
    let told = told.await.unwrap();
    for told in &told {
        let after = told.at - lost;
        assert_eq!(told.why, Loss::Expired, "{}", told.held.name);
        assert!(after < SHORT + SLACK, "{}: told after {after:?}", told.held.name);
    }
    let mut longest = Duration::ZERO;
    for (turn, (told, trusted)) in turns.into_iter().zip(told.iter().zip(trusted)) {
        let (granted, guard) = soon("its turn", turn).await.unwrap();
        assert!(granted > trusted, "{}: two hold it", told.held.name);
        // Renewals that the server heard may have been the last thing before that.
        let after = granted - trusted;
        assert!(after < SHORT + 3 * SLACK, "{}: free {after:?} after", told.held.name);
        longest = longest.max(after);
        guard.unlock().await.unwrap();
    }
    println!("{direction:?}: others have the last lock {longest:?} after its holder was told");
    sleep(TIMEOUT).await;

    direction.lose(&stage, false);
    let (guard, took) = gets_it(turn).await;
    println!("{direction:?}: the waiter has its lock {took:?} after the network is whole");
    guard.unlock().await.unwrap();
    gets_through_at_once(&client).await;
    for told in told {
        told.held.stays_lost().await;
    }
    // What was granted and never told is given back, or ends with its lease.
    eventually(PATIENCE, "an end of all holds", || {
        stage.redis().keys().iter().all(|key| key.contains("_token:")).then_some(())
    })
    .await;
    held::end(&stage, [client, far, patient]).await;
}

async fn gets_through_at_once(client: &Client) {
    let lock = client.lock("afterwards");
    let taken = async {
        loop {
            if let Ok(guard) = lock.lock().await {
                return guard;
            }
        }
    };
    soon("a lock", taken).await.unlock().await.unwrap();
}
