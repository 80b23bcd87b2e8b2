//! Users with few rights.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, assert_nothing_left, eventually, lock_channel, rights};
use redisson_lock::{Client, Config, Lock};

use crate::stage::{
    LOCK, SHORT, Stage, assert_redis_error, connect, gets_it, renewed, soon, waiter, within,
};
use crate::warnings::listen;

/// Asked whenever a connection is made, and not needed. The first is how Redis 6 says the next two.
pub(crate) const CURIOSITY: [&str; 4] = ["client", "client|id", "client|setname", "info"];

/// All that a user needs for locks whose names begin with `order:`, as `docs/operations.md` says.
fn least() -> Vec<String> {
    rights("rights (ACL)", "order:")
}

/// The same but for this.
fn least_but(rules: &[&str]) -> Vec<String> {
    least().into_iter().chain(rules.iter().map(|&rule| rule.to_owned())).collect()
}

/// The same and what a kind needs beside that.
fn least_and(kind: &str) -> Vec<String> {
    [least(), rights(kind, "order:")].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_least_rights_can_do_everything() {
    let stage = Stage::new().await;
    let far = connect(config(&stage, "default", 1)).await;
    set_user(&stage, &least());
    let client = connect(config(&stage, "service", 1).watchdog(SHORT)).await;
    let lock = client.lock(LOCK);

    let far_guard = far.lock(LOCK).lock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none());
    let turn = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;
    far_guard.unlock().await.unwrap();
    let (guard, _) = gets_it(turn).await;
    renewed(&guard).await;
    guard.check().await.unwrap();
    let mut me = client.owner();
    let turn = waiter(&far, LOCK);
    guard.unlock().await.unwrap();
    gets_it(turn).await.0.unlock().await.unwrap();

    let outer = lock.lock().by(&mut me).await.unwrap();
    let inner = lock.lock().by(&mut me).await.unwrap();
    assert_eq!(lock.inspect().await.unwrap().holders[0].count, 2);
    inner.unlock().await.unwrap();
    assert!(lock.force_unlock().await.unwrap());
    // By a renewal.
    soon("to be told", outer.lost()).await;
    assert!(!lock.is_locked().await.unwrap());
    drop(outer);

    let refused = refused(&stage);
    assert!(refused.iter().all(|what| CURIOSITY.contains(&&**what)), "{refused:?}");
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_least_rights_for_a_kind_can_do_everything_with_it() {
    type Locks = fn(&Client) -> Vec<Lock>;
    let kinds: [(Vec<String>, Locks); 4] = [
        (least_and("beside these, fair locks need"), |client| vec![client.fair_lock(LOCK)]),
        (least_and("read/write locks"), |client| {
            let lock = client.read_write_lock(LOCK);
            vec![lock.write_lock().clone(), lock.read_lock().clone()]
        }),
        (least(), |client| vec![client.spin_lock(LOCK), client.non_reentrant_lock(LOCK)]),
        (least_and("plain locks"), |client| vec![client.plain_lock(LOCK)]),
    ];
    for (rights, locks) in kinds {
        let stage = Stage::new().await;
        set_user(&stage, &rights);
        let client = connect(config(&stage, "service", 0).watchdog(SHORT)).await;
        for lock in locks(&client) {
            everything_with(&client, &lock).await;
        }
        let refused = refused(&stage);
        assert!(refused.iter().all(|what| CURIOSITY.contains(&&**what)), "{refused:?}");
        stage.end([client]).await;
    }
    let stage = Stage::new().await;
    set_user(&stage, &least_and("fenced locks"));
    let client = connect(config(&stage, "service", 0)).await;
    let lock = client.fenced_lock(LOCK);
    for token in 1..4 {
        let guard = lock.lock().await.unwrap();
        assert_eq!(guard.token().value(), token);
        guard.unlock().await.unwrap();
    }
    assert!(lock.latest_token().await.unwrap().is_some());
    let () = stage.redis().query(cmd("DEL").arg("redisson_lock_token:{order:42}"));
    stage.end([client]).await;
}

async fn everything_with(client: &Client, lock: &Lock) {
    let guard = lock.lock().await.unwrap();
    let turns = [(); 2].map(|()| {
        let lock = lock.clone();
        tokio::spawn(async move { lock.lock().await?.unlock().await })
    });
    assert!(lock.inspect().await.unwrap().holders.iter().any(|holder| holder.ours));
    drop(lock.try_lock().wait(Duration::from_millis(100)).await.unwrap());
    renewed(&guard).await;
    guard.unlock().await.unwrap();
    for turn in turns {
        soon("to take turns", turn).await.unwrap().unwrap();
    }
    let mut me = client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    let inner = lock.lock().by(&mut me).await;
    if let Ok(inner) = inner {
        inner.unlock().await.unwrap();
    }
    assert!(lock.force_unlock().await.unwrap());
    soon("to be told", outer.lost()).await;
    drop(outer);
}

#[tokio::test]
async fn a_waiter_that_must_not_subscribe_polls_and_says_so() {
    let warnings = listen();
    let stage = Stage::new().await;
    let far = stage.far_client().await;
    set_user(&stage, &least_but(&["-subscribe"]));
    let client = connect(config(&stage, "service", 0)).await;
    for _ in 0..2 {
        let far_guard = far.lock(LOCK).lock().await.unwrap();
        let turn = waiter(&client, LOCK);
        warnings.eventually_has(&["could not subscribe"]).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!turn.is_finished());
        far_guard.unlock().await.unwrap();
        let (guard, took) = gets_it(turn).await;
        println!("polling: got the lock {took:?} after the release");
        guard.unlock().await.unwrap();
    }
    stage.end([client, far]).await;
}

/// Over fred a PING is to confirm a subscription. It is refused, and the server has subscribed.
#[tokio::test]
async fn a_user_who_may_not_ping_leaves_no_subscription() {
    let stage = Stage::new().await;
    let far = stage.far_client().await;
    set_user(&stage, &least_but(&["-ping"]));
    let client = connect(config(&stage, "service", 0)).await;
    for n in 0..8 {
        let name = format!("{LOCK}:{n}");
        let guard = far.lock(&name).lock().await.unwrap();
        let turn = waiter(&client, &name);
        tokio::time::sleep(Duration::from_millis(150)).await;
        turn.abort();
        guard.unlock().await.unwrap();
        let subscribers = || stage.redis().subscribers(&lock_channel(&name));
        eventually(PATIENCE, "nobody to be subscribed", || (subscribers() == 0).then_some(()))
            .await;
    }
    stage.end([client, far]).await;
}

#[tokio::test]
async fn a_user_without_channels_is_told_and_holds_up_nobody() {
    let warnings = listen();
    let stage = Stage::new().await;
    let far = stage.far_client().await;
    set_user(&stage, &least_but(&["resetchannels"]));
    let client = connect(config(&stage, "service", 0)).await;
    let far_guard = far.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    warnings.eventually_has(&["could not subscribe"]).await;
    far_guard.unlock().await.unwrap();
    let (guard, _) = gets_it(turn).await;
    let turn = waiter(&far, LOCK);
    stage.listening(LOCK, 1).await;
    // It is free all the same, but nobody is told.
    assert_redis_error(guard.unlock().await);
    let (guard, took) = gets_it(turn).await;
    println!("no message: got the lock {took:?} after the release");
    guard.unlock().await.unwrap();
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_is_refused_spoils_no_other() {
    let stage = Stage::new().await;
    let far = stage.far_client().await;
    let channel = format!("&{}", lock_channel("order:yes*").replace('}', ""));
    set_user(&stage, &least_but(&["resetchannels", &channel]));
    let client = connect(config(&stage, "service", 0)).await;
    for round in 0..3 {
        let (yes, no) = (format!("order:yes:{round}"), format!("order:no:{round}"));
        let (far_yes, far_no) =
            (far.lock(&yes).lock().await.unwrap(), far.lock(&no).lock().await.unwrap());
        let turn_no = waiter(&client, &no);
        eventually(PATIENCE, "the channel to be refused", || {
            let refused = refused(&stage);
            refused.contains(&lock_channel(&no)).then_some(())
        })
        .await;
        let turn_yes = waiter(&client, &yes);
        stage.listening(&yes, 1).await;
        assert_eq!(stage.redis().subscribers(&lock_channel(&no)), 0);
        far_yes.unlock().await.unwrap();
        let (guard, took) = gets_it(turn_yes).await;
        println!("beside a channel that is refused: got the lock after {took:?}");
        guard.unlock().await.unwrap();

        // A last time without the other: one that is refused is polled for, and not relied upon.
        far_no.unlock().await.unwrap();
        let begun = Instant::now();
        let guard = soon("for the waiter to get the lock", turn_no).await.unwrap().unwrap();
        println!("channel refused: got the lock after {:?}", begun.elapsed());
        drop(guard);
        eventually(PATIENCE, "the release", || (stage.hold_count(&no) == 0).then_some(())).await;
    }
    stage.end([client, far]).await;
}

/// A script that is refused in its middle must not leave a lock for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_set_a_ttl_gets_no_lock_and_leaves_none() {
    let stage = Stage::new().await;
    set_user(&stage, &least_but(&["-pexpire"]));
    let client = connect(config(&stage, "service", 0)).await;
    let both = client.read_write_lock("both");
    // A read has a key beside the lock.
    for lock in [&client.lock(LOCK), both.read_lock(), both.write_lock()] {
        assert_redis_error(lock.try_lock().await);
        assert_nothing_left(&stage.server).await;
        assert_redis_error(lock.lock().await);
        assert_nothing_left(&stage.server).await;
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_out_of_bounds_is_an_error() {
    let stage = Stage::new().await;
    set_user(&stage, &least());
    let client = connect(config(&stage, "service", 0)).await;
    let lock = client.lock("invoice:1");
    assert_redis_error(soon("to be refused", lock.lock()).await);
    assert_redis_error(soon("to be refused", lock.try_lock()).await);
    assert_redis_error(lock.inspect().await);
    assert_redis_error(lock.force_unlock().await);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_who_may_not_even_ask_the_time_is_told_and_leaves_no_connection() {
    let stage = Stage::new().await;
    let before = stage.connections();
    set_user(&stage, &least_but(&["-time"]));
    assert_redis_error(Client::connect(config(&stage, "service", 0)).await);
    within(PATIENCE, "the connections to go", stage.connections_down_to(before)).await;
    stage.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_are_taken_away_and_given_back_are_no_loss() {
    let stage = Stage::new().await;
    set_user(&stage, &least());
    let client = connect(config(&stage, "service", 0).watchdog(2 * SHORT)).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    set_user(&stage, &["-evalsha", "-eval"]);
    eventually(PATIENCE, "a renewal to be refused", || {
        refused(&stage).contains(&"evalsha".to_owned()).then_some(())
    })
    .await;
    assert_redis_error(guard.check().await);
    set_user(&stage, &["+evalsha", "+eval"]);
    renewed(&guard).await;
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

/// The script cannot tell whose the lock is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_that_may_not_look_for_its_hold_is_no_loss() {
    let stage = Stage::new().await;
    set_user(&stage, &least());
    let client = connect(config(&stage, "service", 0).watchdog(2 * SHORT)).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    set_user(&stage, &["-hexists"]);
    eventually(PATIENCE, "a renewal to be refused", || {
        refused(&stage).contains(&"hexists".to_owned()).then_some(())
    })
    .await;
    set_user(&stage, &["+hexists"]);
    renewed(&guard).await;
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

pub(crate) fn config(stage: &Stage, user: &str, database: u8) -> Config {
    let port = stage.proxy.port();
    let credentials = match user {
        "default" => String::new(),
        user => format!("{user}:secret@"),
    };
    Config::from_url(format!("redis://{credentials}127.0.0.1:{port}/{database}")).unwrap()
}

/// Adds to the rights of the user; new ones have none.
pub(crate) fn set_user(stage: &Stage, rules: &[impl AsRef<str>]) {
    let rules = rules.iter().map(AsRef::as_ref);
    // New users of Redis 6 have all channels.
    let channels = rules.clone().any(|rule| rule.starts_with('&')).then_some("resetchannels");
    let set = ["SETUSER", "service", "on", ">secret"].into_iter().chain(channels).chain(rules);
    let set: Vec<_> = set.collect();
    stage.redis().query::<()>(cmd("ACL").arg(set));
}

/// What the server has refused since it runs.
pub(crate) fn refused(stage: &Stage) -> Vec<String> {
    harness::refused(&mut stage.server.client())
}
