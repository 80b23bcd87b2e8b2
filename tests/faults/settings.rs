//! Settings of the server that an operator changes while locks are held and waited for.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, eventually, lock_channel};
use redisson_lock::Client;
use tokio::time::sleep;

use crate::held::{self, KINDS, lock_of, one_of_each};
use crate::stage::{LOCK, SHORT, Stage, connect, gets_it, renewed, soon, waiter};

fn configure(stage: &Stage, name: &str, value: &str) {
    let () = stage.redis().query(cmd("CONFIG").arg("SET").arg(name).arg(value));
}

/// A number that the server counts.
fn stat(stage: &Stage, name: &str) -> u64 {
    let info: String = stage.redis().query(cmd("INFO").arg("stats"));
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.expect("a number").trim().parse().expect("a number")
}

/// As many proxies and load balancers do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_idle_connections_is_no_loss_and_no_error() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let renewing = connect(stage.config().watchdog(SHORT)).await;
    configure(&stage, "timeout", "1");
    let (before, begun) = (stage.proxy.accepted(), Instant::now());
    let held = one_of_each(&renewing, "held").await;
    let mine = client.lock("mine").lock().await.unwrap();
    for kind in &KINDS[..3] {
        // Longer than a connection may be idle.
        sleep(Duration::from_millis(2_300)).await;
        let lock = lock_of(&client, kind, &format!("{LOCK}:{kind}"));
        let guard = lock.try_lock().await.unwrap().expect("nobody holds it");
        guard.unlock().await.unwrap();
    }
    let turn = waiter(&client, "held:lock");
    // The test's own connection is closed, too.
    let listens =
        || (stage.server.inspector().subscribers(&lock_channel("held:lock")) == 1).then_some(());
    eventually(PATIENCE, "a listener", listens).await;
    sleep(Duration::from_millis(1_500)).await;
    for held in held {
        held.guard.check().await.unwrap();
        held.guard.unlock().await.unwrap();
    }
    gets_it(turn).await.0.unlock().await.unwrap();
    mine.check().await.unwrap();
    mine.unlock().await.unwrap();
    let made = stage.proxy.accepted() - before;
    let seconds = begun.elapsed().as_secs_f64();
    println!("{made} connections in {seconds:.1} s by two clients");
    assert!((made as f64) < 5.0 * 2.0 * seconds, "{made} connections in {seconds} s");
    let () = stage.server.inspector().query(cmd("CONFIG").arg("SET").arg("timeout").arg(0));
    stage.proxy.heal();
    for client in [client, renewing] {
        soon("to close", client.close()).await.unwrap();
    }
    let left = stage.server.inspector().keys();
    assert!(left.iter().all(|key| key.contains("_token:")), "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_that_change_all_the_time_are_not_noticed() {
    let stage = Stage::new().await;
    let clients = [stage.client().await, connect(stage.config().watchdog(SHORT)).await];
    let held = one_of_each(&clients[1], "held").await;
    let settings: [(&str, &[&str]); 8] = [
        ("notify-keyspace-events", &["KEA", ""]),
        ("hz", &["1", "10", "500"]),
        ("lua-time-limit", &["10", "5000"]),
        ("maxclients", &["100", "10000"]),
        ("timeout", &["0", "1"]),
        ("tcp-keepalive", &["0", "60"]),
        ("appendonly", &["yes", "no"]),
        ("maxmemory", &["0", "100mb"]),
    ];
    let end = Instant::now() + SHORT + Duration::from_secs(1);
    let changes = async {
        let mut changed = 0;
        while Instant::now() < end {
            let (name, values) = settings[fastrand::usize(..settings.len())];
            configure(&stage, name, values[fastrand::usize(..values.len())]);
            changed += 1;
            sleep(Duration::from_millis(20)).await;
        }
        changed
    };
    let visits = |client: &Client| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut visits = 0;
            while Instant::now() < end {
                let kind = KINDS[visits % KINDS.len()];
                let lock = lock_of(&client, kind, &format!("contended:{kind}"));
                lock.lock().await.unwrap().unlock().await.unwrap();
                visits += 1;
            }
            visits
        })
    };
    let visits = clients.each_ref().map(visits);
    let changed = changes.await;
    for visits in visits {
        let visits = soon("all visits", visits).await.unwrap();
        assert!(visits > 10, "{visits}");
    }
    println!("{changed} changes");
    for held in held {
        held.guard.check().await.unwrap();
        held.guard.unlock().await.unwrap();
    }
    held::end(&stage, clients).await;
}

/// The server closes a subscriber that has more to read than the server may keep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_messages_are_too_many_for_the_server_costs_seconds_not_the_ttl() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    configure(&stage, "client-output-buffer-limit", "pubsub 1 1 1");
    let long = "x".repeat(1 << 16);
    for round in 0..3 {
        let guard = holder.lock(LOCK).lock().await.unwrap();
        let turn = waiter(&client, LOCK);
        stage.listening(LOCK, 1).await;
        let closed = stage.proxy.accepted();
        assert_eq!(stage.redis().publish(&lock_channel(LOCK), &long), 1);
        eventually(PATIENCE, "the subscriber to connect again", || {
            (stage.proxy.accepted() > closed).then_some(())
        })
        .await;
        guard.unlock().await.unwrap();
        let (guard, took) = gets_it(turn).await;
        println!("round {round}: the lock {took:?} after its release");
        guard.unlock().await.unwrap();
    }
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_too_many_clients_is_tried_again_and_not_too_often() {
    const FULL: Duration = Duration::from_secs(3);
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(8 * SHORT)).await;
    let held = one_of_each(&client, "held").await;
    stage.proxy.refuse(true);
    stage.proxy.cut_all();
    eventually(PATIENCE, "the connections to end", || (stage.connections() <= 1).then_some(()))
        .await;
    // One for this test, and one that somebody else takes.
    let somebody = stage.server.client();
    configure(&stage, "maxclients", "2");
    let (before, full) = (stat(&stage, "rejected_connections"), Instant::now());
    stage.proxy.refuse(false);
    let turn = waiter(&client, LOCK);
    sleep(FULL).await;
    assert!(!turn.is_finished());
    let rejected = stat(&stage, "rejected_connections") - before;
    assert!(rejected > 0, "there was room");
    let each_second = rejected as f64 / full.elapsed().as_secs_f64();
    println!("{each_second:.1} connections a second while there was no room");
    // Two connections, whose pauses double from 20 ms to 1 s, and begin anew at first.
    assert!(each_second < 8.0, "{rejected} tries");
    configure(&stage, "maxclients", "100");
    let room = Instant::now();
    let (guard, _) = gets_it(turn).await;
    println!("the lock {:?} after there was room", room.elapsed());
    guard.unlock().await.unwrap();
    for held in held {
        renewed(&held.guard).await;
        held.guard.unlock().await.unwrap();
    }
    drop(somebody);
    held::end(&stage, [client]).await;
}

/// A proxy whose server is away does so: it takes a connection, and ends it a little later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_do_not_last_are_made_again_and_not_too_often() {
    const FOR: Duration = Duration::from_secs(3);
    let stage = Stage::new().await;
    let client = connect(stage.config()).await;
    let (before, begun) = (stage.proxy.accepted(), Instant::now());
    while begun.elapsed() < FOR {
        stage.proxy.cut_all();
        sleep(Duration::from_millis(60)).await;
    }
    let made = stage.proxy.accepted() - before;
    println!("{made} connections in {:?}", begun.elapsed());
    // Two connections, whose pauses double from 20 ms to 1 s.
    assert!(made < 24, "{made} connections");
    let (guard, took) = gets_it(waiter(&client, LOCK)).await;
    println!("the lock {took:?} after the last one was cut");
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

/// A lock's turn while the server drops all connections over and over: `CLIENT KILL`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_an_operator_kills_are_nobodys_error() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let held = one_of_each(&client, "held").await;
    for (round, sort) in ["normal", "pubsub", "normal", "pubsub"].into_iter().enumerate() {
        let holder = stage.far_client().await;
        let name = format!("{LOCK}:{round}");
        let guard = holder.lock(&name).lock().await.unwrap();
        let turn = waiter(&client, &name);
        stage.listening(&name, 1).await;
        let _: u64 = stage.redis().query(cmd("CLIENT").arg(&["KILL", "TYPE", sort]));
        guard.unlock().await.unwrap();
        gets_it(turn).await.0.unlock().await.unwrap();
        holder.close().await.unwrap();
    }
    for held in held {
        renewed(&held.guard).await;
        held.guard.unlock().await.unwrap();
    }
    held::end(&stage, [client]).await;
}
