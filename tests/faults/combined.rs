//! Batches of calls: a failure of one call does not affect the others.

use std::time::Duration;

use futures::future::join_all;
use harness::RedisServer;
use harness::redis::cmd;
use redisson_lock::{Client, Config, Error, Lock, LockGuard};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{sleep, timeout};

use crate::stage::{SHORT, SOON, Stage, connect, sha, soon, warm_up};

const LOCKS: usize = 200;

fn name(i: usize) -> String {
    format!("together:{i}")
}

async fn take_all(client: &Client) -> Vec<Result<LockGuard, Error>> {
    let take = async |i| client.lock(name(i)).lock().await;
    soon("all of them", join_all((0..LOCKS).map(take))).await
}

/// How many scripts the server was asked to run since its start.
fn scripts(stage: &Stage) -> u64 {
    let stats: String = stage.redis().query(cmd("INFO").arg("commandstats"));
    let calls =
        |line: &str| line.strip_prefix("cmdstat_evalsha:calls=")?.split(',').next()?.parse().ok();
    stats.lines().find_map(calls).unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_at_once_need_few_calls_and_each_has_its_own_answer() {
    const STRANGE: usize = 7;
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    stage.redis().query::<()>(cmd("SET").arg(name(STRANGE)).arg("no lock"));
    let before = scripts(&stage);
    let guards = take_all(&client).await;
    for (i, guard) in guards.iter().enumerate() {
        match guard {
            Ok(guard) => stage.assert_held_by(guard, &name(i)),
            Err(error) => {
                assert!(i == STRANGE && matches!(error, Error::WrongKind { .. }), "{i}: {error}");
            }
        }
    }
    let released = join_all(guards.into_iter().filter_map(Result::ok).map(LockGuard::unlock));
    let released = soon("to unlock", released).await;
    assert_eq!(released.len(), LOCKS - 1);
    assert!(released.iter().all(Result::is_ok));
    let calls = scripts(&stage) - before;
    assert!(calls < LOCKS as u64, "{calls} calls for {LOCKS} acquisitions and releases");
    stage.redis().query::<()>(cmd("DEL").arg(name(STRANGE)));
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_to_many_is_asked_for_again_by_each() {
    let stage = Stage::new().await;
    let client = connect(stage.config().command_timeout(SHORT / 4)).await;
    warm_up(&client).await;
    for _ in 0..3 {
        let lost = stage.proxy.lose_replies(&sha("reentrant/combine"), 1);
        let guards: Vec<_> = take_all(&client).await.into_iter().map(Result::unwrap).collect();
        assert_eq!(lost.count(), 1);
        for (i, guard) in guards.iter().enumerate() {
            stage.assert_held_by(guard, &name(i));
            assert_eq!(stage.hold_count(&name(i)), 1);
        }
        let lost = stage.proxy.lose_replies(&sha("reentrant/combine"), 1);
        let released = join_all(guards.into_iter().map(LockGuard::unlock));
        assert!(soon("to unlock", released).await.iter().all(Result::is_ok));
        assert_eq!(lost.count(), 1);
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn releases_that_are_refused_in_company_say_why() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    let guards: Vec<_> = take_all(&client).await.into_iter().map(Result::unwrap).collect();
    let may = |channels: &str| {
        stage.redis().query::<()>(cmd("ACL").arg(&["SETUSER", "default", channels]));
    };
    // The lock is freed, and then nobody can be told.
    may("resetchannels");
    let released = join_all(guards.into_iter().map(LockGuard::unlock));
    for released in soon("to unlock", released).await {
        assert!(matches!(released, Err(Error::Redis(_))), "{released:?}");
    }
    may("allchannels");
    stage.end([client]).await;
}

fn runtimes() -> [Runtime; 2] {
    [Builder::new_multi_thread().worker_threads(2), &mut Builder::new_current_thread()]
        .map(|builder| builder.enable_all().build().unwrap())
}

async fn turn(lock: &Lock) -> Result<(), Error> {
    lock.lock().await?.unlock().await
}

/// Tasks that take and release a lock each, for as long as they are let.
async fn keep_busy(client: &Client) {
    for i in 0..LOCKS {
        let lock = client.lock(name(i));
        tokio::spawn(async move { while turn(&lock).await.is_ok() {} });
    }
}

#[test]
fn a_runtime_may_end_amid_many_calls() {
    let server = RedisServer::start();
    for _ in 0..10 {
        for runtime in runtimes() {
            runtime.block_on(async {
                let client = Client::connect(Config::from_url(server.url()).unwrap());
                let client = client.await.unwrap();
                keep_busy(&client).await;
                sleep(Duration::from_millis(20)).await;
            });
            // A stack that overflows here ends the process.
            drop(runtime);
        }
    }
}

#[test]
fn whose_runtime_is_not_run_any_more_keeps_nobody_waiting() {
    let server = RedisServer::start();
    let own = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let client = Client::connect(Config::from_url(server.url()).unwrap());
    let client = own.block_on(client).unwrap();
    for _ in 0..10 {
        let other = Builder::new_current_thread().enable_all().build().unwrap();
        other.block_on(async {
            keep_busy(&client).await;
            sleep(Duration::from_millis(20)).await;
        });
        let turns = (LOCKS..2 * LOCKS).map(async |i| turn(&client.lock(name(i))).await);
        let turns = own.block_on(async { timeout(SOON, join_all(turns)).await });
        assert!(turns.expect("turns in time").iter().all(Result::is_ok));
        drop(other);
    }
}
