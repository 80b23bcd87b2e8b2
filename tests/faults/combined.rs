//! Calls that travel together: what happens to one of them happens to none of the others.

use futures::future::join_all;
use harness::redis::cmd;
use redisson_lock::{Client, Error, LockGuard};

use crate::stage::{SHORT, Stage, connect, sha, soon, warm_up};

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
