//! Servers that lose data, die, come back, or refuse to write for a while.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, eventually, read_hold_key};
use redisson_lock::{Error, Loss};

use crate::stage::{
    LOCK, SHORT, Stage, WATCHDOG, connect, gets_it, gets_through, renewed, sha, soon, visitor,
    waiter, why_not_held,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_forgets_are_sent_again() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let holder = stage.far_client().await;
    let forget = || stage.redis().query::<()>(cmd("SCRIPT").arg("FLUSH"));
    let lock = client.lock(LOCK);

    forget();
    let mut me = client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    forget();
    let inner = lock.lock().by(&mut me).await.unwrap();
    forget();
    renewed(&outer).await;
    forget();
    assert_eq!(lock.inspect().await.unwrap().holders[0].count, 2);
    forget();
    inner.unlock().await.unwrap();
    forget();
    outer.unlock().await.unwrap();

    let guard = holder.lock(LOCK).lock().await.unwrap();
    let turn = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;
    forget();
    guard.unlock().await.unwrap();
    let (guard, _) = gets_it(turn).await;
    forget();
    assert!(lock.force_unlock().await.unwrap());
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    drop(guard);
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_empty_takes_the_lock_from_its_holder_who_is_told() {
    let mut stage = Stage::new().await;
    let config = stage.config().watchdog(Duration::from_secs(6));
    let client = connect(config).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    let leased = client.lock("leased").lock().lease(WATCHDOG).await.unwrap();
    stage.restart_server();
    let back = Instant::now();
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    println!("told of the empty server {:?} after its return", back.elapsed());
    assert_eq!(why_not_held(guard.unlock().await), Loss::Removed);
    // Nobody renews it, so nobody has asked.
    assert!(leased.is_held());
    assert_eq!(why_not_held(leased.check().await), Loss::Removed);
    assert_eq!(why_not_held(leased.unlock().await), Loss::Removed);

    let guard = soon("to acquire", client.lock(LOCK).lock()).await.unwrap();
    stage.assert_held_by(&guard, LOCK);
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_gets_the_lock_from_a_server_that_comes_back_empty() {
    let mut stage = Stage::new().await;
    let (client, holder) = (stage.client().await, stage.far_client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let turns = [visitor(&client, LOCK), visitor(&client, LOCK)];
    stage.listening(LOCK, 1).await;
    stage.server.kill();
    tokio::time::sleep(Duration::from_millis(300)).await;
    stage.restart_server();
    let back = Instant::now();
    for turn in turns {
        soon("for all to be served", turn).await.unwrap().unwrap();
    }
    println!("all served {:?} after the return of the empty server", back.elapsed());
    why_not_held(guard.unlock().await);
    stage.end([client, holder]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_that_meet_a_dead_server_end_when_it_is_back() {
    let mut stage = Stage::new().await;
    let client = stage.client().await;
    let (dropped, unlocked) = (
        client.lock("dropped").lock().await.unwrap(),
        client.lock("unlocked").lock().await.unwrap(),
    );
    stage.server.kill();
    drop(dropped);
    let unlock = tokio::spawn(unlocked.unlock());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(!unlock.is_finished(), "there is nobody to say so");
    stage.restart_server();
    // Whether a copy did it before the server died, nobody can know.
    let unlock = soon("to unlock", unlock).await.unwrap();
    assert!(matches!(unlock, Ok(()) | Err(Error::NotHeld { .. })), "{unlock:?}");
    stage.end([client]).await;
}

/// As during a failover: the old master is a replica already.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_read_only_for_a_while_is_waited_for() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(2 * SHORT)).await;
    let guard = client.lock("held").lock().await.unwrap();
    let unlocked = client.lock("unlocked").lock().await.unwrap();
    read_only(&stage, true);
    let turn = waiter(&client, LOCK);
    let unlock = tokio::spawn(unlocked.unlock());
    refusals(&stage, 5).await;
    assert!(!turn.is_finished() && !unlock.is_finished());
    read_only(&stage, false);
    let (next, _) = gets_it(turn).await;
    soon("to unlock", unlock).await.unwrap().unwrap();
    renewed(&guard).await;
    guard.unlock().await.unwrap();
    next.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_was_refused_before_it_found_nothing_has_not_released() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    read_only(&stage, true);
    let unlock = tokio::spawn(guard.unlock());
    refusals(&stage, 1).await;
    stage.proxy.hold_requests_with([&sha("reentrant/release"), LOCK]);
    eventually(PATIENCE, "a release to be held back", || (stage.proxy.held() > 0).then_some(()))
        .await;
    read_only(&stage, false);
    stage.redis().query::<()>(cmd("DEL").arg(LOCK));
    stage.proxy.release_held();
    let unlocked = soon("to unlock", unlock).await.unwrap();
    assert_eq!(why_not_held(unlocked), Loss::Removed);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_lets_nobody_in_for_a_while_is_tried_again() {
    let stage = Stage::new().await;
    let set_user = || {
        let rules = ["SETUSER", "service", "on", ">secret", "~*", "&*", "+@all"];
        stage.redis().query::<()>(cmd("ACL").arg(&rules));
    };
    set_user();
    let url = format!("redis://service:secret@127.0.0.1:{}", stage.proxy.port());
    let client = connect(redisson_lock::Config::from_url(url).unwrap()).await;
    let guard = client.lock(LOCK).lock().await.unwrap();
    stage.redis().query::<()>(cmd("ACL").arg("DELUSER").arg("service"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    set_user();
    gets_through(&client).await;
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

fn read_only(stage: &Stage, on: bool) {
    // Of a master that does not exist.
    let (host, port) = if on { ("127.0.0.1", "1") } else { ("NO", "ONE") };
    stage.redis().query::<()>(cmd("REPLICAOF").arg(host).arg(port));
}

/// Waits until the server has refused to write so often.
async fn refusals(stage: &Stage, count: usize) {
    eventually(PATIENCE, "refusals to write", || {
        let stats: String = stage.redis().query(cmd("INFO").arg("errorstats"));
        let refused = stats.lines().find_map(|line| line.strip_prefix("errorstat_READONLY:count="));
        (refused?.parse::<usize>().expect("a count") >= count).then_some(())
    })
    .await;
}

/// Without memory SET is refused, and PEXPIRE is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_holds_are_renewed_by_a_server_that_has_no_memory_left() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let names = ["order:1", "order:2", "order:3"];
    let mut guards = Vec::new();
    for name in names {
        guards.push(client.read_write_lock(name).read().await.unwrap());
    }
    // One that cannot be renewed there is: its timeout key is gone, and nothing but that is to be written.
    let unlucky = read_hold_key(names[0], guards[0].holder(), 1);
    let () = stage.redis().query(cmd("PEXPIRE").arg(names[0]).arg(600_000));
    let full =
        |bytes: &str| stage.redis().query::<()>(cmd("CONFIG").arg(&["SET", "maxmemory", bytes]));
    full("1");
    let refused =
        stage.redis().try_query::<()>(cmd("SET").arg("a").arg("b")).expect_err("no memory");
    assert_eq!(refused.code(), Some("OOM"));
    let () = stage.redis().query(cmd("DEL").arg(unlucky));
    tokio::time::sleep(2 * SHORT).await;
    for (guard, name) in guards.iter().zip(names).skip(1) {
        assert!(guard.is_held(), "{name} is lost");
        guard.check().await.unwrap();
        assert!(stage.redis().pttl(&read_hold_key(name, guard.holder(), 1)) > 0);
    }
    full("0");
    // Given back, also what the last of them has lost.
    for guard in guards {
        drop(guard);
    }
    stage.end([client]).await;
}
