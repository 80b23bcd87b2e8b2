//! The owner of a hold is the thread that acquired it.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use harness::{PATIENCE, lock_channel};

use crate::stage::{LEASE, LOCK, Stage, eventually};

#[test]
fn a_thread_re_enters_and_another_does_not() {
    let stage = Stage::new();
    let client = stage.client();
    let lock = client.lock(LOCK);
    let outer = lock.lock().run().unwrap();
    let inner = lock.lock().run().unwrap();
    let tried = lock.try_lock().run().unwrap().expect("re-entered");
    assert_eq!((tried.hold_count(), tried.holder()), (3, outer.holder()));
    assert_eq!(stage.redis.holder(LOCK).unwrap().count, 3);
    let is_refused = || {
        thread::scope(|scope| {
            let other = scope.spawn(|| lock.try_lock().run().unwrap().is_none());
            other.join().unwrap()
        })
    };
    for guard in [outer, tried] {
        guard.unlock().unwrap();
        assert!(is_refused());
    }
    assert_eq!(stage.redis.holder(LOCK).unwrap().count, 1);
    inner.unlock().unwrap();
    assert!(!is_refused());
    stage.free(LOCK);
    stage.end([client]);
}

/// With two clients, so that the server decides, and not only the line of one process.
#[test]
fn threads_exclude_each_other() {
    const THREADS: usize = 16;
    const TURNS: u64 = 25;
    let stage = Stage::new();
    let clients = [stage.client(), stage.client()];
    let (count, is_inside) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        for n in 0..THREADS {
            let lock = clients[n % 2].lock(LOCK);
            let (count, is_inside) = (&count, &is_inside);
            scope.spawn(move || {
                for _ in 0..TURNS {
                    let guard = lock.lock().run().unwrap();
                    assert!(!is_inside.swap(true, Ordering::SeqCst), "two hold it");
                    let seen = count.load(Ordering::SeqCst);
                    thread::yield_now();
                    count.store(seen + 1, Ordering::SeqCst);
                    is_inside.store(false, Ordering::SeqCst);
                    guard.unlock().unwrap();
                }
            });
        }
    });
    assert_eq!(count.into_inner(), THREADS as u64 * TURNS);
    stage.end(clients);
}

#[test]
fn a_thread_is_another_owner_in_another_client() {
    let stage = Stage::new();
    let (one, two) = (stage.client(), stage.client());
    let guard = one.lock(LOCK).lock().run().unwrap();
    assert!(two.lock(LOCK).try_lock().run().unwrap().is_none());
    assert!(one.clone().lock(LOCK).try_lock().run().unwrap().is_some());
    guard.unlock().unwrap();
    stage.end([one, two]);
}

/// The system gives the numbers of threads that ended to later ones.
#[test]
fn a_later_thread_does_not_own_what_an_earlier_one_held() {
    let stage = Stage::new();
    let client = stage.client();
    let lock = client.lock(LOCK);
    let keep = || std::mem::forget(lock.lock().lease(LEASE).run().unwrap());
    thread::scope(|scope| scope.spawn(keep).join().unwrap());
    for _ in 0..50 {
        let tried = || lock.try_lock().run().unwrap().is_none();
        assert!(thread::scope(|scope| scope.spawn(tried).join().unwrap()));
    }
    assert!(lock.force_unlock().unwrap());
    stage.end([client]);
}

#[test]
fn an_unlock_wakes_the_thread_that_waits() {
    let stage = Stage::new();
    let (client, other) = (stage.client(), stage.client());
    for waits_at in [&client, &other] {
        let guard = client.lock(LOCK).lock().run().unwrap();
        let (told, granted) = mpsc::channel();
        let lock = waits_at.lock(LOCK);
        let waiter = thread::spawn(move || {
            let guard = lock.lock().run().unwrap();
            told.send(guard.hold_count()).unwrap();
            guard.unlock().unwrap();
        });
        let channel = lock_channel(LOCK);
        eventually("the waiter", || (stage.redis.subscribers(&channel) > 0).then_some(()));
        assert!(granted.try_recv().is_err());
        let begun = Instant::now();
        guard.unlock().unwrap();
        assert_eq!(granted.recv_timeout(PATIENCE).unwrap(), 1);
        // The lease of the hold before was 30 s.
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        waiter.join().unwrap();
        stage.free(LOCK);
    }
    stage.end([client, other]);
}

#[test]
fn a_limited_wait_ends_without_the_lock() {
    const WAIT: Duration = Duration::from_secs(2);
    let stage = Stage::new();
    let (client, other) = (stage.client(), stage.client());
    let guard = other.lock(LOCK).lock().run().unwrap();
    let begun = Instant::now();
    assert!(client.lock(LOCK).try_lock().wait(WAIT).run().unwrap().is_none());
    assert!(begun.elapsed() >= WAIT);
    // Much less than the lease of the other.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    guard.unlock().unwrap();
    let guard = client.lock(LOCK).try_lock().wait(WAIT).lease(LEASE).run().unwrap().expect("free");
    assert!(guard.remaining() > LEASE / 2);
    guard.unlock().unwrap();
    stage.end([client, other]);
}
