//! Replies that are lost or come late. The request has taken effect all the same, once.

use std::time::{Duration, Instant};

use futures::future::{join, join_all, join3};
use harness::redis::cmd;
use redisson_lock::{Client, Loss};

use crate::stage::{
    LOCK, SHORT, Stage, WATCHDOG, assert_redis_error, connect, gets_it, renewed, sha, soon, waiter,
    warm_up, why_not_held,
};

/// So many times a reply is lost, by several clients at a time.
const ROUNDS: usize = 25;
const CLIENTS: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_whose_grants_are_lost_on_the_way_holds_once() {
    let stage = Stage::new().await;
    let (stage, acquire) = (&stage, &*sha("reentrant/acquire"));
    let clients = join_all((0..CLIENTS).map(|client| async move {
        let name = format!("order:{client}:");
        let client = stage.client().await;
        warm_up(&client).await;
        let lock = client.lock(&name);
        for round in 1..=ROUNDS {
            let lost = stage.proxy.lose_next_reply([acquire, &name]);
            let guard = soon("to acquire", lock.lock()).await.unwrap();
            assert_eq!(lost.count(), 1);
            stage.assert_held_by(&guard, &name);
            assert_eq!(stage.hold_count(&name), 1, "round {round}");
            guard.unlock().await.unwrap();
            assert_eq!(stage.hold_count(&name), 0, "round {round}");
        }
        client
    }))
    .await;
    stage.end(clients).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_whose_answer_is_lost_has_released() {
    let stage = Stage::new().await;
    let (stage, release) = (&stage, &*sha("reentrant/release"));
    let clients = join_all((0..CLIENTS).map(|client| async move {
        let name = format!("order:{client}:");
        let client = stage.client().await;
        warm_up(&client).await;
        let lock = client.lock(&name);
        for round in 1..=ROUNDS {
            let guard = lock.lock().await.unwrap();
            let lost = stage.proxy.lose_next_reply([release, &name]);
            let unlocked = soon("to unlock", guard.unlock()).await;
            assert!(unlocked.is_ok(), "round {round}: {unlocked:?}");
            assert_eq!(lost.count(), 1);
            assert_eq!(stage.hold_count(&name), 0, "round {round}");
        }
        client
    }))
    .await;
    stage.end(clients).await;
}

/// Over fred the error ends the connection, and with it the calls under way. They may have run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clusterdown_to_one_call_is_no_answer_to_another() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    let other = client.lock("other");
    other.is_locked().await.unwrap();
    for _ in 0..5 {
        let guard = client.lock(LOCK).lock().await.unwrap();
        stage.proxy.delay_replies(Duration::from_millis(200));
        let down = stage.proxy.answer_next("other", "-CLUSTERDOWN Hash slot not served");
        let (_, unlocked) = soon("to unlock", join(other.is_locked(), guard.unlock())).await;
        assert_eq!(down.count(), 1);
        assert!(unlocked.is_ok(), "{unlocked:?}");
        stage.proxy.heal();
        assert_eq!(stage.hold_count(LOCK), 0);
    }
    stage.end([client]).await;
}

/// It was the only word its holder would have had of it: nobody renews a lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_does_not_hide_from_a_holder_with_a_lease_that_its_hold_may_have_been_lost() {
    let stage = Stage::new().await;
    let (client, other) = (stage.client().await, stage.far_client().await);
    warm_up(&client).await;
    for (kind, script) in [("plain", "reentrant"), ("fair", "fair"), ("write", "write")] {
        let lock = |client: &Client| match kind {
            "plain" => client.lock(LOCK),
            "fair" => client.fair_lock(LOCK),
            _ => client.read_write_lock(LOCK).write_lock().clone(),
        };
        lock(&client).lock().await.unwrap().unlock().await.unwrap();
        let guard = lock(&client).lock().lease(WATCHDOG).await.unwrap();
        stage.redis().query::<()>(cmd("DEL").arg(LOCK));
        lock(&other).lock().await.unwrap().unlock().await.unwrap();
        let lost = stage.proxy.lose_next_reply([&*sha(&format!("{script}/release")), LOCK]);
        let unlocked = soon("to unlock", guard.unlock()).await;
        assert_eq!(lost.count(), 1);
        assert_eq!(why_not_held(unlocked), Loss::Unknown, "{kind}");
    }
    stage.end([client, other]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_repeated_does_not_free_the_next_holders_lock() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let next = stage.far_client().await;
    warm_up(&client).await;
    let release = sha("reentrant/release");
    for _ in 0..10 {
        let guard = client.lock(LOCK).lock().await.unwrap();
        let turn = waiter(&next, LOCK);
        stage.listening(LOCK, 1).await;
        stage.proxy.lose_next_reply([&release, LOCK]);
        let (unlocked, (next_guard, _)) = tokio::join!(guard.unlock(), gets_it(turn));
        unlocked.unwrap();
        stage.assert_held_by(&next_guard, LOCK);
        next_guard.unlock().await.unwrap();
    }
    stage.end([client, next]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re_entries_and_releases_whose_answers_are_lost_count_once() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    let lock = client.lock(LOCK);
    let mut me = client.owner();
    let mut guards = vec![lock.lock().by(&mut me).await.unwrap()];
    for count in 2..=12 {
        let lost = stage.proxy.lose_next_reply([&sha("reentrant/reenter"), LOCK]);
        let guard = soon("to re-enter", lock.lock().by(&mut me)).await.unwrap();
        assert_eq!(lost.count(), 1);
        assert_eq!(guard.hold_count(), count);
        assert_eq!(stage.hold_count(LOCK), i64::from(count));
        guards.push(guard);
    }
    while let Some(guard) = guards.pop() {
        let lost = stage.proxy.lose_next_reply([&sha("reentrant/release"), LOCK]);
        soon("to unlock", guard.unlock()).await.unwrap();
        assert_eq!(lost.count(), 1);
        assert_eq!(stage.hold_count(LOCK), guards.len() as i64);
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn renewals_whose_answers_are_lost_are_no_loss() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let renew = sha("reentrant/renew");
    let guard = client.lock(LOCK).lock().await.unwrap();
    for _ in 0..3 {
        let lost = stage.proxy.lose_replies([&renew, LOCK], 2);
        lost.reached(2).await;
        renewed(&guard).await;
    }
    let told = tokio::time::timeout(Duration::ZERO, guard.lost()).await;
    assert!(told.is_err(), "a loss was told: {told:?}");
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_replies_cost_time_and_trust_is_counted_from_the_request() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let lock = client.lock(LOCK);
    let lease = Duration::from_secs(10);
    for delay in [50, 100, 200].map(Duration::from_millis) {
        stage.proxy.delay_replies(delay);
        let mut me = client.owner();
        let asked = Instant::now();
        let outer = lock.lock().by(&mut me).lease(lease).await.unwrap();
        let trusted = outer.remaining();
        assert!(trusted < lease - delay, "{trusted:?} after {delay:?}");
        assert!(trusted + asked.elapsed() + Duration::from_secs(5) > lease);

        let inner = lock.lock().by(&mut me).await.unwrap();
        assert_eq!(stage.hold_count(LOCK), 2);
        // The inner one's lease is longer, and it is renewed.
        assert!(inner.remaining() > lease);
        assert!(lock.try_lock().await.unwrap().is_none());

        inner.unlock().await.unwrap();
        assert_eq!(stage.hold_count(LOCK), 1);
        outer.unlock().await.unwrap();
        assert_eq!(stage.hold_count(LOCK), 0);
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_behind_a_slow_network_gets_its_turn() {
    let stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    stage.proxy.delay_replies(Duration::from_millis(100));
    for _ in 0..3 {
        let guard = holder.lock(LOCK).lock().await.unwrap();
        let turn = waiter(&client, LOCK);
        stage.listening(LOCK, 1).await;
        guard.unlock().await.unwrap();
        let (guard, _) = gets_it(turn).await;
        guard.unlock().await.unwrap();
    }
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grant_that_comes_after_its_lease_is_no_grant() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    stage.proxy.delay_replies(Duration::from_millis(200));
    let lock = client.lock(LOCK);
    let lease = Duration::from_millis(100);
    why_not_held(lock.lock().lease(lease).await);
    why_not_held(lock.try_lock().lease(lease).await);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_slower_than_the_timeout_are_errors_and_leave_nothing() {
    let stage = Stage::new().await;
    let timeout = Duration::from_millis(700);
    let config = stage.config().command_timeout(timeout).retry_timeout(3 * timeout);
    let client = connect(config).await;
    warm_up(&client).await;
    let guard = client.lock("held").lock().await.unwrap();
    stage.proxy.delay_replies(5 * timeout);
    let (lock, other) = (client.lock(LOCK), client.lock("other"));
    let (locked, tried, unlocked) = soon(
        "to be refused",
        join3(lock.lock().into_future(), other.try_lock().into_future(), guard.unlock()),
    )
    .await;
    assert_redis_error(locked);
    assert_redis_error(tried);
    assert_redis_error(unlocked);
    stage.proxy.heal();
    // All that was done and not told is undone by itself, once the delayed answers are through.
    stage.nothing_held().await;
    stage.end([client]).await;
}
