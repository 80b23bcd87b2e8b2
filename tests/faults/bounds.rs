//! The longest time of a call, whatever its result.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use harness::PATIENCE;
use harness::redis::cmd;
use redisson_lock::{Client, Error, MultiLock};
use tokio::time::timeout;

use crate::stage::{LOCK, Stage, assert_redis_error, connect, soon, warm_up, within};

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

/// Of a caller that repeats its requests for a while. Two copies that wait for their whole time exceed the bound by far.
const COPY: Duration = Duration::from_secs(8);
const RETRIES: Duration = Duration::from_secs(9);

/// Far from [`RETRIES`] and from two copies.
const LATE: Duration = Duration::from_secs(14);

async fn patient_client(stage: &Stage) -> Client {
    let client = connect(stage.config().command_timeout(COPY).retry_timeout(RETRIES)).await;
    warm_up(&client).await;
    client
}

/// How long the machine has stood still, which does not count.
#[derive(Clone, Default)]
struct Pauses(Arc<AtomicU64>);

impl Pauses {
    fn watch() -> Self {
        const TICK: Duration = Duration::from_millis(50);
        let pauses = Self::default();
        let watched = Arc::downgrade(&pauses.0);
        thread::spawn(move || {
            let mut last = Instant::now();
            while let Some(lost) = watched.upgrade() {
                thread::sleep(TICK);
                let lost_now = last.elapsed().saturating_sub(2 * TICK);
                lost.fetch_add(u64::try_from(lost_now.as_millis()).unwrap(), Ordering::Relaxed);
                last = Instant::now();
            }
        });
        pauses
    }

    fn assert_not_late(&self, what: &str, begun: Instant) {
        let paused = Duration::from_millis(self.0.load(Ordering::Relaxed));
        let took = begun.elapsed();
        println!("{what}: {took:?} of {RETRIES:?}, with pauses of {paused:?}");
        let took = took.saturating_sub(paused);
        assert!(took < LATE, "{what} took {took:?} of {RETRIES:?}, without pauses of {paused:?}");
    }
}

/// Ends the outage, and waits until what was begun during it is undone.
async fn end(stage: &Stage, client: Client) {
    stage.proxy.heal();
    stage.nothing_held().await;
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlock_of_a_re_entry_ends_in_time_in_an_outage() {
    let stage = Stage::new().await;
    let client = patient_client(&stage).await;
    let mut me = client.owner();
    let lock = client.lock(LOCK);
    let outer = lock.lock().by(&mut me).await.unwrap();
    let inner = lock.lock().by(&mut me).await.unwrap();
    stage.proxy.blackhole(true);
    let (pauses, begun) = (Pauses::watch(), Instant::now());
    assert_redis_error(within(PATIENCE, "unlock of a re-entry", inner.unlock()).await);
    pauses.assert_not_late("unlock of a re-entry", begun);
    drop(outer);
    end(&stage, client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlock_ends_in_time_beside_a_re_entry_that_has_no_answer() {
    let stage = Stage::new().await;
    let client = patient_client(&stage).await;
    let mut me = client.owner();
    let lock = client.lock(LOCK);
    let outer = lock.lock().by(&mut me).await.unwrap();
    stage.proxy.blackhole(true);
    let pauses = Pauses::watch();
    let also = pauses.clone();
    let reentry = tokio::spawn(async move {
        let begun = Instant::now();
        let answer = lock.lock().by(&mut me).await;
        also.assert_not_late("re-entry", begun);
        assert_redis_error(answer);
    });
    // The re-entry has begun.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let begun = Instant::now();
    assert_redis_error(within(PATIENCE, "unlock beside a re-entry", outer.unlock()).await);
    pauses.assert_not_late("unlock beside a re-entry", begun);
    within(PATIENCE, "the re-entry", reentry).await.unwrap();
    end(&stage, client).await;
}

/// The bound of a caller who waits for a release no longer than this.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlock_that_is_waited_for_no_longer_goes_on_in_the_background() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let mut me = client.owner();
    let plain = client.lock("plain").lock().await.unwrap();
    let owned = client.lock("owned").lock().by(&mut me).await.unwrap();
    let both =
        MultiLock::all([client.lock("one"), client.fair_lock("other")]).lock().await.unwrap();
    stage.proxy.hold_requests();
    let bound = Duration::from_millis(100);
    assert!(timeout(bound, plain.unlock()).await.is_err());
    assert!(timeout(bound, owned.unlock()).await.is_err());
    assert!(timeout(bound, both.unlock()).await.is_err());
    // A caller who never waited at all.
    let unpolled = client.lock("unpolled");
    stage.proxy.release_held();
    drop(unpolled.lock().await.unwrap().unlock());
    stage.nothing_held().await;
    stage.end([client]).await;
}
