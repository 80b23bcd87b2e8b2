//! The names of a client's connections on the server.

use harness::redis::{Value, cmd, from_redis_value};
use harness::{PATIENCE, eventually};
use redisson_lock::{Client, Replicas};

use crate::stage::{LOCK, SHORT, Stage, connect, renewed, soon, waiter};
use crate::warnings::listen;

/// The names of this crate's connections.
fn names(stage: &Stage) -> Vec<String> {
    let list: String = stage.redis().query(cmd("CLIENT").arg("LIST"));
    let words = list.split_whitespace().filter_map(|word| word.strip_prefix("name="));
    words.filter(|name| name.starts_with("redisson-lock:")).map(str::to_owned).collect()
}

async fn named(stage: &Stage, name: &str, count: usize) {
    eventually(PATIENCE, &format!("{count} connections with the name {name}"), || {
        (names(stage).iter().filter(|one| *one == name).count() == count).then_some(())
    })
    .await;
}

fn name(client: &Client, app: &str) -> String {
    format!("redisson-lock:{}{app}", client.id())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_have_the_name_of_the_client_also_when_they_are_made_again() {
    let stage = Stage::new().await;
    let config = stage.config().announce("or ders").unwrap();
    let (plain, announced) = (stage.client().await, connect(config).await);
    named(&stage, &name(&plain, ""), 2).await;
    named(&stage, &name(&announced, ":or_ders"), 2).await;
    // With subscriptions, which a connection takes anew.
    let far = stage.far_client().await;
    let held = far.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&plain, LOCK);
    stage.listening(LOCK, 1).await;
    for _ in 0..3 {
        stage.proxy.cut_all();
        named(&stage, &name(&plain, ""), 2).await;
        named(&stage, &name(&announced, ":or_ders"), 2).await;
        stage.listening(LOCK, 1).await;
    }
    held.unlock().await.unwrap();
    soon("the lock", turn).await.unwrap().unwrap().unlock().await.unwrap();
    // And those for replicas.
    let lock = plain.lock(LOCK).replicas(Replicas::AtLeast(1));
    assert!(lock.try_lock().await.is_err(), "there is no replica");
    named(&stage, &name(&plain, ""), 3).await;
    stage.end([plain, announced, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_the_name_is_asked_once_and_nobody_is_told() {
    let warnings = listen();
    let stage = Stage::new().await;
    let all = ["SETUSER", "service", "on", ">secret", "~*", "&*", "+@all", "-client"];
    stage.redis().query::<()>(cmd("ACL").arg(&all));
    let url = stage.proxy.url().replace("redis://", "redis://service:secret@");
    let config = redisson_lock::Config::from_url(url).unwrap().watchdog(SHORT);
    let client = connect(config).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    let refused = || {
        let log = harness::refused(&mut stage.server.client());
        log.into_iter().filter(|what| what.contains("setname")).count()
    };
    eventually(PATIENCE, "a refusal", || (refused() > 0).then_some(())).await;
    renewed(&guard).await;
    for _ in 0..2 {
        stage.proxy.cut_all();
        renewed(&guard).await;
    }
    // Both connections may have asked before the first was refused. The server counts them.
    let log: Vec<Vec<Value>> = stage.redis().query(cmd("ACL").arg("LOG"));
    let entry = log.iter().find(|entry| format!("{entry:?}").contains("setname")).unwrap();
    // An entry is a list of names and values. It begins with the count.
    let count: u64 = from_redis_value(entry[1].clone()).unwrap();
    assert!((1..=2).contains(&count), "{entry:?}");
    guard.unlock().await.unwrap();
    warnings.assert_without("NOPERM");
    warnings.assert_without("setname");
    stage.end([client]).await;
}

/// The answer is lost, late, or never comes: nothing waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_waits_for_the_answer() {
    let stage = Stage::new().await;
    let lost = stage.proxy.lose_requests("SETNAME", 2);
    let client = stage.client().await;
    soon("to lock", client.lock(LOCK).lock()).await.unwrap().unlock().await.unwrap();
    lost.reached(2).await;
    soon("to lock", client.lock(LOCK).lock()).await.unwrap().unlock().await.unwrap();
    stage.end([client]).await;
}
