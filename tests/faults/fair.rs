//! A fair lock's line in which leases end, processes die, and very many wait.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{Inspector, RedisServer, assert_nothing_left, deadlines_key, eventually, queue_key};
use redisson_lock::{Client, Config};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::stage::{LOCK, Stage, connect, soon, within};

/// A place in line that is given up soon.
const WAIT: Duration = Duration::from_secs(3);

/// How long a test of this file may take in all, on a busy machine.
const LIMIT: Duration = Duration::from_secs(120);

async fn in_line(redis: &Inspector, count: usize) {
    let what = format!("{count} waiters in line");
    eventually(LIMIT, &what, || {
        (redis.query::<usize>(cmd("LLEN").arg(queue_key(LOCK))) == count).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_next_in_line_has_the_lock_as_soon_as_a_lease_has_run_out() {
    const LEASE: Duration = Duration::from_millis(500);
    const WAITERS: u32 = 8;
    let stage = Stage::new().await;
    let clients = [stage.far_client().await, stage.far_client().await];
    let held = soon("a lock", clients[0].fair_lock(LOCK).lock()).await.unwrap();
    let mut turns = JoinSet::new();
    for number in 0..WAITERS {
        let lock = clients[number as usize % 2].fair_lock(LOCK);
        turns.spawn(async move {
            let guard = lock.try_lock().wait(LIMIT).lease(LEASE).await.unwrap().expect("a turn");
            // It is not unlocked: nobody is told that the lease is over.
            (Instant::now(), guard)
        });
    }
    in_line(stage.redis(), WAITERS as usize).await;
    sleep(LEASE).await;
    let begun = Instant::now();
    held.unlock().await.unwrap();
    let mut granted = within(LIMIT, "for all to be served", turns.join_all()).await;
    granted.sort_by_key(|(granted, _)| *granted);
    let after: Vec<_> = granted.iter().map(|(granted, _)| *granted - begun).collect();
    println!("served after {after:.1?}, leases of {LEASE:?}");
    // One that is not told looks every 3 s.
    assert!(after[WAITERS as usize - 1] < 2 * LEASE * WAITERS, "{after:?}");
    drop(granted);
    stage.end(clients).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_gone_costs_its_wait_once_wherever_its_waiters_stood() {
    const EACH: usize = 6;
    let stage = Stage::new().await;
    let gone = connect(stage.config().fair_wait(WAIT)).await;
    let config = Config::from_url(stage.server.url()).unwrap().fair_wait(WAIT);
    let client = connect(config).await;
    let held = client.fair_lock(LOCK).lock().await.unwrap();
    let (mut lost, mut turns) = (JoinSet::new(), JoinSet::new());
    for number in 0..EACH {
        let (one, other) = (gone.fair_lock(LOCK), client.fair_lock(LOCK));
        lost.spawn(async move { drop(one.lock().await) });
        in_line(stage.redis(), 2 * number + 1).await;
        turns.spawn(async move { other.lock().await.unwrap().unlock().await.unwrap() });
        in_line(stage.redis(), 2 * number + 2).await;
    }
    stage.proxy.blackhole(true);
    held.unlock().await.unwrap();
    let begun = Instant::now();
    within(LIMIT, "for those who are there", turns.join_all()).await;
    let took = begun.elapsed();
    println!(
        "{EACH} served in {took:?} among {EACH} that are gone, each with a place for {WAIT:?}"
    );
    // In groups it would be six times the wait.
    assert!(took < 3 * WAIT, "{took:?}");
    lost.shutdown().await;
    stage.end([gone, client]).await;
}

/// When a waiter was last seen is kept in steps whose numbers come round after 32 times its wait.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_has_been_gone_for_long_is_not_taken_for_one_that_is_there() {
    let wait = WAIT / 3;
    let stage = Stage::new().await;
    let gone = connect(stage.config().fair_wait(wait)).await;
    let client = connect(Config::from_url(stage.server.url()).unwrap().fair_wait(wait)).await;
    let held = client.fair_lock(LOCK).lock().await.unwrap();
    // On a machine that stalls for longer than the wait, the two of `client` may be served in the other order.
    let take_turn = |client: &Client| {
        let lock = client.fair_lock(LOCK);
        tokio::spawn(async move { lock.lock().await.unwrap().unlock().await.unwrap() })
    };
    // At the head of the line it would be dropped long before that.
    let first = take_turn(&client);
    in_line(stage.redis(), 1).await;
    let lost = take_turn(&gone);
    in_line(stage.redis(), 2).await;
    let next = take_turn(&client);
    in_line(stage.redis(), 3).await;
    stage.proxy.blackhole(true);
    sleep(wait * 32).await;
    held.unlock().await.unwrap();
    let begun = Instant::now();
    within(LIMIT, "for the first", first).await.unwrap();
    within(LIMIT, "for the next", next).await.unwrap();
    let took = begun.elapsed();
    println!("both had their turn {took:?} after the unlock");
    assert!(took < wait, "{took:?}");
    lost.abort();
    stage.end([gone, client]).await;
}

/// A replica that becomes the master may not have heard that waiters left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn places_that_a_failover_brings_back_cost_one_wait_together() {
    const GHOSTS: usize = 6;
    let stage = Stage::new().await;
    let config = Config::from_url(stage.server.url()).unwrap().fair_wait(WAIT);
    let clients = [connect(config.clone()).await, connect(config).await];
    let held = clients[0].fair_lock(LOCK).lock().await.unwrap();
    let mut waiters = JoinSet::new();
    for number in 0..GHOSTS {
        let lock = clients[number % 2].fair_lock(LOCK);
        waiters.spawn(async move { drop(lock.lock().await) });
        in_line(stage.redis(), number + 1).await;
    }
    let keys = [queue_key(LOCK), deadlines_key(LOCK)];
    let dumps = keys.each_ref().map(|key| stage.redis().query::<Vec<u8>>(cmd("DUMP").arg(key)));
    waiters.shutdown().await;
    in_line(stage.redis(), 0).await;
    for (key, dump) in keys.iter().zip(dumps) {
        stage.redis().query::<()>(cmd("RESTORE").arg(key).arg(0).arg(dump));
    }
    held.unlock().await.unwrap();
    let begun = Instant::now();
    let guard = within(LIMIT, "for the lock", clients[0].fair_lock(LOCK).lock()).await.unwrap();
    let took = begun.elapsed();
    println!("the lock was free after {took:?} behind {GHOSTS}, each with a place for {WAIT:?}");
    assert!(took < 3 * WAIT, "{took:?}");
    guard.unlock().await.unwrap();
    stage.end(clients).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_away_for_less_than_its_wait_keeps_all_its_places() {
    let stage = Stage::new().await;
    let away = connect(stage.config().fair_wait(2 * WAIT)).await;
    let config = Config::from_url(stage.server.url()).unwrap().fair_wait(2 * WAIT);
    let client = connect(config).await;
    let held = client.fair_lock(LOCK).lock().await.unwrap();
    let mut turns = JoinSet::new();
    for number in 0..4 {
        let lock = if number % 2 == 0 { &away } else { &client }.fair_lock(LOCK);
        turns.spawn(async move { lock.lock().await.unwrap().unlock().await.unwrap() });
        in_line(stage.redis(), number + 1).await;
    }
    let line = stage.redis().line(LOCK);
    stage.proxy.blackhole(true);
    sleep(WAIT / 2).await;
    stage.proxy.heal();
    sleep(WAIT).await;
    assert_eq!(stage.redis().line(LOCK), line);
    held.unlock().await.unwrap();
    within(LIMIT, "for all to be served", turns.join_all()).await;
    stage.end([away, client]).await;
}

/// `cargo test --test faults three_thousand -- --ignored --nocapture` prints what share of a core the server spends on
/// them in 20 s, by its own account.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute, and is to be read"]
async fn three_thousand_waiters_cost_the_server_less_than_a_tenth_of_a_core() {
    const MEASURED: Duration = Duration::from_secs(20);
    let server = RedisServer::start();
    let redis = server.inspector();
    for count in [1_000, 3_000] {
        let config = Config::from_url(server.url()).unwrap();
        let (holder, client) = (connect(config.clone()).await, connect(config).await);
        let held = holder.fair_lock(LOCK).lock().await.unwrap();
        let mut waiters = JoinSet::new();
        for _ in 0..count {
            let lock = client.fair_lock(LOCK);
            waiters.spawn(async move { drop(lock.lock().await) });
        }
        in_line(&redis, count).await;
        // Subscribed, and in step.
        sleep(Duration::from_secs(6)).await;
        let (before, begun) = (cpu(&redis), Instant::now());
        sleep(MEASURED).await;
        let share = (cpu(&redis) - before) / begun.elapsed().as_secs_f64();
        println!("{count} waiters cost the server {:.1} % of a core", 100.0 * share);
        assert!(share < 0.1, "{share}");
        waiters.shutdown().await;
        held.unlock().await.unwrap();
        close(client).await;
        close(holder).await;
    }
    assert_nothing_left(&server).await;
}

async fn close(client: Client) {
    within(LIMIT, "to close", client.close()).await.unwrap();
}

/// Seconds of a core that the server has used.
fn cpu(redis: &Inspector) -> f64 {
    let info: String = redis.query(cmd("INFO").arg("cpu"));
    let used = |name| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)).expect("a line of INFO");
        line.parse::<f64>().expect("seconds")
    };
    used("used_cpu_sys:") + used("used_cpu_user:")
}

/// The line and the deadlines are two keys, and a server that is full may evict one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deadlines_of_a_line_that_is_gone_are_not_kept_for_ever() {
    let stage = Stage::new().await;
    let config = Config::from_url(stage.server.url()).unwrap().fair_wait(WAIT);
    let client = connect(config).await;
    let held = client.fair_lock(LOCK).lock().await.unwrap();
    let waiter = {
        let lock = client.fair_lock(LOCK);
        tokio::spawn(async move { lock.lock().await })
    };
    in_line(stage.redis(), 1).await;
    stage.redis().query::<()>(cmd("DEL").arg(queue_key(LOCK)).arg(LOCK));
    let guard = within(LIMIT, "for the lock", waiter).await.unwrap().unwrap();
    assert!(held.unlock().await.is_err());
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}
