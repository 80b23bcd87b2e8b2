//! Questions to a holder on a network that fails, on a server that goes, and for users with few rights.

use std::time::Duration;

use harness::redis::cmd;
use harness::rights;
use redisson_lock::{Asked, Client, Error, Lock, LockGuard, Loss};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::rights::{CURIOSITY, config, refused, set_user};
use crate::stage::{
    LOCK, SHORT, Stage, assert_redis_error, connect, gets_through, soon, why_not_held, within,
};
use crate::warnings::listen;

/// The key of the questions, and their channel.
const QUESTIONS: &str = "redisson_lock_asked:{order:42}";

/// Longer than a listener relies on messages.
const SECOND_LOOK: Duration = Duration::from_secs(20);

async fn hears(guard: &LockGuard) {
    soon("to be asked", guard.asked_to_release()).await;
    assert!(guard.is_asked_to_release());
}

/// Gives the lock back when it is asked to.
fn obliging(guard: LockGuard) -> JoinHandle<Result<(), Error>> {
    tokio::spawn(async move {
        guard.asked_to_release().await;
        guard.unlock().await
    })
}

fn every_kind(client: &Client) -> [Lock; 9] {
    let sides = client.read_write_lock("order:sides");
    [
        client.lock("order:lock"),
        client.fair_lock("order:fair"),
        client.non_reentrant_lock("order:once"),
        client.non_reentrant_fair_lock("order:fair once"),
        client.fenced_lock("order:fenced").into(),
        client.spin_lock("order:spin"),
        client.plain_lock("order:plain"),
        sides.read_lock().clone(),
        sides.write_lock().clone(),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_each_kind_hear_it_before_and_while_they_listen() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    for (lock, theirs) in every_kind(&client).into_iter().zip(every_kind(&far)) {
        assert_eq!(theirs.ask_to_release().await.unwrap(), Asked::Free);
        let guard = soon("to get it", lock.lock()).await.unwrap();
        let asked = theirs.ask_to_release().await.unwrap();
        assert!(matches!(asked, Asked::Sent { holders: 1, listening: 0, .. }), "{asked:?}");
        hears(&guard).await;
        guard.unlock().await.unwrap();

        let guard = soon("to get it", lock.lock()).await.unwrap();
        let questions = format!("redisson_lock_asked:{{{}}}", lock.name().unwrap());
        let obliging = obliging(guard);
        stage.listening_on(&questions, 1).await;
        sleep(Duration::from_millis(100)).await;
        assert!(!obliging.is_finished(), "the hold before was asked");
        assert!(theirs.ask_to_release().await.unwrap().is_heard());
        soon("to give it back", obliging).await.unwrap().unwrap();
        soon("to get it", theirs.lock()).await.unwrap().unlock().await.unwrap();
        stage.listening_on(&questions, 0).await;
    }
    stage.redis().query::<()>(cmd("DEL").arg("redisson_lock_token:{order:fenced}"));
    stage.end([client, far]).await;
}

/// A future that is made anew for each step of the work misses nothing, and sends nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_that_is_dropped_again_and_again_misses_nothing() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let guard = client.lock(LOCK).lock().await.unwrap();
    let mut commands = harness::Commands::watch(stage.server.client());
    for _ in 0..1_000 {
        assert!(timeout(Duration::ZERO, guard.asked_to_release()).await.is_err());
    }
    stage.listening_on(QUESTIONS, 1).await;
    sleep(Duration::from_millis(300)).await;
    let sent = commands.so_far(stage.redis());
    let sent =
        sent.iter().filter(|line| line.contains("redisson_lock_asked") && line.contains("lua"));
    assert!(sent.count() <= 2, "once when it is subscribed, and perhaps once before");
    far.lock(LOCK).ask_to_release().await.unwrap();
    let heard = async {
        while timeout(Duration::ZERO, guard.asked_to_release()).await.is_err() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    soon("to be asked", heard).await;
    guard.unlock().await.unwrap();
    stage.end([client, far]).await;
}

/// Who never asks whether it was asked sends nothing for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_nobody_asks_for_costs_what_it_did() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let mut commands = harness::Commands::watch(stage.server.client());
    let guard = client.lock(LOCK).lock().await.unwrap();
    drop(guard.asked_to_release());
    guard.unlock().await.unwrap();
    let sent = commands.so_far(stage.redis());
    assert!(sent.iter().any(|line| line.contains(LOCK)), "{sent:?}");
    assert!(!sent.iter().any(|line| line.contains("redisson_lock_asked")), "{sent:?}");
    stage.end([client]).await;
}

/// The message meets a connection that is cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_while_the_holder_is_cut_off_is_heard_when_it_is_back() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let guard = client.lock(LOCK).lock().await.unwrap();
    assert!(!guard.is_asked_to_release());
    stage.listening_on(QUESTIONS, 1).await;
    stage.proxy.refuse(true);
    stage.proxy.cut_all();
    stage.listening_on(QUESTIONS, 0).await;
    let asked = far.lock(LOCK).ask_to_release().await.unwrap();
    assert!(matches!(asked, Asked::Sent { holders: 1, listening: 0, .. }), "{asked:?}");
    assert!(!guard.is_asked_to_release());
    stage.proxy.refuse(false);
    hears(&guard).await;
    guard.unlock().await.unwrap();
    stage.end([client, far]).await;
}

/// The connection for messages swallows them, and nobody notices for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_whose_message_is_swallowed_is_heard_all_the_same() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let guard = client.lock(LOCK).lock().await.unwrap();
    assert!(!guard.is_asked_to_release());
    stage.listening_on(QUESTIONS, 1).await;
    stage.proxy.forget_connections();
    far.lock(LOCK).ask_to_release().await.unwrap();
    within(SECOND_LOOK, "to be asked", guard.asked_to_release()).await;
    guard.unlock().await.unwrap();
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_about_a_question_that_is_lost_is_asked_for_again() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let lost = stage.proxy.lose_replies(QUESTIONS, 3);
    let guard = client.lock(LOCK).lock().await.unwrap();
    far.lock(LOCK).ask_to_release().await.unwrap();
    hears(&guard).await;
    // The subscription may be one of them, and is not lost.
    assert!(lost.count() >= 2);
    guard.unlock().await.unwrap();
    stage.end([client, far]).await;
}

/// With its data, so that the hold goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_survives_a_restart_of_the_server() {
    let server = harness::RedisServer::builder().arg("--appendonly").arg("yes");
    let mut stage = Stage::with(server.arg("--appendfsync").arg("always")).await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let (asked, later) = (client.lock(LOCK).lock().await.unwrap(), client.lock("later"));
    let later = later.lock().await.unwrap();
    assert!(!later.is_asked_to_release());
    stage.listening_on("redisson_lock_asked:{later}", 1).await;
    far.lock(LOCK).ask_to_release().await.unwrap();
    stage.restart_server();
    hears(&asked).await;
    stage.listening_on("redisson_lock_asked:{later}", 1).await;
    let ask = async { while far.lock("later").ask_to_release().await.is_err() {} };
    soon("to ask", ask).await;
    hears(&later).await;
    asked.unlock().await.unwrap();
    later.unlock().await.unwrap();
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_lost_hears_no_question_to_the_next_one() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let far = stage.far_client().await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    assert!(!guard.is_asked_to_release());
    stage.listening_on(QUESTIONS, 1).await;
    assert!(far.lock(LOCK).force_unlock().await.unwrap());
    let next = far.lock(LOCK).lock().await.unwrap();
    let asked = far.lock(LOCK).ask_to_release().await.unwrap();
    assert!(asked.is_heard(), "the loser listens until it knows: {asked:?}");
    let why = soon("to be told", guard.lost()).await;
    assert!(matches!(why, Loss::Taken | Loss::Removed), "{why:?}");
    stage.listening_on(QUESTIONS, 0).await;
    assert!(!guard.is_asked_to_release());
    assert!(matches!(why_not_held(guard.unlock().await), Loss::Taken | Loss::Removed));
    hears(&next).await;
    next.unlock().await.unwrap();
    // The same with `while_held`: the question does not come, the loss does.
    let guard = client.lock(LOCK).lock().await.unwrap();
    let work = tokio::spawn(async move { guard.while_held(guard.asked_to_release()).await });
    stage.listening_on(QUESTIONS, 1).await;
    assert!(far.lock(LOCK).force_unlock().await.unwrap());
    why_not_held(soon("to end", work).await.unwrap());
    stage.end([client, far]).await;
}

/// It is not handed off to a waiter of its own process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_was_asked_for_is_released_for_all_who_wait() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let guard = client.lock(LOCK).lock().await.unwrap();
    let holder = guard.holder().to_owned();
    let obliging = obliging(guard);
    stage.listening_on(QUESTIONS, 1).await;
    let turns = [&client, &far].map(|client| {
        let lock = client.lock(LOCK);
        tokio::spawn(async move {
            let guard = lock.lock().await?;
            let id = guard.holder().to_owned();
            guard.unlock().await.map(|()| id)
        })
    });
    stage.listening(LOCK, 2).await;
    assert!(far.lock(LOCK).ask_to_release().await.unwrap().is_heard());
    soon("to give it back", obliging).await.unwrap().unwrap();
    for turn in turns {
        assert_ne!(soon("to get it", turn).await.unwrap().unwrap(), holder);
    }
    stage.nothing_held_but(&[QUESTIONS]).await;
    stage.end([client, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_closed_client_and_a_server_that_is_away_are_errors_for_who_asks() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let guard = far.lock(LOCK).lock().await.unwrap();
    stage.proxy.blackhole(true);
    assert_redis_error(soon("to be told", client.lock(LOCK).ask_to_release()).await);
    stage.proxy.heal();
    gets_through(&client).await;
    stage.redis().query::<()>(cmd("SET").arg("text").arg("x"));
    let wrong = client.lock("text").ask_to_release().await;
    assert!(matches!(wrong, Err(Error::WrongKind { .. })), "{wrong:?}");
    stage.redis().query::<()>(cmd("DEL").arg("text"));
    soon("to close", client.close()).await.unwrap();
    let closed = client.lock(LOCK).ask_to_release().await;
    assert!(matches!(closed, Err(Error::Closed)), "{closed:?}");
    guard.unlock().await.unwrap();
    stage.end([far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_rights_are_enough_and_without_them_nobody_is_asked() {
    let stage = Stage::new().await;
    let kinds = [
        "rights (ACL)",
        "beside these, fair locks need",
        "read/write locks",
        "fenced locks",
        "plain locks",
    ];
    let locks: Vec<_> = kinds.iter().flat_map(|row| rights(row, "order:")).collect();
    let asking = rights("asking the holder, and hearing it", "order:");
    set_user(&stage, &locks);
    let far = connect(config(&stage, "default", 0)).await;
    let client = connect(config(&stage, "service", 0)).await;
    let lock = client.lock(LOCK);
    let guard = lock.lock().await.unwrap();
    assert_redis_error(lock.ask_to_release().await);
    far.lock(LOCK).ask_to_release().await.unwrap();
    assert!(timeout(Duration::from_secs(1), guard.asked_to_release()).await.is_err());
    assert!(refused(&stage).contains(&QUESTIONS.to_owned()));
    // What it may do now, it does at its next look.
    stage.redis().query::<()>(cmd("ACL").arg("LOG").arg("RESET"));
    set_user(&stage, &[locks, asking].concat());
    hears(&guard).await;
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
    stage.redis().query::<()>(cmd("ACL").arg("LOG").arg("RESET"));

    let client = connect(config(&stage, "service", 0)).await;
    for lock in every_kind(&client) {
        let guard = soon("to get it", lock.lock()).await.unwrap();
        let guard = obliging(guard);
        stage.listening_on(&format!("redisson_lock_asked:{{{}}}", lock.name().unwrap()), 1).await;
        assert!(lock.ask_to_release().await.unwrap().is_heard());
        soon("to give it back", guard).await.unwrap().unwrap();
    }
    let refused = refused(&stage);
    assert!(refused.iter().all(|what| CURIOSITY.contains(&&**what)), "{refused:?}");
    stage.redis().query::<()>(cmd("DEL").arg("redisson_lock_token:{order:fenced}"));
    stage.end([client, far]).await;
}

#[tokio::test]
async fn a_missing_right_is_logged_once() {
    let warnings = listen();
    let stage = Stage::new().await;
    set_user(&stage, &rights("rights (ACL)", "order:"));
    let client = connect(config(&stage, "service", 0)).await;
    for _ in 0..3 {
        let guard = client.lock(LOCK).lock().await.unwrap();
        assert!(timeout(Duration::from_millis(300), guard.asked_to_release()).await.is_err());
        guard.unlock().await.unwrap();
    }
    warnings.eventually_has(&["questions", LOCK]).await;
    assert_eq!(warnings.count("questions to the holder cannot be read"), 1);
    stage.end([client]).await;
}
