//! A server without memory: one that refuses (`noeviction`), and one that evicts what it has.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use harness::{PATIENCE, eventually};
use redisson_lock::Loss;
use tokio::time::sleep;

use crate::held::{self, KINDS, SLACK, all_told, hold, lock_of, one_of_each, rival_of};
use crate::refusals::Refusal;
use crate::stage::{LOCK, SHORT, Stage, assert_redis_error, connect, soon};

/// How many holds are evicted at once.
const HOLDS: usize = 100;

fn configure(stage: &Stage, pairs: &[(&str, &str)]) {
    for (name, value) in pairs {
        let () = stage.redis().query(cmd("CONFIG").arg("SET").arg(name).arg(value));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_keep_and_give_back_what_they_have_on_a_server_that_is_full() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let other = stage.client().await;
    let held = one_of_each(&client, "held").await;
    Refusal::Memory.set(&stage, true);
    sleep(SHORT + SLACK).await;
    assert_redis_error(other.lock(LOCK).try_lock().await);
    for held in held {
        held.guard.check().await.unwrap_or_else(|error| panic!("{}: {error}", held.name));
        let asked = soon("an answer", held.guard.unlock()).await;
        asked.unwrap_or_else(|error| panic!("{}: {error}", held.name));
        assert!(!stage.redis().exists(&held.name), "{} is still held", held.name);
    }
    Refusal::Memory.set(&stage, false);
    let taken = one_of_each(&other, "taken").await;
    join_all(taken.into_iter().map(|held| held.guard.unlock())).await;
    held::end(&stage, [client, other]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_renewed_and_given_back_on_a_server_that_is_full() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let (pool, leased) = (client.semaphore("pool"), client.expirable_semaphore("leased"));
    let gate = client.count_down_latch("gate");
    assert!(pool.try_set(3).await.unwrap() && leased.try_set(4).await.unwrap());
    assert!(gate.try_set(2).await.unwrap());
    let (permit, dropped) = (pool.acquire(1).await.unwrap(), pool.acquire(1).await.unwrap());
    let (renewed, fixed) = (leased.acquire(2).await.unwrap(), leased.acquire(1).lease(PATIENCE));
    let fixed = fixed.await.unwrap().forget()[0];
    Refusal::Memory.set(&stage, true);
    sleep(SHORT + SLACK).await;
    assert_redis_error(pool.try_acquire(1).await);
    assert_redis_error(leased.try_acquire(1).await);
    renewed.check().await.expect("to be renewed");
    drop(dropped);
    soon("an answer", permit.release()).await.expect("to be returned");
    assert!(soon("an answer", leased.set_lease(fixed, 2 * PATIENCE)).await.unwrap());
    soon("an answer", renewed.release()).await.expect("to be returned");
    assert!(soon("an answer", leased.release([fixed])).await.unwrap());
    for _ in 0..2 {
        soon("an answer", gate.count_down()).await.expect("to be counted");
    }
    assert_eq!(gate.count().await.unwrap(), 0);
    let all_back = async || (pool.available().await.unwrap() == 3).then_some(());
    let until = Instant::now() + PATIENCE;
    while all_back().await.is_none() {
        assert!(Instant::now() < until, "{:?} are free", pool.available().await);
        sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(leased.available().await.unwrap(), 4);
    Refusal::Memory.set(&stage, false);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_evicted_locks_are_told_by_their_next_renewal_when_any_key_may_go() {
    locks_are_evicted("allkeys-random").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_of_evicted_locks_are_told_by_their_next_renewal_when_keys_with_a_ttl_may_go() {
    locks_are_evicted("volatile-ttl").await;
}

async fn locks_are_evicted(policy: &str) {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let other = stage.far_client().await;
    let () = stage.redis().query(cmd("SET").arg("somebody's").arg("value"));
    let names = (0..HOLDS).map(|n| (KINDS[n % KINDS.len()], format!("lock:{n}")));
    let held = join_all(names.map(|(kind, name)| hold(&client, kind, name))).await;
    let told = all_told(held);
    // Not all at the same point between two renewals.
    sleep(SHORT / 2).await;

    let evicted = Instant::now();
    configure(&stage, &[("maxmemory-policy", policy), ("maxmemory", "1")]);
    eventually(PATIENCE, "all locks to be evicted", || {
        let left = stage.redis().keys();
        left.iter().all(|key| key == "somebody's" || key.contains("_token:")).then_some(())
    })
    .await;
    configure(&stage, &[("maxmemory", "0")]);
    // Whoever comes has the lock at once: that is the overlap.
    let granted = join_all((0..HOLDS).map(async |n| {
        let rival = rival_of(&other, KINDS[n % KINDS.len()], &format!("lock:{n}"));
        let guard = soon("an answer", rival.try_lock()).await.unwrap();
        (guard.unwrap_or_else(|| panic!("{rival:?} is held by nobody")), Instant::now())
    }))
    .await;
    let told = told.await.unwrap();
    let bound = SHORT / 3 + SLACK;
    let (mut longest, mut overlap) = (Duration::ZERO, Duration::ZERO);
    for (told, (_, granted)) in told.iter().zip(&granted) {
        let after = told.at - evicted;
        assert!(matches!(told.why, Loss::Removed | Loss::Taken), "{:?}", told.why);
        assert!(after < bound, "{}: told {after:?} after", told.held.name);
        longest = longest.max(after);
        overlap = overlap.max(told.at.saturating_duration_since(*granted));
    }
    println!(
        "{policy}: {} of {HOLDS} told, the last after {longest:?} (bound {bound:?}); longest overlap {overlap:?}",
        told.len()
    );
    for told in told {
        told.held.stays_lost().await;
    }
    for (guard, _) in granted {
        guard.unlock().await.expect("nobody has freed it but its holder");
    }
    if policy.starts_with("volatile") {
        assert!(stage.redis().exists("somebody's"), "locks are what goes");
    }
    let () = stage.redis().query(cmd("DEL").arg("somebody's"));
    held::end(&stage, [client, other]).await;
}

/// Under `volatile-*` the counter stays: it has no TTL.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_of_tokens_that_is_evicted_begins_anew() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let lock = client.fenced_lock(LOCK);
    let token = async || {
        let guard = soon("a lock", lock.lock()).await.unwrap();
        let token = guard.token().value();
        guard.unlock().await.unwrap();
        token
    };
    assert_eq!([token().await, token().await], [1, 2]);
    for (policy, next) in [("volatile-lru", 3), ("allkeys-lru", 1)] {
        let () = stage.redis().query(cmd("SET").arg("temporary").arg("value").arg("EX").arg(60));
        configure(&stage, &[("maxmemory-policy", policy), ("maxmemory", "1")]);
        eventually(PATIENCE, "an eviction", || {
            (stage.redis().keys().len() <= usize::from(next == 3)).then_some(())
        })
        .await;
        configure(&stage, &[("maxmemory", "0")]);
        assert_eq!(token().await, next, "{policy}");
    }
    held::end(&stage, [client]).await;
}

/// A place in line that is evicted is taken again, and the lock goes to nobody twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_outlive_an_eviction_of_lock_and_line() {
    let stage = Stage::new().await;
    let holder = stage.far_client().await;
    let clients = [stage.client().await, stage.client().await];
    let mut held = Vec::new();
    let mut turns = Vec::new();
    for kind in KINDS {
        let name = format!("waited for:{kind}");
        held.push(hold(&holder, kind, name.clone()).await);
        for client in &clients {
            let lock = rival_of(client, kind, &name);
            turns.push(tokio::spawn(async move { lock.lock().await?.unlock().await }));
        }
    }
    sleep(Duration::from_millis(300)).await;
    configure(&stage, &[("maxmemory-policy", "allkeys-random"), ("maxmemory", "1")]);
    let gone = || (!stage.redis().exists("waited for:lock")).then_some(());
    eventually(PATIENCE, "an eviction", gone).await;
    configure(&stage, &[("maxmemory", "0")]);
    let evicted = Instant::now();
    for turn in turns {
        soon("for all to be served", turn).await.unwrap().unwrap();
    }
    println!("all served {:?} after the eviction", evicted.elapsed());
    for held in held {
        // Nobody has renewed it yet, so nobody has asked.
        let lock = lock_of(&holder, held.kind, &held.name);
        let unlocked = held.guard.unlock().await;
        assert!(unlocked.is_err(), "{lock:?}: {unlocked:?}");
    }
    held::end(&stage, [holder, clients[0].clone(), clients[1].clone()]).await;
}
