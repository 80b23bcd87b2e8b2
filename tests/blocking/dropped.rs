//! A guard that is dropped, and the next acquisition by the same thread.

use std::{
    cell::RefCell,
    process::Command,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::Duration,
};

use harness::{PATIENCE, redis::cmd, token_key};
use redisson_lock::blocking::LockGuard;

use crate::stage::{LEASE, LOCK, Stage, eventually};

#[test]
fn the_next_hold_of_a_thread_is_a_new_one() {
    let stage = Stage::new();
    let client = stage.client();
    let ledger = client.fenced_lock(LOCK);
    for _ in 0..50 {
        let first = ledger.lock().lease(LEASE).run().unwrap();
        let again = ledger.lock().run().unwrap();
        let token = first.token();
        drop((first, again));
        let next = ledger.lock().lease(LEASE / 10).run().unwrap();
        assert!(next.token() > token);
        assert_eq!(next.hold_count(), 1);
        assert!(stage.redis.pttl(LOCK) <= (LEASE / 10).as_millis() as i64);
        drop(next);
    }
    stage.free(LOCK);
    stage.redis.query::<()>(cmd("DEL").arg(token_key(LOCK)));
    stage.end([client]);
}

/// It waits for the release, however short its own wait is.
#[test]
fn a_thread_that_does_not_wait_for_others_takes_what_it_has_dropped() {
    let stage = Stage::new();
    let client = stage.client();
    let mutex = client.non_reentrant_lock("mutex");
    let files = client.read_write_lock("files");
    let (read, write) = (files.read_lock(), files.write_lock());
    for n in 0..50 {
        let wait = Duration::from_millis(n % 2);
        drop(client.lock(LOCK).try_lock().wait(wait).run().unwrap().expect("free"));
        drop(mutex.try_lock().wait(wait).run().unwrap().expect("free"));
        drop(write.try_lock().wait(wait).run().unwrap().expect("free"));
        let reads = read.try_lock().wait(wait).run().unwrap().expect("free");
        assert!(!write.is_locked().unwrap(), "it does not read under the hold that it dropped");
        drop(reads);
    }
    stage.end([client]);
}

#[test]
fn a_thread_that_drops_its_guards_does_not_pass_the_fair_line() {
    let stage = Stage::new();
    let clients = [stage.client(), stage.client()];
    let [one, two] = [0, 1].map(|n| clients[n].fair_lock(LOCK));
    let (is_over, turns) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut most = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let _guard = one.lock().run().unwrap();
                turns.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            }
        });
        for _ in 0..5 {
            let turn = || {
                let guard = two.try_lock().wait(PATIENCE).run().unwrap().expect("its turn");
                let seen = turns.load(Ordering::Relaxed);
                guard.unlock().unwrap();
                seen
            };
            let waiter = scope.spawn(turn);
            let mut before = None;
            while !waiter.is_finished() {
                if before.is_none() && !stage.redis.line(LOCK).is_empty() {
                    before = Some(turns.load(Ordering::Relaxed));
                }
                thread::sleep(Duration::from_micros(200));
            }
            let seen = waiter.join().unwrap();
            most = most.max(seen.saturating_sub(before.unwrap_or(seen)));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(most < 10, "{most} turns before the one in line");
    stage.end(clients);
}

/// What a thread keeps for as long as it lives.
struct Kept(Option<LockGuard>);

impl Drop for Kept {
    fn drop(&mut self) {
        let unlocked = self.0.take().unwrap().unlock();
        println!("unlocked: {}", unlocked.is_ok());
    }
}

/// Run by [`an_unlock_by_a_thread_that_ends_does_not_end_the_process`], because it may abort.
#[test]
#[ignore = "the other part of a test"]
fn unlocks_as_its_thread_ends() {
    thread_local! {
        static KEPT: RefCell<Option<Kept>> = const { RefCell::new(None) };
    }
    let stage = Stage::new();
    let client = stage.client();
    let lock = client.lock(LOCK);
    let keeps = move || {
        // The value that is used first is dropped last, after those that tokio keeps.
        KEPT.set(None);
        KEPT.set(Some(Kept(Some(lock.lock().run().unwrap()))));
    };
    thread::spawn(keeps).join().unwrap();
    drop(eventually("the release", || client.lock(LOCK).try_lock().run().unwrap()));
    stage.end([client]);
}

#[test]
fn an_unlock_by_a_thread_that_ends_does_not_end_the_process() {
    let part = ["--exact", "dropped::unlocks_as_its_thread_ends", "--ignored", "--nocapture"];
    let this = std::env::current_exe().unwrap();
    let ended = Command::new(this).args(part).output().unwrap();
    let told = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success() && told.contains("1 passed"), "{told}\n{ended:?}");
    assert!(told.contains("unlocked: "), "{told}");
}
