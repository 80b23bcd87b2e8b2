//! A peer that stops reading: buffers fill up, and writes to it block.

use std::time::{Duration, Instant};

use futures::future::join_all;
use redisson_lock::{Client, Config, Error};
use tokio::runtime::Handle;

use crate::stage::{
    LOCK, SOON, Stage, assert_redis_error, connect, gets_it, gets_through, renewed, soon, waiter,
    warm_up, within,
};

const TIMEOUT: Duration = Duration::from_secs(2);

/// More than the kernel keeps for a connection.
const CROWD: usize = 2_000;
const LONG_NAME: usize = 6 << 10;

fn config(stage: &Stage) -> Config {
    stage.config().command_timeout(TIMEOUT)
}

/// Each of a crowd is told that there is no answer. How long the last one took.
async fn all_fail(client: &Client) -> Duration {
    let begun = Instant::now();
    let asking = (0..CROWD).map(|n| {
        let lock = client.lock(format!("{n}:{}", "x".repeat(LONG_NAME)));
        tokio::spawn(async move {
            let answer = lock.try_lock().await;
            (begun.elapsed(), answer.map(drop))
        })
    });
    let answers = within(2 * SOON, "for all to be answered", join_all(asking)).await;
    let answers: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    let failed = answers.iter().filter(|(_, answer)| matches!(answer, Err(Error::Redis(_))));
    println!("{} of {CROWD} failed", failed.count());
    answers.iter().map(|(took, _)| *took).max().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_nobody_reads_is_replaced() {
    let stage = Stage::new().await;
    let (client, far) = (connect(config(&stage)).await, stage.far_client().await);
    warm_up(&client).await;
    let held = client.lock("held").lock().await.unwrap();
    let far_guard = far.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;

    stage.proxy.stop_reading_open();
    let begun = Instant::now();
    let longest = all_fail(&client).await;
    gets_through(&client).await;
    println!(
        "nobody reads: the last call failed after {longest:?}, through {:?} later",
        begun.elapsed() - longest
    );
    // Beside the old one, of which the server does not know that nobody uses it.
    stage.listening(LOCK, 2).await;
    far_guard.unlock().await.unwrap();
    let (guard, took) = gets_it(turn).await;
    println!("nobody reads: a waiter got the lock {took:?} after its release");
    guard.unlock().await.unwrap();
    within(3 * SOON, "a renewal", renewed(&held)).await;
    held.unlock().await.unwrap();
    stage.proxy.heal();
    stage.nothing_held().await;
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_reads_again_is_found_at_once() {
    let stage = Stage::new().await;
    let client = connect(config(&stage)).await;
    warm_up(&client).await;
    let held = client.lock("held").lock().await.unwrap();
    stage.proxy.stop_reading(true);
    let longest = all_fail(&client).await;
    assert_redis_error(soon("to fail", client.lock(LOCK).try_lock()).await);
    stage.proxy.stop_reading(false);
    let healed = Instant::now();
    gets_through(&client).await;
    println!(
        "reads again: the last call failed after {longest:?}, through {:?} after healing",
        healed.elapsed()
    );
    // On a busy machine a connection may be given up once more. A question is asked once.
    let mut checked = held.check().await;
    if matches!(checked, Err(Error::Redis(_))) {
        gets_through(&client).await;
        checked = held.check().await;
    }
    checked.unwrap();
    held.unlock().await.unwrap();
    stage.nothing_held().await;
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_replaced_leave_nothing_behind() {
    const TIMES: usize = 20;
    let stage = Stage::new().await;
    let client = connect(stage.config().command_timeout(Duration::from_millis(400))).await;
    warm_up(&client).await;
    stage.proxy.connected(2).await;
    let tasks = || Handle::current().metrics().num_alive_tasks();
    let (tasks_before, connections) = (tasks(), stage.connections());
    let names = ["x", "y", "z", "u"].map(|name| name.repeat(3 << 20));
    for round in 0..TIMES {
        stage.proxy.stop_reading_open();
        let stuck = names.iter().map(async |name| client.lock(name).is_locked().await);
        for answer in soon("for all to fail", join_all(stuck)).await {
            assert_redis_error(answer);
        }
        let begun = Instant::now();
        gets_through(&client).await;
        println!("{round}: through after {:?}, {} tasks", begun.elapsed(), tasks());
    }
    stage.proxy.heal();
    stage.proxy.connected(2).await;
    stage.connections_down_to(connections).await;
    let gone = || (tasks() <= tasks_before).then_some(());
    harness::eventually(harness::PATIENCE, "tasks to end", gone).await;
    stage.end([client]).await;
}
