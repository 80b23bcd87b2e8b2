//! A thread of Rust and a thread of Redisson take the same lock.

use std::{
    thread,
    time::{Duration, Instant},
};

use harness::{PATIENCE, PeerArgs, java_or_skip, lock_channel};

use crate::stage::{LOCK, Stage, eventually, flavours};

/// Much less than the lease of a watched hold, 30 s.
const WOKEN: Duration = Duration::from_secs(20);

#[test]
fn a_thread_and_a_redisson_thread_exclude_and_wake_each_other() {
    let stage = Stage::new();
    let [runtime, _] = flavours();
    let args = PeerArgs::redis(stage.server.url());
    let test = "a_thread_and_a_redisson_thread_exclude_and_wake_each_other";
    let Some(jvm) = runtime.block_on(java_or_skip(test, &args)) else { return };
    let java = jvm.party("thread", "lock", LOCK);
    let client = stage.client();
    let lock = client.lock(LOCK);
    let waits = || {
        let channel = lock_channel(LOCK);
        eventually("a waiter", || (stage.redis.subscribers(&channel) > 0).then_some(()));
    };

    // Twice here: a single unlock is not enough.
    let outer = lock.lock().run().unwrap();
    let inner = lock.lock().run().unwrap();
    assert!(!runtime.block_on(java.try_lock()), "both hold it");
    let waiting = {
        let _entered = runtime.enter();
        java.start_try_lock(PATIENCE)
    };
    waits();
    inner.unlock().unwrap();
    assert!(waiting.is_pending());
    let begun = Instant::now();
    outer.unlock().unwrap();
    runtime.block_on(waiting.granted());
    assert!(begun.elapsed() < WOKEN, "{:?}", begun.elapsed());

    // Twice there.
    assert!(runtime.block_on(java.try_lock()));
    assert!(lock.try_lock().run().unwrap().is_none(), "both hold it");
    let waiter = thread::spawn(move || {
        let guard = lock.try_lock().wait(PATIENCE).run().unwrap().expect("the lock");
        let got = Instant::now();
        guard.unlock().unwrap();
        got
    });
    waits();
    runtime.block_on(java.unlock());
    assert_eq!(stage.redis.holder(LOCK).unwrap().count, 1);
    assert!(!waiter.is_finished());
    let begun = Instant::now();
    runtime.block_on(java.unlock());
    let took = waiter.join().unwrap().duration_since(begun);
    assert!(took < WOKEN, "{took:?}");

    runtime.block_on(jvm.close()).unwrap();
    stage.end([client]);
}
