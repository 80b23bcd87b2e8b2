//! Connections that break while callers wait, and while they hold locks.

use std::{
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
    time::{Duration, Instant},
};

use harness::{PATIENCE, eventually, lock_channel};
use redisson_lock::Client;

use crate::stage::{
    LOCK, SHORT, SOON, Stage, assert_redis_error, connect, gets_it, renewed, sha, soon, visitor,
    waiter, warm_up, within,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connections_are_cut_gets_the_lock_when_it_is_released() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;
    assert_eq!(stage.proxy.cut_all(), 2);
    stage.listening(LOCK, 1).await;
    guard.unlock().await.unwrap();
    let (guard, took) = gets_it(turn).await;
    println!("both connections cut: got the lock {took:?} after the release");
    guard.unlock().await.unwrap();
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_without_any_connection_gets_the_lock_when_it_is_back() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;
    stage.proxy.refuse(true);
    stage.proxy.cut_all();
    stage.listening(LOCK, 0).await;
    guard.unlock().await.unwrap();
    stage.proxy.refuse(false);
    let (guard, took) = gets_it(turn).await;
    println!("both connections away: got the lock {took:?} after their return");
    guard.unlock().await.unwrap();
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_connections_are_cut_holds_on_and_unlocks() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    for _ in 0..3 {
        assert!(stage.proxy.cut_all() > 0);
        renewed(&guard).await;
    }
    stage.assert_held_by(&guard, LOCK);
    stage.proxy.cut_all();
    soon("to unlock", guard.unlock()).await.unwrap();
    assert_eq!(stage.hold_count(LOCK), 0);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_missed_by_a_dead_subscription_costs_seconds_not_the_ttl() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;
    // It cannot come back before the message is gone.
    stage.proxy.refuse(true);
    assert_eq!(stage.proxy.cut_matching("SUBSCRIBE"), 1);
    stage.listening(LOCK, 0).await;
    guard.unlock().await.unwrap();
    // And not afterwards either: there is only the command connection to look with.
    let (guard, took) = gets_it(turn).await;
    println!("no subscription any more: got the lock {took:?} after the release");
    stage.proxy.refuse(false);
    guard.unlock().await.unwrap();
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_comes_back_makes_up_for_the_message_it_missed() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    for _ in 0..5 {
        let guard = holder.lock(LOCK).lock().await.unwrap();
        let turn = waiter(&client, LOCK);
        stage.listening(LOCK, 1).await;
        stage.proxy.refuse(true);
        stage.proxy.cut_matching("SUBSCRIBE");
        stage.listening(LOCK, 0).await;
        guard.unlock().await.unwrap();
        stage.proxy.refuse(false);
        let (guard, took) = gets_it(turn).await;
        println!("subscription back: got the lock {took:?} after that");
        guard.unlock().await.unwrap();
    }
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_cut_while_it_is_made_costs_seconds_not_the_ttl() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    warm_up(&client).await;
    for arrives in [false, true] {
        let guard = holder.lock(LOCK).lock().await.unwrap();
        let lost = match arrives {
            false => stage.proxy.lose_requests(["SUBSCRIBE", LOCK], 3),
            true => stage.proxy.lose_requests("PING", 1),
        };
        let turn = waiter(&client, LOCK);
        lost.reached(1).await;
        guard.unlock().await.unwrap();
        let (guard, took) = gets_it(turn).await;
        println!("cut while subscribing (request arrived: {arrives}): got the lock after {took:?}");
        guard.unlock().await.unwrap();
        stage.proxy.heal();
    }
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_subscription_hangs_looks_for_itself() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    stage.proxy.hold_requests_with("SUBSCRIBE");
    let turn = waiter(&client, LOCK);
    eventually(PATIENCE, "the subscription to hang", || (stage.proxy.held() > 0).then_some(()))
        .await;
    guard.unlock().await.unwrap();
    let (guard, took) = gets_it(turn).await;
    println!("subscription hangs: got the lock after {took:?}");
    guard.unlock().await.unwrap();
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_is_killed_over_and_over_costs_nobody_a_turn() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let killer = async {
        loop {
            stage.proxy.cut_matching("SUBSCRIBE");
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
    };
    let hand_overs = async {
        for _ in 0..10 {
            let guard = holder.lock(LOCK).lock().await.unwrap();
            let turn = waiter(&client, LOCK);
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..120))).await;
            guard.unlock().await.unwrap();
            let (guard, _) = gets_it(turn).await;
            guard.unlock().await.unwrap();
        }
    };
    tokio::select! {
        () = killer => {}
        () = hand_overs => {}
    }
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_waiters_on_many_locks_are_all_served_after_a_cut() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let names: Vec<_> = (0..20).map(|n| format!("lock:{n}")).collect();
    let mut guards = Vec::new();
    let mut turns = Vec::new();
    for name in &names {
        guards.push(holder.lock(name).lock().await.unwrap());
        // Two that stand in one line.
        turns.extend([visitor(&client, name), visitor(&client, name)]);
    }
    for name in &names {
        stage.listening(name, 1).await;
    }
    stage.proxy.cut_all();
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    for turn in turns {
        soon("for all to be served", turn).await.unwrap().unwrap();
    }
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_leaves_a_local_hand_over_alone() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    for _ in 0..5 {
        let guard = client.lock(LOCK).lock().await.unwrap();
        let turn = waiter(&client, LOCK);
        stage.listening(LOCK, 1).await;
        stage.proxy.cut_all();
        soon("to unlock", guard.unlock()).await.unwrap();
        let (guard, _) = gets_it(turn).await;
        guard.unlock().await.unwrap();
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_and_the_password_outlive_a_cut() {
    let server = harness::RedisServer::builder().arg("--databases").arg("4");
    let stage = Stage::with(server).await;
    stage.redis().query::<()>(
        harness::redis::cmd("ACL")
            .arg(&["SETUSER", "service", "on", ">secret", "~*", "&*", "+@all"]),
    );
    let url = format!("redis://service:secret@127.0.0.1:{}/3", stage.proxy.port());
    let config = redisson_lock::Config::from_url(url).unwrap();
    let client = connect(config).await;
    let lock = client.lock(LOCK);
    for _ in 0..3 {
        stage.proxy.cut_all();
        let guard = soon("to acquire", lock.lock()).await.unwrap();
        stage.redis().query::<()>(harness::redis::cmd("SELECT").arg(3));
        stage.assert_held_by(&guard, LOCK);
        guard.unlock().await.unwrap();
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_gives_up_during_a_cut_leaves_no_subscription() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    for wait in [0, 1, 5, 20, 60] {
        let turn = waiter(&client, LOCK);
        stage.listening(LOCK, 1).await;
        stage.proxy.cut_matching("SUBSCRIBE");
        tokio::time::sleep(Duration::from_millis(wait)).await;
        turn.abort();
        within(SOON, "the subscription to end", stage.listening(LOCK, 0)).await;
    }
    assert!(stage.redis().pttl(LOCK) > 0);
    guard.unlock().await.unwrap();
    stage.end([client, holder]).await;
}

/// A connection that hangs while others work, as behind a firewall that has forgotten it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_connection_that_hangs_is_replaced_before_a_hold_is_lost() {
    let stage = Stage::new().await;
    let config =
        stage.config().watchdog(Duration::from_secs(6)).command_timeout(Duration::from_secs(3));
    let client = connect(config).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    // All that follows on this connection is held back with it, and on no other.
    stage.proxy.hold_requests_with("poison");
    let poison = client.lock("poison");
    let poisoned = tokio::spawn(async move { poison.is_locked().await });
    eventually(PATIENCE, "the connection to hang", || (stage.proxy.held() > 0).then_some(())).await;
    renewed(&guard).await;
    assert_redis_error(soon("to be refused", poisoned).await.unwrap());
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_taken_while_the_network_comes_and_goes_excludes_others() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let (inside, visits) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let visitor = |client: Client| {
        let (inside, visits) = (&inside, &visits);
        async move {
            let lock = client.lock(LOCK);
            for _ in 0..40 {
                let guard = within(PATIENCE, "to acquire", lock.lock()).await.unwrap();
                assert_eq!(inside.fetch_add(1, SeqCst), 0, "two at a time");
                tokio::task::yield_now().await;
                assert_eq!(inside.fetch_sub(1, SeqCst), 1, "two at a time");
                visits.fetch_add(1, SeqCst);
                guard.unlock().await.unwrap();
            }
        }
    };
    let vandal = async {
        let needles = [
            sha("reentrant/acquire"),
            sha("reentrant/release"),
            "SUBSCRIBE".into(),
            lock_channel(LOCK),
        ];
        loop {
            match fastrand::usize(0..3) {
                0 => drop(stage.proxy.lose_next_reply(fastrand::choice(&needles).unwrap())),
                1 => drop(stage.proxy.lose_requests(fastrand::choice(&needles).unwrap(), 1)),
                _ => drop(stage.proxy.cut_all()),
            }
            let (seen, began) = (visits.load(SeqCst), Instant::now());
            tokio::time::sleep(Duration::from_millis(fastrand::u64(30..200))).await;
            // On a busy machine it may take longer than that to connect, and nobody would get a turn.
            while visits.load(SeqCst) == seen && began.elapsed() < Duration::from_secs(1) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    };
    tokio::select! {
        () = vandal => {}
        _ = futures::future::join_all([
            visitor(client.clone()),
            visitor(client.clone()),
            visitor(far.clone()),
            visitor(far.clone()),
        ]) => {}
    }
    assert_eq!(visits.into_inner(), 160);
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_in_the_middle_of_many_operations_is_nobodys_error() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let worker = async |n: usize| {
        let lock = client.lock(format!("lock:{n}"));
        loop {
            let guard = soon("to acquire", lock.lock()).await.unwrap();
            soon("to unlock", guard.unlock()).await.unwrap();
        }
    };
    let cuts = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            stage.proxy.cut_all();
        }
    };
    tokio::select! {
        _ = futures::future::join_all((0..16).map(worker)) => {}
        () = cuts => {}
    }
    stage.end([client]).await;
}
