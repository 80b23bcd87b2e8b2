//! Which callers are async code.

use std::thread;

use tokio::{
    runtime::{Builder, Runtime},
    task::{LocalSet, block_in_place, spawn_blocking},
};

use super::*;

fn runtimes() -> [Runtime; 2] {
    [Builder::new_multi_thread().worker_threads(2), &mut Builder::new_current_thread()]
        .map(|builder| builder.enable_all().build().unwrap())
}

#[test]
fn a_thread_without_a_runtime_may_block() {
    assert!(!is_polled_by_tokio());
}

#[test]
fn a_thread_that_only_has_a_current_runtime_may_block() {
    for runtime in runtimes() {
        let _entered = runtime.enter();
        assert!(!is_polled_by_tokio());
    }
}

#[test]
fn what_a_runtime_polls_is_async_code() {
    for runtime in runtimes() {
        assert!(runtime.block_on(async { is_polled_by_tokio() }));
        assert!(runtime.handle().block_on(async { is_polled_by_tokio() }));
        runtime.block_on(async {
            assert!(tokio::spawn(async { is_polled_by_tokio() }).await.unwrap());
            let boxed: std::pin::Pin<Box<dyn Future<Output = bool>>> =
                Box::pin(async { is_polled_by_tokio() });
            assert!(boxed.await);
            let local = LocalSet::new();
            let told = local.run_until(async {
                let task = tokio::task::spawn_local(async { is_polled_by_tokio() });
                (is_polled_by_tokio(), task.await.unwrap())
            });
            assert_eq!(told.await, (true, true));
        });
        let local = LocalSet::new();
        assert!(local.block_on(&runtime, async { is_polled_by_tokio() }));
    }
}

#[test]
fn blocking_tasks_may_block() {
    for runtime in runtimes() {
        runtime.block_on(async {
            assert!(!spawn_blocking(is_polled_by_tokio).await.unwrap());
            let local = LocalSet::new();
            assert!(!local.run_until(spawn_blocking(is_polled_by_tokio)).await.unwrap());
        });
    }
}

#[test]
fn a_worker_in_block_in_place_may_block_but_not_what_it_polls() {
    let [runtime, _] = runtimes();
    let look = || {
        block_in_place(|| {
            let polled = Handle::current().block_on(async { is_polled_by_tokio() });
            (is_polled_by_tokio(), polled)
        })
    };
    assert_eq!(runtime.block_on(async { look() }), (false, true));
    let then = async move { (look(), is_polled_by_tokio()) };
    let task = async { tokio::spawn(then).await.unwrap() };
    assert_eq!(runtime.block_on(task), ((false, true), true));
    // The body of a runtime is recognised again after an await.
    runtime.block_on(async {
        look();
        tokio::task::yield_now().await;
        assert!(is_polled_by_tokio());
    });
}

#[test]
fn a_thread_that_async_code_starts_may_block() {
    for runtime in runtimes() {
        let told = async { thread::spawn(is_polled_by_tokio).join().unwrap() };
        assert!(!runtime.block_on(told));
    }
}

#[test]
fn looking_costs_no_budget() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let mut context = Context::from_waker(Waker::noop());
            let mut left = 0;
            assert!(is_polled_by_tokio());
            while let Poll::Ready(step) = coop::poll_proceed(&mut context) {
                step.made_progress();
                assert!(is_polled_by_tokio());
                left += 1;
            }
            assert!(is_polled_by_tokio());
            assert_eq!(left, 128, "the budget of a task");
        });
    }
}
