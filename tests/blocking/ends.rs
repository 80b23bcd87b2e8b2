//! How guards and clients end: dropping never blocks, closing waits.

use std::{
    cell::RefCell,
    thread,
    time::{Duration, Instant},
};

use harness::{PATIENCE, redis::cmd};
use redisson_lock::{
    Config, Error,
    blocking::{Client, LockGuard},
};

use crate::stage::{LEASE, LOCK, Stage, connect, eventually};

#[test]
fn a_dropped_guard_releases_in_the_background() {
    let stage = Stage::new();
    let client = stage.client();
    drop(client.lock(LOCK).lock().lease(LEASE).run().unwrap());
    stage.free(LOCK);
    stage.end([client]);
}

/// What blocked here would do so for as long as the server is paused, or for a minute.
#[test]
fn dropping_does_not_wait_for_a_server_that_hangs() {
    const MINUTE: Duration = Duration::from_secs(60);
    let stage = Stage::new();
    let client = connect(&stage.config().command_timeout(MINUTE).retry_timeout(MINUTE));
    let guard = client.lock(LOCK).lock().lease(LEASE).run().unwrap();
    stage.server.pause();
    let begun = Instant::now();
    drop(guard);
    drop(client);
    let took = begun.elapsed();
    thread::sleep(Duration::from_millis(300));
    stage.server.resume();
    assert!(took < MINUTE / 2, "{took:?}");
    // The thread that nobody waited for has released it.
    stage.free(LOCK);
    eventually("the connections to be closed", || {
        let list: String = stage.redis.query(cmd("CLIENT").arg("LIST"));
        (list.lines().count() == 1).then_some(())
    });
    stage.end([]);
}

#[test]
fn closing_waits_for_the_releases_of_dropped_guards() {
    let stage = Stage::new();
    let client = stage.client();
    let locks: Vec<_> = (0..100).map(|n| client.lock(format!("mine:{n}"))).collect();
    let guards: Vec<_> = locks.iter().map(|lock| lock.lock().lease(LEASE).run().unwrap()).collect();
    assert_eq!(stage.redis.keys().len(), 100);
    drop(guards);
    client.close().unwrap();
    assert!(stage.redis.keys().is_empty(), "{:?}", stage.redis.keys());
    assert!(matches!(locks[0].lock().run(), Err(Error::Closed)));
    assert!(matches!(locks[0].try_lock().run(), Err(Error::Closed)));
    // Again is no error.
    client.close().unwrap();
    stage.end([]);
}

#[test]
fn closing_ends_the_wait_of_other_threads() {
    let stage = Stage::new();
    let (client, other) = (stage.client(), stage.client());
    let guard = other.lock(LOCK).lock().run().unwrap();
    let lock = client.lock(LOCK);
    let waiter = thread::spawn(move || lock.lock().run().map(drop));
    let channel = harness::lock_channel(LOCK);
    eventually("the waiter", || (stage.redis.subscribers(&channel) > 0).then_some(()));
    client.close().unwrap();
    assert!(matches!(waiter.join().unwrap(), Err(Error::Closed)));
    guard.unlock().unwrap();
    stage.end([other]);
}

#[test]
fn a_guard_outlives_its_lock_and_its_client() {
    let stage = Stage::new();
    // A third of it is less than the sleep.
    let client = connect(&stage.config().watchdog(Duration::from_secs(6)));
    let guard = client.lock(LOCK).lock().run().unwrap();
    drop(client);
    let before = Instant::now() + guard.remaining();
    eventually("a renewal", || {
        let until = Instant::now() + guard.remaining();
        (until > before + Duration::from_millis(100)).then_some(())
    });
    guard.check().unwrap();
    guard.unlock().unwrap();
    stage.end([]);
}

#[test]
fn a_thread_that_panics_gives_its_locks_back() {
    let stage = Stage::new();
    let client = stage.client();
    let lock = client.lock(LOCK);
    let thread = thread::spawn(move || {
        let _guard = lock.lock().lease(LEASE).run().unwrap();
        // As a panic, without a line on stderr.
        std::panic::resume_unwind(Box::new("over"));
    });
    assert!(thread.join().is_err());
    stage.free(LOCK);
    stage.end([client]);
}

#[test]
fn a_guard_that_goes_with_its_thread_is_released_with_its_client() {
    thread_local! {
        static KEPT: RefCell<Option<(LockGuard, Client)>> = const { RefCell::new(None) };
    }
    let stage = Stage::new();
    let client = stage.client();
    let thread = thread::spawn(move || {
        let guard = client.lock(LOCK).lock().lease(LEASE).run().unwrap();
        KEPT.set(Some((guard, client)));
    });
    thread.join().unwrap();
    stage.free(LOCK);
    stage.end([]);
}

#[test]
fn a_client_that_cannot_connect_says_so() {
    let stage = Stage::new();
    let free_port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = Config::from_url(format!("redis://{free_port}")).unwrap();
    let begun = Instant::now();
    let error = Client::connect(config).unwrap_err();
    assert!(matches!(error, Error::Redis(_)), "{error}");
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    stage.end([]);
}
