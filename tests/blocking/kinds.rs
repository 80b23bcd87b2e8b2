//! Every kind of lock.

use std::{sync::mpsc, thread, time::Duration};

use harness::PATIENCE;
use redisson_lock::{
    Error, SpinBackoff,
    blocking::{Lock, MultiLock},
};

use crate::stage::{LEASE, LOCK, Stage, connect, eventually};

/// A hold of such a client is announced after two to four seconds.
const WATCHDOG: Duration = Duration::from_secs(6);

/// Whether another thread gets the lock at once. It gives it back.
fn another_gets(lock: &Lock) -> bool {
    thread::scope(|scope| {
        let tried = scope.spawn(|| match lock.try_lock().run().unwrap() {
            Some(guard) => guard.unlock().is_ok(),
            None => false,
        });
        tried.join().unwrap()
    })
}

fn assert_would_deadlock<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::WouldDeadlock { .. })), "{result:?}");
}

#[test]
fn a_fair_lock_serves_threads_in_the_order_of_their_arrival() {
    const THREADS: usize = 5;
    let stage = Stage::new();
    // Places in line outlast a machine that stands still.
    let client = connect(&stage.config().fair_wait(PATIENCE));
    let guard = client.fair_lock(LOCK).lock().run().unwrap();
    let (told, served) = mpsc::channel();
    let threads = (0..THREADS).map(|n| {
        let (lock, told) = (client.fair_lock(LOCK), told.clone());
        let thread = thread::spawn(move || {
            let guard = lock.lock().run().unwrap();
            told.send(n).unwrap();
            guard.unlock().unwrap();
        });
        let stands = || (stage.redis.line(LOCK).len() == n + 1).then_some(());
        eventually("the thread to stand in line", stands);
        thread
    });
    let threads: Vec<_> = threads.collect();
    assert_eq!(client.fair_lock(LOCK).inspect().unwrap().queue.len(), THREADS);
    guard.unlock().unwrap();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(served.try_iter().collect::<Vec<_>>(), (0..THREADS).collect::<Vec<_>>());
    stage.end([client]);
}

#[test]
fn readers_share_and_a_writer_may_become_a_reader() {
    let stage = Stage::new();
    let client = stage.client();
    let catalog = client.read_write_lock("catalog");
    let reading = catalog.read().run().unwrap();
    assert!(another_gets(catalog.read_lock()));
    assert!(!another_gets(catalog.write_lock()));
    assert_would_deadlock(catalog.write().run());
    reading.unlock().unwrap();

    let writing = catalog.write().run().unwrap();
    assert!(!another_gets(catalog.read_lock()));
    let reading = catalog.try_read().run().unwrap().expect("a writer may read");
    let inspection = catalog.inspect().unwrap();
    assert_eq!(inspection.holders.len(), 2);
    writing.unlock().unwrap();
    assert!(another_gets(catalog.read_lock()));
    assert!(!another_gets(catalog.write_lock()));
    reading.unlock().unwrap();
    assert!(another_gets(catalog.write_lock()));
    stage.end([client]);
}

#[test]
fn the_tokens_of_a_fenced_lock_grow_and_a_re_entry_has_the_same() {
    let stage = Stage::new();
    let client = stage.client();
    let ledger = client.fenced_lock("ledger");
    assert_eq!(ledger.latest_token().unwrap(), None);
    let first = ledger.lock().run().unwrap();
    let again = ledger.try_lock().run().unwrap().expect("re-entered");
    assert_eq!(again.token(), first.token());
    assert_eq!(again.hold_count(), 2);
    let earlier = first.token();
    first.unlock().unwrap();
    again.unlock().unwrap();
    let next = thread::scope(|scope| {
        let taken = scope.spawn(|| {
            let guard = ledger.lock().run().unwrap();
            let token = guard.token();
            guard.unlock().unwrap();
            token
        });
        taken.join().unwrap()
    });
    assert!(next > earlier, "{next} after {earlier}");
    assert_eq!(ledger.latest_token().unwrap(), Some(next));
    client.close().unwrap();
}

#[test]
fn a_thread_cannot_re_enter_a_non_reentrant_lock() {
    let stage = Stage::new();
    let client = stage.client();
    for lock in [
        client.non_reentrant_lock("local"),
        client.non_reentrant_fair_lock("fair"),
        client.plain_lock("plain"),
    ] {
        let guard = lock.lock().run().unwrap();
        assert_would_deadlock(lock.lock().run());
        assert!(!another_gets(&lock));
        guard.unlock().unwrap();
        assert!(another_gets(&lock));
    }
    stage.end([client]);
}

#[test]
fn threads_wait_for_a_spin_lock_and_a_plain_lock_by_polling() {
    let stage = Stage::new();
    let client = stage.client();
    let pauses = SpinBackoff::constant(Duration::from_millis(5));
    for lock in [
        client.spin_lock(LOCK),
        client.spin_lock_with(LOCK, pauses),
        client.plain_lock(LOCK),
        client.plain_lock_with(LOCK, pauses),
    ] {
        let guard = lock.lock().run().unwrap();
        let (told, granted) = mpsc::channel();
        let waiting = lock.clone();
        let waiter = thread::spawn(move || {
            told.send(()).unwrap();
            let guard = waiting.lock().run().unwrap();
            told.send(()).unwrap();
            guard.unlock().unwrap();
        });
        granted.recv_timeout(PATIENCE).unwrap();
        assert!(stage.redis.channels().is_empty());
        assert!(granted.try_recv().is_err());
        guard.unlock().unwrap();
        granted.recv_timeout(PATIENCE).unwrap();
        waiter.join().unwrap();
    }
    stage.end([client]);
}

/// Locks of two clients on two servers.
#[test]
fn several_locks_are_acquired_as_one() {
    let stages = [Stage::new(), Stage::new()];
    let clients = stages.each_ref().map(Stage::client);
    let (a, b) = (clients[0].lock("a"), clients[1].fair_lock("b"));
    let both = MultiLock::all([&a, &b]);
    let guard = both.lock().run().unwrap();
    let again = both.try_lock().lease(LEASE).run().unwrap().expect("re-entered");
    assert_eq!((guard.held_members(), again.held_members()), (2, 2));
    assert!(!another_gets(&a) && !another_gets(&b));
    assert_eq!(stages[1].redis.holder("b").unwrap().count, 2);
    again.unlock().unwrap();
    guard.check().unwrap();
    assert_eq!(guard.while_held(|| 42).unwrap(), 42);
    guard.unlock().unwrap();
    assert!(another_gets(&a) && another_gets(&b));
    // One of them is held: neither is kept.
    let held = b.lock().run().unwrap();
    let tried = || both.try_lock().run().unwrap().is_none();
    assert!(thread::scope(|scope| scope.spawn(tried).join().unwrap()));
    held.unlock().unwrap();
    stages[0].free("a");
    // Dropped, the guard releases in the background, though all else is gone.
    let guard = both.lock().lease(LEASE).run().unwrap();
    drop((a, b, both, clients));
    drop(guard);
    for (stage, name) in stages.iter().zip(["a", "b"]) {
        stage.free(name);
        stage.end([]);
    }
}

#[test]
fn a_majority_is_enough() {
    let mut stages = [Stage::new(), Stage::new(), Stage::new()];
    let clients = stages.each_ref().map(Stage::client);
    let majority = MultiLock::majority(clients.iter().map(|client| client.lock("nightly")));
    stages[0].server.kill();
    let guard = majority.try_lock().wait(PATIENCE).lease(LEASE).run().unwrap().expect("a majority");
    assert!(guard.is_held() && guard.held_members() >= 2);
    let tried = || majority.try_lock().run().unwrap().is_none();
    assert!(thread::scope(|scope| scope.spawn(tried).join().unwrap()));
    guard.unlock().unwrap();
    for (stage, client) in stages[1..].iter().zip(&clients[1..]) {
        stage.free("nightly");
        stage.end([client.clone()]);
    }
}

/// It may be of another type and of another client.
#[test]
fn a_lock_is_added_to_several() {
    let stages = [Stage::new(), Stage::new()];
    let clients = stages.each_ref().map(Stage::client);
    let both = MultiLock::all([clients[0].lock("a")]).and(clients[1].fenced_lock("b"));
    let guard = both.lock().run().unwrap();
    assert_eq!(guard.held_members(), 2);
    assert!(stages[0].redis.exists("a") && stages[1].redis.exists("b"));
    // The added lock's client lives as long as the guard.
    drop((both, clients));
    guard.unlock().unwrap();
    assert!(!stages[0].redis.exists("a") && !stages[1].redis.exists("b"));
    stages[0].end([]);
}

#[test]
fn several_locks_have_a_note() {
    let stage = Stage::new();
    let config = stage.config().announce("orders").unwrap().watchdog(WATCHDOG);
    let (client, far) = (connect(&config), stage.client());
    let names = ["a", "b"];
    let noted = |note: &str| {
        eventually("the note of both", || {
            let seen = names.map(|name| far.lock(name).inspect().unwrap().holders.pop());
            let announced = seen.map(|holder| holder?.announced?.note);
            announced.iter().all(|it| it.as_deref() == Some(note)).then_some(())
        });
    };
    let both = MultiLock::all(names.map(|name| client.lock(name)));
    let guard = both.lock().note("reindex").run().unwrap();
    noted("reindex");
    guard.note("reindex: page 2");
    noted("reindex: page 2");
    guard.unlock().unwrap();
    let guard = both.try_lock().note("by hand").run().unwrap().expect("free");
    noted("by hand");
    guard.unlock().unwrap();
    stage.end([client, far]);
}

#[test]
fn a_lock_is_freed_from_one_holder_only() {
    let stage = Stage::new();
    let client = stage.client();
    let lock = client.lock(LOCK);
    let first = lock.lock().run().unwrap();
    let id = first.holder().to_owned();
    first.unlock().unwrap();
    let guard = lock.lock().run().unwrap();
    assert!(!lock.force_unlock_if(&id).unwrap());
    guard.check().unwrap();
    assert!(lock.force_unlock_if(guard.holder()).unwrap());
    assert!(!stage.redis.exists(LOCK));
    assert!(matches!(lock.force_unlock_if("nobody"), Err(Error::Invalid(_))));
    drop(guard);
    stage.end([client]);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    fn assert_invalid<T: std::fmt::Debug>(result: Result<T, Error>) {
        assert!(matches!(result, Err(Error::Invalid(_))), "{result:?}");
    }
    let stage = Stage::new();
    let client = stage.client();
    assert_invalid(client.lock("").lock().run());
    assert_invalid(client.lock("").is_locked());
    assert_invalid(client.lock(LOCK).lock().lease(Duration::ZERO).run());
    assert_invalid(MultiLock::all(Vec::<Lock>::new()).lock().run());
    assert_invalid(MultiLock::majority(Vec::<Lock>::new()).try_lock().wait(PATIENCE).run());
    assert_invalid(MultiLock::all([client.lock("a"), client.lock("a")]).lock().run());
    stage.end([client]);
}

#[test]
fn any_segment_is_acquired_by_its_thread_and_empty_ones_are_passed_over() {
    let stage = Stage::new();
    let client = stage.client();
    let stock = client.segmented("stock", 3);
    assert_eq!((stock.count(), stock.iter().count()), (3, 3));
    let guard = stock.any().starting_at(1).lock().note("a sale").run().unwrap();
    assert_eq!(guard.segment(), 1);
    assert!(stage.redis.exists("stock:1"));
    // The thread is the owner.
    let again = stock.any().lock().lease(LEASE).run().unwrap();
    assert_eq!((again.segment(), again.hold_count()), (1, 2));
    again.into_guard().unlock().unwrap();

    let other = stock.clone();
    let segments = thread::spawn(move || {
        assert!(other.all().try_lock().run().unwrap().is_none());
        assert!(other.segment(1).try_lock().run().unwrap().is_none());
        let mut any = other.any();
        let mut segments = Vec::new();
        while let Some(guard) = any.try_lock().wait(Duration::from_millis(50)).run().unwrap() {
            segments.push(guard.segment());
            any = any.except([guard.segment()]);
            guard.unlock().unwrap();
        }
        assert!(!any.is_empty() && any.except([1]).is_empty());
        segments.sort_unstable();
        segments
    });
    assert_eq!(segments.join().unwrap(), [0, 2]);
    guard.unlock().unwrap();
    let key = "user:7";
    let index = stock.index_of(key);
    let one = stock.of(key).lock().run().unwrap();
    assert!(stage.redis.exists(&format!("stock:{index}")));
    one.unlock().unwrap();
    stock.all().lock().run().unwrap().unlock().unwrap();
    let unusable = client.segmented("stock", 0);
    assert!(matches!(unusable.any().lock().run(), Err(Error::Invalid(_))));
    assert!(matches!(unusable.all().lock().run(), Err(Error::Invalid(_))));
    stage.end([client]);
}
