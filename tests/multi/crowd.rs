//! Crowds that count under several locks, on a server without these locks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use futures::future::join_all;
use harness::redis::{Commands, Connection};
use harness::{PATIENCE, RedisServer};
use redisson_lock::{Error, Lock, Loss, MultiLock, RedisError, RedisErrorKind};
use tokio::time::sleep;

use crate::fleet::{Fleet, bounded, ms, seconds};

const LOCK: &str = "counted";

fn is_unanswered(error: &RedisError) -> bool {
    matches!(error.kind(), RedisErrorKind::Timeout | RedisErrorKind::Unreachable)
}

/// What is counted under locks, and whether anybody was there at the same time.
struct Counter {
    key: String,
    taken: AtomicBool,
    counted: AtomicUsize,
    overlaps: AtomicUsize,
}

impl Counter {
    fn new(key: impl Into<String>) -> Arc<Self> {
        let (taken, counted) = (AtomicBool::default(), AtomicUsize::default());
        Arc::new(Self { key: key.into(), taken, counted, overlaps: AtomicUsize::default() })
    }

    /// A GET and a SET of one more, with a pause between them.
    async fn count(&self, redis: &mut Connection) {
        if self.taken.swap(true, Ordering::SeqCst) {
            self.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        let count: Option<usize> = redis.get(&self.key).unwrap();
        sleep(ms(fastrand::u64(0..4))).await;
        let () = redis.set(&self.key, count.unwrap_or(0) + 1).unwrap();
        self.counted.fetch_add(1, Ordering::SeqCst);
        self.taken.store(false, Ordering::SeqCst);
    }

    /// Says how often it was counted.
    fn check(&self, redis: &mut Connection) -> usize {
        let (counted, overlaps) =
            (self.counted.load(Ordering::SeqCst), self.overlaps.load(Ordering::SeqCst));
        let count: Option<usize> = redis.get(&self.key).unwrap();
        assert_eq!(overlaps, 0, "{}: {counted} holds", self.key);
        assert_eq!(count.unwrap_or(0), counted, "{}: updates were lost", self.key);
        counted
    }
}

/// What came of the tries of one.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    held: usize,
    refused: usize,
    failed: usize,
    dropped: usize,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_excludes_while_servers_stop_and_die_and_replies_are_lost() {
    let mut fleet = Fleet::new(5).await;
    let store = RedisServer::start();
    let (counter, time, begun) = (Counter::new("count"), seconds(), Instant::now());
    let mut users = Vec::new();
    let mut tasks = Vec::new();
    for n in 0..4 {
        let user = fleet.user().await;
        let locks: Vec<Lock> = user.iter().map(|client| client.lock(LOCK)).collect();
        users.push(user);
        let (counter, mut redis) = (counter.clone(), store.client());
        let multi = MultiLock::majority(locks);
        tasks.push(tokio::spawn(async move {
            let mut tally = Tally::default();
            // Whoever had no turn by then has one when all is well again.
            let is_waiting =
                |tally: &Tally| tally.held == 0 && begun.elapsed() < time + PATIENCE / 3;
            while begun.elapsed() < time || is_waiting(&tally) {
                let wait = ms(fastrand::u64(0..2_000));
                // With the watchdog, and without.
                let acquire = match n % 2 {
                    0 => multi.try_lock().wait(wait).lease(ms(6_000)),
                    _ => multi.try_lock().wait(wait),
                };
                let cut = fastrand::u64(0..100);
                if n == 3 && cut < 10 {
                    let _ = tokio::time::timeout(ms(cut), acquire.into_future()).await;
                    tally.dropped += 1;
                    continue;
                }
                match bounded("an answer", acquire).await {
                    Ok(Some(guard)) => {
                        let left = guard.remaining();
                        assert!(!left.is_zero());
                        counter.count(&mut redis).await;
                        let held = guard.is_held();
                        let unlocked = bounded("an unlock", guard.unlock()).await;
                        assert!(held, "{left:?} were left; unlocked: {unlocked:?}");
                        tally.held += 1;
                    }
                    Ok(None) => tally.refused += 1,
                    Err(Error::Redis(_) | Error::NotHeld { .. }) => tally.failed += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            tally
        }));
    }
    let mut killed = false;
    while begun.elapsed() < time {
        let first = fastrand::usize(0..5);
        if begun.elapsed() > time / 2 && !killed {
            killed = true;
            fleet.servers[0].kill();
            fleet.servers[1].kill();
        } else if killed {
            // Too few for a moment.
            fleet.servers[2].pause();
            sleep(ms(150)).await;
            fleet.servers[2].resume();
        } else {
            let (one, other) = (&fleet.servers[first], &fleet.servers[(first + 2) % 5]);
            one.pause();
            other.pause();
            sleep(ms(300)).await;
            one.resume();
            other.resume();
        }
        for _ in 0..8 {
            fleet.proxies[fastrand::usize(0..5)].lose_replies("EVALSHA", 1);
            sleep(ms(40)).await;
        }
    }
    let tallies =
        join_all(tasks.into_iter().map(async |task| bounded("to end", task).await.unwrap()));
    let tallies = tallies.await;
    let counted = counter.check(&mut store.client());
    println!("{counted} holds in {time:?}, no two at a time: {tallies:?}");
    assert!(tallies.iter().all(|tally| tally.held > 0), "{tallies:?}");
    fleet.end(users).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_overlapping_locks_in_any_order_exclude_each_other_and_never_hang() {
    let fleet = Fleet::new(3).await;
    let store = RedisServer::start();
    let (time, begun) = (seconds() / 2, Instant::now());
    let counters: Vec<_> = (0..6).map(|i| Counter::new(format!("count:{i}"))).collect();
    let mut users = Vec::new();
    let mut tasks = Vec::new();
    for n in 0..4 {
        let user = fleet.user().await;
        users.push(user.clone());
        let (counters, mut redis) = (counters.clone(), store.client());
        tasks.push(tokio::spawn(async move {
            let (mut held, mut failed) = (0, 0);
            while begun.elapsed() < time {
                let mut chosen: Vec<usize> = (0..6).collect();
                fastrand::shuffle(&mut chosen);
                chosen.truncate(3);
                let lock = |&i: &usize| match i % 2 {
                    0 => user[i % 3].lock(format!("{LOCK}:{i}")),
                    _ => user[i % 3].fair_lock(format!("{LOCK}:{i}")),
                };
                let multi = MultiLock::all(chosen.iter().map(lock));
                let acquire = if n == 0 { multi.lock().lease(ms(6_000)) } else { multi.lock() };
                match bounded("the locks", acquire).await {
                    Ok(guard) => {
                        for &i in &chosen {
                            counters[i].count(&mut redis).await;
                        }
                        assert!(guard.is_held());
                        match bounded("an unlock", guard.unlock()).await {
                            // Of a lost answer about a lease nobody can know more.
                            Ok(()) | Err(Error::NotHeld { why: Loss::Unknown }) => held += 1,
                            // Without an answer it goes on in the background.
                            Err(Error::Redis(error)) if is_unanswered(&error) => failed += 1,
                            Err(error) => panic!("{error}"),
                        }
                    }
                    Err(Error::Redis(_)) => failed += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            (held, failed)
        }));
    }
    while begun.elapsed() < time {
        fleet.proxies[fastrand::usize(0..3)].lose_replies("EVALSHA", 1);
        sleep(ms(60)).await;
    }
    let tallies =
        join_all(tasks.into_iter().map(async |task| bounded("to end", task).await.unwrap()));
    let tallies = tallies.await;
    let counted: usize = counters.iter().map(|counter| counter.check(&mut store.client())).sum();
    println!("{counted} counts under 3 of 6 locks each in {time:?}; held, failed: {tallies:?}");
    assert!(tallies.iter().all(|(held, _)| *held > 0), "{tallies:?}");
    fleet.end(users).await;
}
