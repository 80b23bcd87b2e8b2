//! Calls in async code are refused. In blocking tasks they work.

use std::fmt::Debug;

use redisson_lock::{
    Error,
    blocking::{Client, LockGuard, MultiLock},
};
use tokio::task::{LocalSet, block_in_place, spawn_blocking, spawn_local};

use crate::stage::{LEASE, LOCK, Stage, flavours};

fn assert_refused<T: Debug>(result: Result<T, Error>) {
    let error = result.unwrap_err();
    assert!(matches!(error, Error::InAsyncCode), "{error:?}");
    let words = error.to_string();
    assert!(words.contains("async code") && words.contains("spawn_blocking"), "{words}");
}

/// Every call that would block.
fn all_are_refused(stage: &Stage, client: &Client, held: &LockGuard) {
    assert_refused(Client::connect(stage.config()));
    let lock = client.lock(LOCK);
    assert_refused(lock.lock().run());
    assert_refused(lock.try_lock().run());
    assert_refused(lock.is_locked());
    assert_refused(lock.ttl());
    assert_refused(lock.inspect());
    assert_refused(lock.force_unlock());
    assert_refused(client.fair_lock("fair").lock().run());
    assert_refused(client.fenced_lock("ledger").lock().run());
    assert_refused(client.fenced_lock("ledger").latest_token());
    let both_sides = client.read_write_lock("catalog");
    assert_refused(both_sides.read().run());
    assert_refused(both_sides.write().run());
    assert_refused(both_sides.inspect());
    let several = MultiLock::all([client.lock("a"), client.lock("b")]);
    assert_refused(several.lock().run());
    assert_refused(several.try_lock().run());
    assert_refused(held.check());
    assert_refused(held.lost_within(LEASE));
    assert_refused(client.close());
    // Without I/O.
    assert_eq!(lock.name().unwrap(), LOCK);
    assert!(held.is_held());
}

#[test]
fn a_call_in_the_body_of_a_runtime_is_refused() {
    let stage = Stage::new();
    let client = stage.client();
    let held = client.lock("held").lock().run().unwrap();
    for runtime in flavours() {
        runtime.block_on(async {
            all_are_refused(&stage, &client, &held);
            // And after an await.
            tokio::task::yield_now().await;
            all_are_refused(&stage, &client, &held);
        });
        LocalSet::new().block_on(&runtime, async { all_are_refused(&stage, &client, &held) });
    }
    assert_eq!(stage.redis.keys(), ["held"]);
    held.unlock().unwrap();
    stage.end([client]);
}

#[test]
fn a_call_in_a_task_is_refused() {
    let stage = Stage::new();
    let client = stage.client();
    for runtime in flavours() {
        runtime.block_on(async {
            let (in_task, in_local) = (client.clone(), client.clone());
            let call = async move { assert_refused(in_task.lock(LOCK).lock().run()) };
            tokio::spawn(call).await.unwrap();
            let call = async move { assert_refused(in_local.lock(LOCK).lock().run()) };
            LocalSet::new().run_until(async { spawn_local(call).await.unwrap() }).await;
        });
    }
    assert!(stage.redis.keys().is_empty());
    stage.end([client]);
}

/// All that a program does.
fn work(client: &Client) {
    let lock = client.lock(LOCK);
    let outer = lock.lock().run().unwrap();
    let inner = lock.try_lock().run().unwrap().expect("re-entered");
    assert_eq!(inner.hold_count(), 2);
    inner.unlock().unwrap();
    outer.unlock().unwrap();
}

#[test]
fn a_call_in_a_blocking_task_works() {
    let stage = Stage::new();
    let client = stage.client();
    for runtime in flavours() {
        let (config, shared) = (stage.config(), client.clone());
        let whole = spawn_blocking_on(&runtime, move || {
            let client = crate::stage::connect(&config);
            work(&client);
            client.close().unwrap();
            work(&shared);
        });
        runtime.block_on(whole).unwrap();
    }
    assert!(stage.redis.keys().is_empty());
    stage.end([client]);
}

fn spawn_blocking_on(
    runtime: &tokio::runtime::Runtime,
    work: impl FnOnce() + Send + 'static,
) -> tokio::task::JoinHandle<()> {
    let _entered = runtime.enter();
    spawn_blocking(work)
}

#[test]
fn a_call_in_block_in_place_works_and_after_it_is_refused() {
    let stage = Stage::new();
    let client = stage.client();
    let [runtime, _] = flavours();
    runtime.block_on(async {
        block_in_place(|| work(&client));
        tokio::task::yield_now().await;
        assert_refused(client.lock(LOCK).lock().run());
        let client = client.clone();
        let task = tokio::spawn(async move {
            block_in_place(|| work(&client));
            assert_refused(client.lock(LOCK).lock().run());
        });
        task.await.unwrap();
    });
    stage.end([client]);
}

/// What cannot be recognised as async code blocks its thread, and does not panic.
#[test]
fn async_code_that_is_not_recognised_blocks_and_goes_on() {
    let stage = Stage::new();
    let client = stage.client();
    for runtime in flavours() {
        runtime.block_on(tokio::task::unconstrained(async { work(&client) }));
        let client = client.clone();
        let task = tokio::task::unconstrained(async move { work(&client) });
        runtime.block_on(async { tokio::spawn(task).await.unwrap() });
    }
    stage.end([client]);
}

#[test]
fn guards_and_clients_may_be_dropped_in_async_code() {
    let stage = Stage::new();
    for runtime in flavours() {
        let client = stage.client();
        let (one, two) = (client.lock("one"), client.lock("two"));
        let dropped = one.lock().lease(LEASE).run().unwrap();
        let unlocked = two.lock().lease(LEASE).run().unwrap();
        runtime.block_on(async {
            drop(dropped);
            assert_refused(unlocked.unlock());
            drop((one, two, client));
        });
        // The client's thread releases both.
        stage.free("one");
        stage.free("two");
    }
    stage.end([]);
}

#[test]
fn an_async_client_and_a_thread_exclude_each_other() {
    let stage = Stage::new();
    let client = stage.client();
    let [runtime, _] = flavours();
    let ours = redisson_lock::Client::connect(stage.config());
    let ours = runtime.block_on(ours).unwrap();
    let guard = client.lock(LOCK).lock().run().unwrap();
    let tried = runtime.block_on(ours.lock(LOCK).try_lock().into_future()).unwrap();
    assert!(tried.is_none());
    guard.unlock().unwrap();
    let guard = runtime.block_on(ours.lock(LOCK).lock().into_future()).unwrap();
    assert!(client.lock(LOCK).try_lock().run().unwrap().is_none());
    runtime.block_on(guard.unlock()).unwrap();
    runtime.block_on(ours.close()).unwrap();
    stage.end([client]);
}
