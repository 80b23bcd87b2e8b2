//! A majority of servers: which may be missing, and what that costs.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, eventually};
use redisson_lock::{Error, Loss, MultiGuard, MultiLock};
use tokio::time::{sleep, timeout};

use crate::stage::{Stage, User, locks, ms, soon};

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
    let stage = Stage::new(5).await;
    let user = stage.user().await;
    let guard = soon("a majority", majority(&user).lock()).await.unwrap();
    held_by(&guard, 5).await;
    let flush = |i: usize| stage.servers[i].inspector().query::<()>(&cmd("FLUSHALL"));

    flush(4);
    flush(1);
    // By the next renewal.
    held_by(&guard, 3).await;
    assert!(timeout(ms(1_500), guard.lost()).await.is_err(), "three of five are a majority");
    soon("a check", guard.check()).await.unwrap();
    assert!(guard.is_held());
    flush(0);
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Removed);
    assert!(!guard.is_held());
    assert!(matches!(soon("a check", guard.check()).await, Err(Error::NotHeld { .. })));
    let unlocked = soon("to unlock", guard.unlock()).await;
    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
    stage.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_outlives_a_killed_and_a_stopped_server_and_not_a_third() {
    let mut stage = Stage::new(5).await;
    let user = stage.user().await;
    let guard = soon("a majority", majority(&user).lock()).await.unwrap();
    held_by(&guard, 5).await;
    stage.servers[0].kill();
    stage.servers[1].pause();
    held_by(&guard, 3).await;
    assert!(timeout(ms(1_500), guard.lost()).await.is_err(), "three of five are a majority");
    let begun = Instant::now();
    stage.servers[2].pause();
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Expired);
    assert!(begun.elapsed() < ms(1_200) + ms(1_000), "{:?}", begun.elapsed());
    drop(guard);
    stage.servers[1].resume();
    stage.servers[2].resume();
    let again = soon("a majority again", majority(&user).lock()).await.unwrap();
    let begun = Instant::now();
    soon("to unlock", again.unlock()).await.unwrap();
    assert!(begun.elapsed() < ms(1_000), "a dead server is not waited for: {:?}", begun.elapsed());
    stage.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_of_five_that_hang_cost_nothing_and_three_are_an_error() {
    let stage = Stage::new(5).await;
    let user = stage.user_with(|config| config.command_timeout(ms(1_500))).await;
    let turns = async |user: &User| {
        let mut times = Vec::new();
        for _ in 0..40 {
            let begun = Instant::now();
            let guard = soon("a majority", majority(user).try_lock().lease(ms(8_000))).await;
            soon("to unlock", guard.unwrap().expect("a free lock").unlock()).await.unwrap();
            times.push(begun.elapsed());
        }
        times.sort();
        times
    };
    let whole = turns(&user).await;
    stage.servers[1].pause();
    stage.servers[3].pause();
    let hanging = turns(&user).await;
    println!("40 majorities of 5, taken and released, median and longest:");
    println!("{:?} {:?} with all up", whole[20], whole[39]);
    println!("{:?} {:?} while 2 hang", hanging[20], hanging[39]);
    // One that is waited for costs 1.5 s.
    assert!(hanging[39] < ms(1_000), "{hanging:?}");
    stage.servers[4].pause();
    let begun = Instant::now();
    let failed = soon("to fail", majority(&user).try_lock()).await;
    assert!(matches!(failed, Err(Error::Redis(_))), "{failed:?}");
    assert!(begun.elapsed() < ms(1_500) + ms(2_500), "{:?}", begun.elapsed());
    stage.servers[4].resume();
    let guard = soon("a majority", majority(&user).lock()).await.unwrap();
    soon("to unlock", guard.unlock()).await.unwrap();
    stage.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_left_of_the_lease_is_counted_from_the_question() {
    let stage = Stage::new(5).await;
    let user = stage.user_with(|config| config).await;
    let lock = majority(&user);
    drop(soon("to warm up", lock.lock()).await.unwrap());
    for proxy in &stage.proxies[..3] {
        proxy.delay_replies(ms(300));
    }
    let lease = ms(4_000);
    let guard = soon("a majority", lock.lock().lease(lease)).await.unwrap();
    let most = lease - lease / 100 - ms(2) - ms(300);
    assert!(guard.remaining() <= most, "{:?}", guard.remaining());
    assert!(guard.remaining() > ms(1_000), "{:?}", guard.remaining());
    soon("to unlock", guard.unlock()).await.unwrap();
    // Nothing, or next to nothing, would be left of these.
    for lease in [250, 310, 600] {
        let late = soon("to fail", lock.try_lock().lease(ms(lease))).await;
        assert!(matches!(late, Err(Error::Redis(_) | Error::NotHeld { .. })), "{lease}: {late:?}");
    }
    stage.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_split_vote_is_given_back_and_decided_later() {
    let stage = Stage::new(5).await;
    let (user, other) = (stage.user().await, stage.user().await);
    let theirs: Vec<_> = locks(&other, LOCK);
    let mut held = Vec::new();
    for lock in &theirs[..3] {
        held.push(lock.lock().await.unwrap());
    }
    assert!(soon("to be refused", majority(&user).try_lock()).await.unwrap().is_none());
    for lock in &theirs[3..] {
        // Of the two it had got nothing is left.
        soon("what was given back", lock.lock()).await.unwrap().unlock().await.unwrap();
    }
    let waiter = {
        let lock = majority(&user);
        tokio::spawn(async move { lock.try_lock().wait(Duration::from_secs(15)).await })
    };
    sleep(ms(300)).await;
    assert!(!waiter.is_finished());
    held.pop().unwrap().unlock().await.unwrap();
    let guard = soon("a majority", waiter).await.unwrap().unwrap().expect("three of five");
    assert_eq!(guard.held_members(), 3);
    soon("to unlock", guard.unlock()).await.unwrap();
    drop(held);
    stage.end([user, other]).await;
}
