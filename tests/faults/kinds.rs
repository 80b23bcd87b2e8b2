//! What other kinds of lock can lose besides a hold: a place in line, a TTL of its own, a token.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, RedisServer, eventually};
use redisson_lock::{Client, Config, Error, Lock, LockGuard, Loss};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::stage::{
    LOCK, SHORT, SOON, Stage, connect, gets_it, gets_through, sha, soon, why_not_held,
};

/// A place in line that is given up soon.
const WAIT: Duration = Duration::from_secs(3);

const QUEUE: &str = "redisson_lock_queue:{order:42}";
const DEADLINES: &str = "redisson_lock_timeout:{order:42}";

fn line(stage: &Stage) -> Vec<String> {
    // Both at one moment.
    let both =
        "return {redis.call('lrange', KEYS[1], 0, -1), redis.call('zrange', KEYS[2], 0, -1)}";
    let (queue, mut deadlines): (Vec<String>, Vec<String>) =
        stage.redis().query(cmd("EVAL").arg(both).arg(2).arg(QUEUE).arg(DEADLINES));
    let mut sorted = queue.clone();
    sorted.sort();
    deadlines.sort();
    assert_eq!(sorted, deadlines, "who stands in line has a deadline, and nobody else");
    queue
}

async fn in_line(stage: &Stage, count: usize) {
    let what = format!("{count} waiters in line");
    eventually(PATIENCE, &what, || (line(stage).len() == count).then_some(())).await;
}

fn waits(lock: Lock) -> JoinHandle<Result<LockGuard, Error>> {
    tokio::spawn(async move { lock.lock().await })
}

async fn fair_client(stage: &Stage) -> Client {
    connect(stage.config().fair_wait(WAIT)).await
}

async fn far_fair_client(stage: &Stage) -> Client {
    connect(Config::from_url(stage.server.url()).unwrap().fair_wait(WAIT)).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_answers_are_lost_stands_in_line_once_and_is_served() {
    let stage = Stage::new().await;
    let (client, far) = (fair_client(&stage).await, far_fair_client(&stage).await);
    soon("to warm up", client.fair_lock("w").lock()).await.unwrap().unlock().await.unwrap();
    let held = far.fair_lock(LOCK).lock().await.unwrap();
    let lost = stage.proxy.lose_replies([&sha("fair/acquire"), LOCK], 2);
    let turn = waits(client.fair_lock(LOCK));
    lost.reached(2).await;
    in_line(&stage, 1).await;
    held.unlock().await.unwrap();
    gets_it(turn).await.0.unlock().await.unwrap();
    in_line(&stage, 0).await;
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_in_a_black_hole_costs_the_others_its_wait_and_is_served_when_it_is_back() {
    let stage = Stage::new().await;
    let (client, far) = (fair_client(&stage).await, far_fair_client(&stage).await);
    let held = far.fair_lock(LOCK).lock().await.unwrap();
    let cut_off = waits(client.fair_lock(LOCK));
    in_line(&stage, 1).await;
    let next = waits(far.fair_lock(LOCK));
    in_line(&stage, 2).await;
    stage.proxy.blackhole(true);
    let begun = Instant::now();
    held.unlock().await.unwrap();
    let (guard, _) = gets_it(next).await;
    println!("the next in line ran {:?} after the unlock", begun.elapsed());
    stage.proxy.heal();
    // It may have given up on the server meanwhile; if not, it stands in line again.
    guard.unlock().await.unwrap();
    match soon("an end of the wait", cut_off).await.unwrap() {
        Ok(guard) => guard.unlock().await.unwrap(),
        Err(Error::Redis(error)) => println!("gave up: {error}"),
        Err(error) => panic!("{error}"),
    }
    stage.nothing_held().await;
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_in_line_outlives_a_broken_connection() {
    let stage = Stage::new().await;
    let (client, far) = (fair_client(&stage).await, far_fair_client(&stage).await);
    let held = far.fair_lock(LOCK).lock().await.unwrap();
    let first = waits(client.fair_lock(LOCK));
    in_line(&stage, 1).await;
    let second = waits(far.fair_lock(LOCK));
    in_line(&stage, 2).await;
    let before = line(&stage);
    for _ in 0..5 {
        stage.proxy.cut_all();
        sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(line(&stage), before);
    held.unlock().await.unwrap();
    let (guard, _) = gets_it(first).await;
    assert!(!second.is_finished());
    guard.unlock().await.unwrap();
    gets_it(second).await.0.unlock().await.unwrap();
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_dropped_while_its_request_is_on_its_way_leaves_the_line() {
    let stage = Stage::new().await;
    let (client, far) = (fair_client(&stage).await, far_fair_client(&stage).await);
    soon("to warm up", client.fair_lock("w").lock()).await.unwrap().unlock().await.unwrap();
    let held = far.fair_lock(LOCK).lock().await.unwrap();
    stage.proxy.hold_requests_with([&sha("fair/acquire"), LOCK]);
    let dropped = waits(client.fair_lock(LOCK));
    eventually(PATIENCE, "the request", || (stage.proxy.held() > 0).then_some(())).await;
    dropped.abort();
    sleep(Duration::from_millis(100)).await;
    stage.proxy.release_held();
    stage.proxy.heal();
    let last = waits(far.fair_lock(LOCK));
    // The place may be seen for a moment, and goes.
    eventually(SOON, "the other alone in line", || {
        let line = line(&stage);
        (line.len() == 1 && line[0].starts_with(far.id())).then_some(())
    })
    .await;
    held.unlock().await.unwrap();
    gets_it(last).await.0.unlock().await.unwrap();
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_outlive_a_server_that_comes_back_empty() {
    let mut stage = Stage::new().await;
    let client = fair_client(&stage).await;
    let held = client.fair_lock(LOCK).lock().await.unwrap();
    let turns = [(); 2].map(|()| {
        let lock = client.fair_lock(LOCK);
        tokio::spawn(async move { lock.lock().await?.unlock().await })
    });
    in_line(&stage, 2).await;
    stage.restart_server();
    // In which order, nobody knows any more.
    for turn in turns {
        soon("to take turns", turn).await.unwrap().unwrap();
    }
    assert!(held.unlock().await.is_err(), "the server has forgotten it");
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_force_unlock_is_the_turn_of_the_next_in_line() {
    let stage = Stage::new().await;
    let client = fair_client(&stage).await;
    let lock = client.fair_lock(LOCK);
    let held = lock.lock().await.unwrap();
    let first = waits(lock.clone());
    in_line(&stage, 1).await;
    let second = waits(lock.clone());
    in_line(&stage, 2).await;
    let queue = lock.inspect().await.unwrap().queue;
    assert!(queue.len() == 2 && queue.iter().all(|waiter| waiter.ours));
    let (least, most) = (Duration::ZERO, WAIT + WAIT / 10);
    assert!(queue.iter().all(|w| w.kept_for.is_some_and(|time| time > least && time < most)));
    assert!(lock.force_unlock().await.unwrap());
    let (guard, _) = gets_it(first).await;
    assert_eq!(guard.holder(), queue[0].id);
    assert!(!second.is_finished());
    assert!(held.unlock().await.is_err());
    guard.unlock().await.unwrap();
    gets_it(second).await.0.unlock().await.unwrap();
    stage.end([client]).await;
}

/// Nothing is done in part: nobody would be woken, and the holder be told of a loss.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_a_foreign_key_in_place_of_the_line_refuses_leaves_the_hold() {
    let stage = Stage::new().await;
    let client = fair_client(&stage).await;
    let lock = client.fair_lock(LOCK);
    let held = lock.lock().await.unwrap();
    let () = stage.redis().query(cmd("SET").arg(QUEUE).arg("precious"));
    let forced = soon("an answer", lock.force_unlock()).await;
    assert!(matches!(forced, Err(Error::WrongKind { .. })), "{forced:?}");
    stage.assert_held_by(&held, LOCK);
    let released = soon("an answer", held.unlock()).await;
    assert!(matches!(released, Err(Error::WrongKind { .. })), "{released:?}");
    assert_eq!(stage.hold_count(LOCK), 1);
    let () = stage.redis().query(cmd("DEL").arg(QUEUE));
    stage.nothing_held().await;
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_with_a_long_lease_outlives_what_others_make_of_the_common_ttl() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let lock = client.read_write_lock(LOCK);
    let lease = Duration::from_secs(600);
    let guard = lock.read().lease(lease).await.unwrap();
    for _ in 0..2 {
        // As a renewal of one of Redisson's readers does.
        let () = stage.redis().query(cmd("PEXPIRE").arg(LOCK).arg(SHORT.as_millis() as u64));
        eventually(PATIENCE, "the TTL to be raised again", || {
            (stage.redis().pttl(LOCK) > 2 * SHORT.as_millis() as i64).then_some(())
        })
        .await;
    }
    assert!(stage.redis().pttl(LOCK) <= lease.as_millis() as i64, "not prolonged either");
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_vanishes_keeps_a_writer_out_for_its_own_lease_only() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let gone = client.read_write_lock(LOCK).read().lease(WAIT).await.unwrap();
    let long = far.read_write_lock(LOCK).read().lease(Duration::from_secs(600)).await.unwrap();
    stage.proxy.blackhole(true);
    drop(gone);
    let writer = waits(far.read_write_lock(LOCK).write_lock().clone());
    stage.listening_on("redisson_rwlock:{order:42}", 1).await;
    long.unlock().await.unwrap();
    let (writing, took) = gets_it(writer).await;
    println!("the writer wrote {took:?} after the last living reader had left");
    writing.unlock().await.unwrap();
    stage.proxy.heal();
    stage.nothing_held().await;
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_and_a_writer_are_told_when_their_side_is_broken_open() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let lock = client.read_write_lock(LOCK);
    let reading = lock.read().await.unwrap();
    assert!(!lock.write_lock().force_unlock().await.unwrap(), "nobody writes");
    reading.check().await.unwrap();
    assert!(lock.read_lock().force_unlock().await.unwrap());
    assert_eq!(soon("to be told", reading.lost()).await, Loss::Removed);
    assert_eq!(why_not_held(reading.unlock().await), Loss::Removed);

    let writing = lock.write().await.unwrap();
    assert!(!lock.read_lock().force_unlock().await.unwrap(), "nobody reads");
    let next = waits(lock.read_lock().clone());
    stage.listening_on("redisson_rwlock:{order:42}", 1).await;
    assert!(lock.write_lock().force_unlock().await.unwrap());
    let (reading, _) = gets_it(next).await;
    assert_eq!(soon("to be told", writing.lost()).await, Loss::Taken);
    drop(writing);
    reading.unlock().await.unwrap();
    stage.end([client]).await;
}

/// Nobody has noticed yet: the watchdog asks every ten seconds, and of a lease never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_does_not_wait_for_a_hold_of_its_own_that_was_removed() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let mut me = client.owner();
    let both = client.read_write_lock(LOCK);
    let pairs = [
        (both.read_lock().clone(), both.write_lock().clone()),
        (client.non_reentrant_lock(LOCK), client.non_reentrant_lock(LOCK)),
        (client.non_reentrant_fair_lock(LOCK), client.non_reentrant_fair_lock(LOCK)),
    ];
    for (first, second) in pairs {
        let outer = first.lock().by(&mut me).await.unwrap();
        let again = second.try_lock().by(&mut me).await;
        assert!(matches!(again, Err(Error::WouldDeadlock { .. })), "it is held: {again:?}");
        let keys = stage.redis().keys();
        let () = stage.redis().query(cmd("DEL").arg(keys));
        let inner = second.lock().by(&mut me).await.expect("what nobody holds any more");
        assert_eq!(why_not_held(outer.unlock().await), Loss::Removed);
        assert!(inner.is_held());
        inner.check().await.unwrap();
        inner.unlock().await.unwrap();
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_across_expiry_force_and_a_restart_that_keeps_data() {
    let server = RedisServer::builder().arg("--appendonly").arg("yes").arg("--appendfsync");
    let mut stage = Stage::with(server.arg("always")).await;
    let client = stage.client().await;
    let lock = client.fenced_lock(LOCK);
    let mut last = 0;
    let mut grows = |token: u64| assert!(std::mem::replace(&mut last, token) < token);
    for round in 0..12 {
        let guard = soon("to acquire", lock.lock().lease(Duration::from_millis(500))).await;
        let guard = guard.unwrap();
        grows(guard.token().value());
        match round % 4 {
            0 => guard.unlock().await.unwrap(),
            1 => drop(guard),
            2 => {
                assert_eq!(soon("its end", guard.lost()).await, Loss::Expired);
            }
            _ => assert!(lock.force_unlock().await.unwrap()),
        }
        if round % 6 == 5 {
            stage.restart_server();
            gets_through(&client).await;
        }
    }
    assert_eq!(lock.latest_token().await.unwrap().unwrap().value(), last);
    stage.nothing_held_but(&["redisson_lock_token:{order:42}"]).await;
    let () = stage.redis().query(cmd("DEL").arg("redisson_lock_token:{order:42}"));
    stage.end([client]).await;
}
