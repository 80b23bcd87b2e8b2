//! Semaphores and latches: no thread owns what it takes of them.

use std::{thread, time::Duration};

use harness::PATIENCE;
use harness::redis::cmd;
use redisson_lock::{Loss, Remaining};

use crate::stage::{Stage, eventually};

const POOL: &str = "pool";

#[test]
fn a_thread_waits_for_permits_that_another_returns() {
    let stage = Stage::new();
    let client = stage.client();
    let pool = client.semaphore(POOL);
    assert!(pool.try_set(2).unwrap() && !pool.try_set(9).unwrap());
    let mut permit = pool.acquire(2).run().unwrap();
    assert!(pool.try_acquire(1).run().unwrap().is_none());
    assert!(pool.try_acquire(1).wait(Duration::from_millis(50)).run().unwrap().is_none());
    let one = permit.split(1).unwrap();
    let waiting = pool.clone();
    let waiter = thread::spawn(move || waiting.acquire(2).run().unwrap().num_permits());
    eventually("the thread to wait", || {
        (stage.redis.subscribers("redisson_sc:{pool}") == 1).then_some(())
    });
    // A permit may be returned by any thread, and a dropped one is returned, too.
    thread::spawn(move || one.release().unwrap()).join().unwrap();
    drop(permit);
    assert_eq!(waiter.join().unwrap(), 2);
    eventually("the permits", || (pool.available().unwrap() == 2).then_some(()));
    pool.acquire(1).run().unwrap().forget();
    pool.add(4).unwrap();
    pool.release(1).unwrap();
    assert_eq!(pool.drain().unwrap(), 6);
    stage.redis.query::<()>(cmd("DEL").arg(POOL));
    stage.end([client]);
}

#[test]
fn a_thread_waits_for_leased_permits_that_another_returns() {
    let stage = Stage::new();
    let client = stage.client();
    let pool = client.expirable_semaphore(POOL);
    assert!(pool.try_set(2).unwrap() && !pool.try_set(9).unwrap());
    let permits = pool.acquire(2).run().unwrap();
    assert_eq!((permits.num_permits(), permits.ids()[0]), (2, permits.id()));
    permits.check().unwrap();
    assert_eq!(permits.while_held(|| 7).unwrap(), 7);
    assert!(permits.is_held() && permits.loss().is_none());
    assert!(pool.try_acquire(1).wait(Duration::from_millis(50)).run().unwrap().is_none());
    let waiting = pool.clone();
    let minute = Duration::from_secs(60);
    let waiter = thread::spawn(move || waiting.acquire(1).lease(minute).run().unwrap().forget());
    eventually("the thread to wait", || {
        (stage.redis.subscribers("redisson_sc:{pool}") == 1).then_some(())
    });
    thread::spawn(move || permits.release().unwrap()).join().unwrap();
    let ids = waiter.join().unwrap();
    assert_eq!((pool.available().unwrap(), pool.acquired().unwrap()), (1, 1));
    assert!(pool.set_lease(ids[0], 2 * minute).unwrap());
    assert!(matches!(pool.ttl_of(ids[0]).unwrap(), Remaining::Held(left) if left > minute));
    assert!(pool.inspect().unwrap().permits[0].ours);
    assert!(pool.release(&ids).unwrap() && !pool.release(&ids).unwrap());
    let lost = pool.try_acquire(2).lease(Duration::from_millis(50)).run().unwrap().unwrap();
    assert_eq!(lost.lost_within(PATIENCE).unwrap(), Some(Loss::Expired));
    assert!(lost.while_held(|| ()).is_err());
    drop(lost);
    pool.set(5).unwrap();
    pool.add(-1).unwrap();
    eventually("the permits", || (pool.available().unwrap() == 4).then_some(()));
    assert_eq!(pool.permits().unwrap(), 4);
    stage.redis.query::<()>(cmd("DEL").arg(POOL));
    stage.end([client]);
}

#[test]
fn threads_wait_until_others_have_counted_down() {
    let stage = Stage::new();
    let client = stage.client();
    let gate = client.count_down_latch("gate");
    assert!(gate.try_set(3).unwrap() && !gate.try_set(1).unwrap());
    assert!(!gate.wait_timeout(Duration::from_millis(50)).unwrap());
    let waiters = [(); 2].map(|()| {
        let gate = gate.clone();
        thread::spawn(move || gate.wait().unwrap())
    });
    for left in [2, 1, 0] {
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        gate.count_down().unwrap();
        assert_eq!(gate.count().unwrap(), left);
    }
    for waiter in waiters {
        waiter.join().unwrap();
    }
    assert!(gate.wait_timeout(PATIENCE).unwrap());
    stage.end([client]);
}
