use std::sync::atomic::AtomicBool;

use futures::FutureExt;

use super::*;
use crate::{engine::scripted::Scripted, redis_error::RedisErrorKind};

fn janitor() -> Janitor {
    Janitor::start(Arc::new(Scripted::default()), ClientRuntime::current())
}

#[tokio::test]
async fn a_job_that_panics_panics_in_its_caller_and_the_next_is_done() {
    let janitor = janitor();
    let caller = janitor.clone();
    let panicked =
        tokio::spawn(
            async move { caller.run_apart::<()>(async { panic!("as the test wants") }).await },
        );
    assert!(panicked.await.unwrap_err().is_panic());
    assert_eq!(janitor.run_apart(async { Ok(7) }).await.unwrap(), 7);
}

#[test]
fn a_job_on_a_runtime_that_has_ended_is_an_error() {
    let new = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (there, here) = (new(), new());
    let janitor = there.block_on(async { janitor() });
    drop(there);
    assert!(matches!(here.block_on(janitor.run_apart(async { Ok(7) })), Err(Error::Redis(_))));
}

/// A runtime that ends drops its tasks one after another, and other threads run on meanwhile.
#[tokio::test]
async fn a_job_that_the_end_of_the_runtime_drops_did_not_panic() {
    let (jobs, queue) = mpsc::unbounded_channel();
    let runtime = ClientRuntime::current();
    let janitor = Janitor(Arc::new(Desk { runtime, jobs, pending: Arc::default() }));
    drop(queue);
    let answer = janitor.run_apart(async { Ok(7) }).await;
    let Err(Error::Redis(error)) = answer else { panic!("{answer:?}") };
    assert_eq!(error.kind(), RedisErrorKind::RuntimeEnded);
}

#[tokio::test(start_paused = true)]
async fn it_is_drained_when_the_last_job_is_done() {
    let janitor = janitor();
    janitor.drained().await;
    let done = Arc::new(AtomicBool::new(false));
    let busy = janitor.busy();
    let last = done.clone();
    janitor.spawn(async move {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        last.store(true, Ordering::Relaxed);
    });
    tokio::spawn(async move {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        drop(busy);
    });
    janitor.drained().await;
    assert!(done.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn what_is_dropped_before_its_end_is_done_all_the_same() {
    let janitor = janitor();
    let done = Arc::new(AtomicBool::new(false));
    let last = done.clone();
    let mut finish = janitor.finish_if_dropped(async move {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        last.store(true, Ordering::Relaxed);
        Ok(())
    });
    assert!((&mut finish).now_or_never().is_none());
    drop(finish);
    janitor.drained().await;
    assert!(done.load(Ordering::Relaxed));
    assert_eq!(janitor.finish_if_dropped(async { Ok(7) }).await.unwrap(), 7);
}
