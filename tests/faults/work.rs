//! Work that runs under a guard, what becomes of it, and of its result. Acquisitions and guards of any type.

use std::future::pending;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use futures::FutureExt;
use harness::redis::cmd;
use redisson_lock::{Client, Error, Guard, LockGuard, Loss, MultiLock, RunError};
use tokio::time::timeout;

use crate::held::forget_tokens;
use crate::stage::{LOCK, Stage, connect, sha, soon, warm_up};

/// The work's own error.
#[derive(Debug)]
enum Failed {
    NoStock,
    Lock(Error),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

type Outcome = Result<u32, RunError<u32, Failed>>;

async fn done() -> Result<u32, Failed> {
    Ok(7)
}

async fn failed() -> Result<u32, Failed> {
    Err(Failed::NoStock)
}

/// Removes the locks, as an operator does.
fn remove(stage: &Stage) {
    stage.redis().query::<()>(&cmd("FLUSHALL"));
}

async fn client(stage: &Stage) -> Client {
    connect(stage.config().watchdog(Duration::from_secs(6))).await
}

/// The same for guards of every type.
async fn what_becomes_of_work<G: Guard>(stage: &Stage, lock: impl AsyncFn() -> G) {
    let guard = lock().await;
    let outcome = soon("the work", tokio::spawn(async move { guard.run(done()).await })).await;
    assert!(matches!(outcome.unwrap(), Ok(7)));
    let outcome = lock().await.run(failed()).await;
    assert!(matches!(outcome, Err(RunError::Failed(Failed::NoStock))), "{outcome:?}");

    let guard = lock().await;
    remove(stage);
    guard.check().await.unwrap_err();
    let begun = AtomicBool::new(false);
    let work = async {
        begun.store(true, Ordering::Relaxed);
        done().await
    };
    let outcome = guard.run(work).await;
    assert!(matches!(outcome, Err(RunError::NotBegun { .. })), "{outcome:?}");
    assert!(!begun.load(Ordering::Relaxed));

    // The next renewal finds the loss.
    let guard = lock().await;
    let work = async {
        remove(stage);
        pending().await
    };
    let outcome: Outcome = soon("the loss", guard.run(work)).await;
    assert!(matches!(outcome, Err(RunError::Lost { output: None, .. })), "{outcome:?}");

    // The release finds it.
    let guard = lock().await;
    let work = async {
        remove(stage);
        done().await
    };
    let outcome = guard.run(work).await;
    let Err(error @ RunError::Lost { output: Some(Ok(7)), .. }) = outcome else {
        panic!("not lost: {outcome:?}");
    };
    assert!(matches!(error.into_error(), Failed::Lock(Error::NotHeld { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_is_done_or_it_is_told_how_far_it_came() {
    let stage = Stage::new().await;
    let client = client(&stage).await;
    let rw = client.read_write_lock("rw");
    what_becomes_of_work(&stage, async || client.lock(LOCK).lock().await.unwrap()).await;
    what_becomes_of_work(&stage, async || client.fenced_lock("f").lock().await.unwrap()).await;
    what_becomes_of_work(&stage, async || rw.read().await.unwrap()).await;
    what_becomes_of_work(&stage, async || rw.write().await.unwrap()).await;
    let locks = MultiLock::all([client.lock("a"), client.fair_lock("b")])
        .and(client.fenced_lock("c"))
        .and(rw.write_lock());
    what_becomes_of_work(&stage, async || locks.lock().await.unwrap()).await;
    stage.nothing_held_but(&["redisson_lock_token:{c}", "redisson_lock_token:{f}"]).await;
    forget_tokens(&stage);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_keeps_its_result_if_the_release_is_not_confirmed() {
    let stage = Stage::new().await;
    let bound = Duration::from_millis(500);
    let client = connect(stage.config().command_timeout(bound).retry_timeout(bound)).await;
    let lock = client.lock(LOCK);
    // A copy of the acquisition may be late on a busy machine.
    let acquire = async || loop {
        match lock.lock().await {
            Ok(guard) => return guard,
            Err(error) => println!("acquiring again: {error}"),
        }
    };
    for succeeds in [true, false] {
        let guard = soon("the lock", acquire()).await;
        let work = async {
            stage.proxy.hold_requests();
            if succeeds { done().await } else { failed().await }
        };
        let outcome = soon("an answer", guard.run(work)).await;
        match outcome {
            Err(RunError::ReleaseUnconfirmed { error: Error::Redis(_), output }) => {
                assert_eq!(output.is_ok(), succeeds);
            }
            other => panic!("{other:?}"),
        }
        // The release goes on.
        stage.proxy.heal();
        stage.nothing_held().await;
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_that_is_not_known_for_certain_is_no_loss_on_the_way() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    let guard = client.lock(LOCK).lock().lease(Duration::from_secs(60)).await.unwrap();
    let _lost = stage.proxy.lose_next_reply(&sha("reentrant/release"));
    let outcome = guard.run(done()).await;
    match outcome {
        Err(RunError::ReleaseUnconfirmed { error: Error::NotHeld { why }, output: Ok(7) }) => {
            assert_eq!(why, Loss::Unknown);
        }
        other => panic!("{other:?}"),
    }
    stage.nothing_held().await;
    stage.end([client]).await;
}

#[tokio::test]
async fn work_that_blocked_past_its_lease_keeps_its_result() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let lease = Duration::from_millis(300);
    // On a busy machine the lease may end before the answer comes.
    let acquire = async || loop {
        match client.lock(LOCK).lock().lease(lease).await {
            Ok(guard) => return guard,
            Err(error) => println!("acquiring again: {error}"),
        }
    };
    let guard = soon("the lock", acquire()).await;
    let work = async {
        std::thread::sleep(lease);
        done().await
    };
    match guard.run(work).await {
        Err(RunError::Lost { why: Loss::Expired, output: Some(Ok(7)) }) => {}
        // The lease was over before the work began.
        Err(RunError::NotBegun { why: Loss::Expired }) => {}
        other => panic!("{other:?}"),
    }
    stage.end([client]).await;
}

/// Notes how often the lock is held as it is dropped.
struct Notes<'a>(&'a Stage, &'a AtomicI64);

impl Drop for Notes<'_> {
    fn drop(&mut self) {
        self.1.store(self.0.hold_count(LOCK), Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_dropped_or_panics_releases_the_lock_after_itself() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let held = AtomicI64::new(0);
    for panics in [true, false] {
        held.store(0, Ordering::Relaxed);
        let guard = client.lock(LOCK).lock().await.unwrap();
        let notes = Notes(&stage, &held);
        let work = async move {
            let _notes = notes;
            assert!(!panics, "as the test wants it");
            pending().await
        };
        let run = AssertUnwindSafe(guard.run(work)).catch_unwind();
        let run: Result<Result<Outcome, _>, _> = timeout(Duration::from_millis(200), run).await;
        match run {
            Ok(Err(_panic)) => assert!(panics),
            Err(_elapsed) => assert!(!panics),
            Ok(Ok(outcome)) => panic!("{outcome:?}"),
        }
        assert_eq!(held.load(Ordering::Relaxed), 1, "released before the work was dropped");
        stage.nothing_held().await;
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_is_dropped_before_it_begins_is_dropped_under_the_lock() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let held = AtomicI64::new(0);
    for _ in 0..20 {
        held.store(0, Ordering::Relaxed);
        let guard = client.lock(LOCK).lock().await.unwrap();
        let undoes = Undoes(Notes(&stage, &held));
        let work = async move {
            let _undoes = undoes;
            Ok::<_, Error>(())
        };
        drop(guard.run(work));
        assert_eq!(held.load(Ordering::Relaxed), 1, "released before the work was dropped");
        stage.nothing_held().await;
    }
    stage.end([client]).await;
}

/// Takes time to undo what was begun, and then notes how often the lock is held.
struct Undoes<'a>(#[expect(dead_code, reason = "dropped last")] Notes<'a>);

impl Drop for Undoes<'_> {
    fn drop(&mut self) {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquisition_without_an_owner_outlives_its_handle() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let held = client.lock(LOCK).lock().await.unwrap();
    let turn = {
        let lock = client.lock(LOCK);
        tokio::spawn(lock.lock().into_future())
    };
    let several = {
        let locks =
            MultiLock::all([client.lock("a")]).and(client.read_write_lock("b").write_lock());
        tokio::spawn(locks.try_lock().wait(Duration::from_secs(10)).into_future())
    };
    stage.listening(LOCK, 1).await;
    held.unlock().await.unwrap();
    let guard: LockGuard = soon("the lock", turn).await.unwrap().unwrap();
    guard.unlock().await.unwrap();
    let several = soon("the locks", several).await.unwrap().unwrap();
    several.expect("they are free").unlock().await.unwrap();
    stage.end([client]).await;
}
