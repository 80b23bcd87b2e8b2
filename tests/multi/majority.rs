//! A majority of servers: which may be missing, and what that costs.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, eventually};
use redisson_lock::{Error, Loss, MultiGuard, MultiLock};
use tokio::time::{sleep, timeout};

use crate::fleet::{Fleet, User, bounded, locks, ms};

const LOCK: &str = "nightly";

fn majority(user: &User) -> MultiLock {
    MultiLock::majority(locks(user, LOCK))
}

async fn held_by(guard: &MultiGuard, count: usize) {
    let what = format!("{count} locks to be held");
    eventually(PATIENCE, &what, || (guard.held_members() == count).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_lost_when_fewer_than_a_majority_are_left_and_not_before() {
    let fleet = Fleet::new(5).await;
    let user = fleet.user().await;
    let guard = bounded("a majority", majority(&user).lock()).await.unwrap();
    held_by(&guard, 5).await;
    let flush = |i: usize| fleet.servers[i].inspector().query::<()>(&cmd("FLUSHALL"));

    flush(4);
    flush(1);
    // By the next renewal.
    held_by(&guard, 3).await;
    assert!(timeout(ms(1_500), guard.lost()).await.is_err(), "three of five are a majority");
    bounded("a check", guard.check()).await.unwrap();
    assert!(guard.is_held());
    flush(0);
    assert_eq!(bounded("to be told", guard.lost()).await, Loss::Removed);
    assert!(!guard.is_held());
    assert!(matches!(bounded("a check", guard.check()).await, Err(Error::NotHeld { .. })));
    let unlocked = bounded("to unlock", guard.unlock()).await;
    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
    fleet.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_outlives_a_killed_and_a_stopped_server_and_not_a_third() {
    let mut fleet = Fleet::new(5).await;
    // On a busy machine a renewal may be a second late.
    let watchdog = ms(3_000);
    let user = fleet.user_with(|config| config.watchdog(watchdog).command_timeout(ms(500))).await;
    let guard = bounded("a majority", majority(&user).lock()).await.unwrap();
    held_by(&guard, 5).await;
    fleet.servers[0].kill();
    fleet.servers[1].pause();
    held_by(&guard, 3).await;
    assert!(
        timeout(watchdog + ms(500), guard.lost()).await.is_err(),
        "three of five are a majority"
    );
    let begun = Instant::now();
    fleet.servers[2].pause();
    assert_eq!(bounded("to be told", guard.lost()).await, Loss::Expired);
    assert!(begun.elapsed() < watchdog + ms(2_000), "{:?}", begun.elapsed());
    drop(guard);
    fleet.servers[1].resume();
    fleet.servers[2].resume();
    let again = bounded("a majority again", majority(&user).lock()).await.unwrap();
    let begun = Instant::now();
    bounded("to unlock", again.unlock()).await.unwrap();
    assert!(begun.elapsed() < ms(1_000), "a dead server is not waited for: {:?}", begun.elapsed());
    fleet.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_of_five_that_hang_cost_nothing_and_three_are_an_error() {
    let fleet = Fleet::new(5).await;
    let user = fleet.user_with(|config| config.command_timeout(ms(1_500))).await;
    let turns = async |user: &User| {
        let mut times = Vec::new();
        for _ in 0..40 {
            let begun = Instant::now();
            let guard = bounded("a majority", majority(user).try_lock().lease(ms(8_000))).await;
            bounded("to unlock", guard.unwrap().expect("a free lock").unlock()).await.unwrap();
            times.push(begun.elapsed());
        }
        times.sort();
        times
    };
    let whole = turns(&user).await;
    fleet.servers[1].pause();
    fleet.servers[3].pause();
    let hanging = turns(&user).await;
    println!("40 majorities of 5, taken and released, median and longest:");
    println!("{:?} {:?} with all up", whole[20], whole[39]);
    println!("{:?} {:?} while 2 hang", hanging[20], hanging[39]);
    // One that is waited for costs 1.5 s.
    assert!(hanging[39] < ms(1_000), "{hanging:?}");
    fleet.servers[4].pause();
    let begun = Instant::now();
    let failed = bounded("to fail", majority(&user).try_lock()).await;
    assert!(matches!(failed, Err(Error::Redis(_))), "{failed:?}");
    assert!(begun.elapsed() < ms(1_500) + ms(2_500), "{:?}", begun.elapsed());
    fleet.servers[4].resume();
    let guard = bounded("a majority", majority(&user).lock()).await.unwrap();
    bounded("to unlock", guard.unlock()).await.unwrap();
    fleet.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_the_lease_is_counted_from_the_question() {
    let fleet = Fleet::new(5).await;
    let user = fleet.user_with(|config| config).await;
    let lock = majority(&user);
    drop(bounded("to warm up", lock.lock()).await.unwrap());
    for proxy in &fleet.proxies[..3] {
        proxy.delay_replies(ms(300));
    }
    let lease = ms(4_000);
    let guard = bounded("a majority", lock.lock().lease(lease)).await.unwrap();
    let most = lease - lease / 100 - ms(2) - ms(300);
    assert!(guard.remaining() <= most, "{:?}", guard.remaining());
    assert!(guard.remaining() > ms(1_000), "{:?}", guard.remaining());
    bounded("to unlock", guard.unlock()).await.unwrap();
    // Nothing, or next to nothing, would be left of these.
    for lease in [250, 310, 600] {
        let late = bounded("to fail", lock.try_lock().lease(ms(lease))).await;
        assert!(matches!(late, Err(Error::Redis(_) | Error::NotHeld { .. })), "{lease}: {late:?}");
    }
    fleet.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_vote_is_given_back_and_decided_later() {
    let fleet = Fleet::new(5).await;
    let (user, other) = (fleet.user().await, fleet.user().await);
    let theirs: Vec<_> = locks(&other, LOCK);
    let mut held = Vec::new();
    for lock in &theirs[..3] {
        held.push(lock.lock().await.unwrap());
    }
    assert!(bounded("to be refused", majority(&user).try_lock()).await.unwrap().is_none());
    for lock in &theirs[3..] {
        // Of the two it had got nothing is left.
        bounded("what was given back", lock.lock()).await.unwrap().unlock().await.unwrap();
    }
    let waiter = {
        let lock = majority(&user);
        tokio::spawn(async move { lock.try_lock().wait(Duration::from_secs(15)).await })
    };
    sleep(ms(300)).await;
    assert!(!waiter.is_finished());
    held.pop().unwrap().unlock().await.unwrap();
    let guard = bounded("a majority", waiter).await.unwrap().unwrap().expect("three of five");
    assert_eq!(guard.held_members(), 3);
    bounded("to unlock", guard.unlock()).await.unwrap();
    drop(held);
    fleet.end([user, other]).await;
}
