//! A server that lets its clients wait: another's script runs on and on (`BUSY`), or an operator pauses them (`CLIENT PAUSE`).

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{EndlessScript, PATIENCE, eventually};
use redisson_lock::{Client, Error, Loss};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::held::{self, KINDS, SLACK, all_told, lock_of, one_of_each, rival_of};
use crate::stage::{LOCK, SHORT, Stage, WATCHDOG, assert_redis_error, connect, renewed, soon};

/// So soon after a server's pause it serves everybody.
const BACK: Duration = Duration::from_secs(1);

/// What lets all wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// A script of somebody else, which is killed in the end.
    Script,
    All,
    Write,
}

impl Pause {
    /// Begins it. The handle gives the moment of its end.
    fn begin(self, stage: &Stage, time: Duration) -> JoinHandle<Instant> {
        let begun = Instant::now();
        let script = (self == Self::Script).then(|| EndlessScript::begin(&stage.server));
        if script.is_none() {
            let which = if self == Self::All { "ALL" } else { "WRITE" };
            let time = u64::try_from(time.as_millis()).unwrap();
            let () = stage.redis().query(cmd("CLIENT").arg("PAUSE").arg(time).arg(which));
        }
        tokio::spawn(async move {
            sleep(time.saturating_sub(begun.elapsed())).await;
            if let Some(script) = script {
                script.kill();
            }
            Instant::now()
        })
    }
}

const PAUSES: [Pause; 3] = [Pause::Script, Pause::All, Pause::Write];

/// Much shorter than a lease, and than a command may take.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_pause_is_nobodys_error_and_no_loss() {
    for pause in PAUSES {
        let stage = Stage::new().await;
        let client = connect(stage.config().watchdog(2 * SHORT)).await;
        let other = stage.client().await;
        let held = one_of_each(&client, "held").await;
        let end = pause.begin(&stage, Duration::from_millis(1_200));
        let turns = KINDS.map(|kind| {
            let lock = lock_of(&other, kind, &format!("new:{kind}"));
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                let now = Instant::now();
                guard.unlock().await.unwrap();
                now
            })
        });
        let end = end.await.unwrap();
        for turn in turns {
            let after = soon("to be served", turn).await.unwrap().saturating_duration_since(end);
            assert!(after < BACK + SLACK, "{pause:?}: served {after:?} after it");
        }
        for held in held {
            renewed(&held.guard).await;
            held.guard.unlock().await.unwrap();
        }
        held::end(&stage, [client, other]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_longer_than_a_lease_costs_holders_their_locks_in_time() {
    a_long_pause(Pause::Script).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_all_clients_longer_than_a_lease_costs_holders_their_locks_in_time() {
    a_long_pause(Pause::All).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_of_writes_longer_than_a_lease_costs_holders_their_locks_in_time() {
    a_long_pause(Pause::Write).await;
}

/// Holders are told before the keys go. Those who have waited are served when it ends. What was sent meanwhile and comes
/// late does nothing.
async fn a_long_pause(pause: Pause) {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let waiting = stage.client().await;
    let terms = stage.config().command_timeout(Duration::from_millis(300));
    let impatient = connect(terms.retry_timeout(Duration::from_secs(5))).await;
    let held = one_of_each(&client, "held").await;
    let turns: Vec<_> = held
        .iter()
        .map(|held| {
            let lock = rival_of(&waiting, held.kind, &held.name);
            tokio::spawn(async move {
                // One that gives up asks again.
                let guard = loop {
                    match lock.lock().await {
                        Ok(guard) => break guard,
                        Err(Error::Redis(_)) => {}
                        Err(error) => panic!("{error}"),
                    }
                };
                let now = Instant::now();
                guard.unlock().await.unwrap();
                now
            })
        })
        .collect();
    // Renewed lately, and all who wait have asked.
    for held in &held {
        renewed(&held.guard).await;
    }
    held.iter().for_each(|held| held.assert_trusted_for_less_than_it_is_kept(&stage));
    let begun = Instant::now();
    let time = SHORT + Duration::from_secs(2);
    let end = pause.begin(&stage, time);
    let told = all_told(held);
    // Its requests reach the server, and it is not told so.
    for kind in KINDS {
        let lock = lock_of(&impatient, kind, &format!("late:{kind}"));
        assert_redis_error(soon("to be told", lock.try_lock()).await);
    }
    let told = told.await.unwrap();
    for told in &told {
        let after = told.at - begun;
        assert_eq!(told.why, Loss::Expired, "{}", told.held.name);
        assert!(after < SHORT + SLACK, "{}: told after {after:?}", told.held.name);
    }
    let end = end.await.unwrap();
    let mut longest = Duration::ZERO;
    for turn in turns {
        let granted = soon("to be served", turn).await.unwrap();
        longest = longest.max(granted.saturating_duration_since(end));
    }
    println!("{pause:?}: all served {longest:?} after its end");
    assert!(longest < 3 * BACK + SLACK, "{pause:?}: served {longest:?} after it");
    for told in told {
        told.held.stays_lost().await;
    }
    let late = || {
        let keys = stage.redis().keys();
        keys.iter().all(|key| key.contains("_token:")).then_some(())
    };
    eventually(PATIENCE, "what came late to be undone", late).await;
    gets_a_lock_at_once(&impatient).await;
    held::end(&stage, [client, waiting, impatient]).await;
}

/// What could not be said while the script ran is said afterwards.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_that_gives_up_while_a_script_runs_does_not_listen_for_ever() {
    let stage = Stage::new().await;
    let (holder, client) = (stage.far_client().await, stage.client().await);
    let guard = holder.lock(LOCK).lock().await.unwrap();
    let lock = client.lock(LOCK);
    let waiter = tokio::spawn(async move { lock.try_lock().wait(BACK).await });
    stage.listening(LOCK, 1).await;
    let end = Pause::Script.begin(&stage, 3 * BACK);
    let waited = soon("to give up", waiter).await.unwrap();
    assert!(!matches!(waited, Ok(Some(_))), "{waited:?}");
    end.await.unwrap();
    stage.listening(LOCK, 0).await;
    guard.unlock().await.unwrap();
    held::end(&stage, [holder, client]).await;
}

async fn gets_a_lock_at_once(client: &Client) {
    let guard = soon("a lock", client.lock("afterwards").lock()).await.unwrap();
    guard.unlock().await.unwrap();
}

/// What another program has written of holders, all of them dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_without_number_do_not_keep_the_server_busy() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let lock = client.read_write_lock(LOCK);
    let mut junk = cmd("HSET");
    junk.arg(LOCK);
    for holder in 0..10_000 {
        junk.arg(format!("other:{holder}")).arg(1_000);
    }
    for lock in [lock.read_lock(), lock.write_lock()] {
        for forces in [false, true] {
            let guard = lock.lock().lease(WATCHDOG).await.unwrap();
            let () = stage.redis().query(&junk);
            let begun = Instant::now();
            if forces {
                assert!(lock.force_unlock().await.unwrap());
            } else {
                guard.unlock().await.unwrap();
            }
            let took = begun.elapsed();
            assert!(took < BACK + SLACK, "forces: {forces}: the server was busy for {took:?}");
            let () = stage.redis().query(cmd("DEL").arg(LOCK));
        }
    }
    held::end(&stage, [client]).await;
}
