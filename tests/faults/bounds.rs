//! The longest time of a call, whatever its result.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use redisson_lock::{Client, Error};

use crate::stage::{LOCK, Stage, assert_redis_error, connect, soon, warm_up};

const TIMEOUT: Duration = Duration::from_secs(2);

/// Of which two do not fit into one bound.
const SLOW: Duration = Duration::from_millis(1_700);

async fn client(stage: &Stage) -> Client {
    connect(stage.config().command_timeout(TIMEOUT)).await
}

fn assert_in_time(what: &str, took: Duration) {
    let times = took.as_secs_f64() / TIMEOUT.as_secs_f64();
    println!("{what}: {times:.2} times its bound");
    assert!(times < 1.5, "{what} took {took:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_that_has_to_be_sent_itself_has_what_time_is_left() {
    let stage = Stage::new().await;
    let client = client(&stage).await;
    let lock = client.lock(LOCK);
    let forget = || stage.redis().query::<()>(cmd("SCRIPT").arg("FLUSH"));
    let timed = async |what, call: &mut (dyn Future<Output = Result<(), Error>> + Unpin)| {
        forget();
        let begun = Instant::now();
        let answer = soon(what, call).await;
        assert_in_time(what, begun.elapsed());
        assert_redis_error(answer);
    };
    stage.proxy.delay_replies(SLOW);
    timed("try_lock", &mut Box::pin(async { lock.try_lock().await.map(drop) })).await;
    timed("is_locked", &mut Box::pin(async { lock.is_locked().await.map(drop) })).await;
    timed("force_unlock", &mut Box::pin(async { lock.force_unlock().await.map(drop) })).await;
    stage.proxy.heal();
    stage.nothing_held().await;
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_copy_has_what_time_the_first_has_left() {
    let stage = Stage::new().await;
    let client = client(&stage).await;
    warm_up(&client).await;
    stage.proxy.hold_requests_with(LOCK);
    let (lock, begun) = (client.lock(LOCK), Instant::now());
    let asked = tokio::spawn(async move { lock.try_lock().await.map(drop) });
    tokio::time::sleep(SLOW).await;
    assert!(stage.proxy.cut_all() > 0);
    assert_redis_error(soon("to be answered", asked).await.unwrap());
    assert_in_time("a second copy", begun.elapsed());
    stage.proxy.heal();
    stage.nothing_held().await;
    stage.end([client]).await;
}
