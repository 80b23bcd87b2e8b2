//! Servers whose time of day is set, forward or back, or does not run as fast as the client's.
//!
//! A server frees keys by its time of day. Forward: it frees them early, and their holders are told by their next renewal. Back: it
//! keeps what nobody gives back for so much longer.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::{RedisServer, ServerClock};
use redisson_lock::{Client, LockGuard, Loss};
use tokio::time::sleep;

use crate::held::{self, KINDS, SLACK, all_told, hold, lock_of, one_of_each, rival_of};
use crate::stage::{LOCK, SHORT, Stage, connect, renewed, soon, why_not_held};

pub(crate) const SMALL: Duration = Duration::from_secs(5);
pub(crate) const LARGE: Duration = Duration::from_secs(3600);
/// The first acquisition after a step takes no longer.
const AT_ONCE: Duration = Duration::from_secs(1);

/// What a step forward costs at most: the rest of the step, or the time until the next renewal.
pub(crate) fn longest_overlap(step: Duration) -> Duration {
    step.min(SHORT / 3) + SLACK
}

pub(crate) fn set(clock: &ServerClock, ahead: bool, step: Duration) {
    match ahead {
        true => clock.forward(step),
        false => clock.back(step),
    }
}

async fn stage(clock: &ServerClock) -> Stage {
    Stage::with(RedisServer::builder().clock(clock)).await
}

/// One caller after the other, each of whom asks once.
async fn at_once(client: &Client, prefix: &str) -> Vec<LockGuard> {
    let mut guards = Vec::new();
    for kind in KINDS {
        let (lock, asked) = (rival_of(client, kind, &format!("{prefix}:{kind}")), Instant::now());
        let guard = soon("an answer", lock.try_lock()).await.unwrap();
        guards.push(guard.unwrap_or_else(|| panic!("{lock:?} is held")));
        assert!(asked.elapsed() < AT_ONCE, "{lock:?}: {:?}", asked.elapsed());
    }
    guards
}

async fn unlock_all(guards: Vec<LockGuard>) {
    for guard in join_all(guards.into_iter().map(LockGuard::unlock)).await {
        guard.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_5_s_ahead_frees_locks_early_and_holders_are_told_by_their_next_renewal() {
    forward(SMALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_1_h_ahead_frees_locks_early_and_holders_are_told_by_their_next_renewal() {
    forward(LARGE).await;
}

async fn forward(step: Duration) {
    let clock = ServerClock::running(1.0);
    let stage = stage(&clock).await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let other = connect(stage.config().watchdog(SHORT)).await;
    let held = one_of_each(&client, "held").await;
    let told = all_told(held);
    clock.forward(step);
    let stepped = Instant::now();
    let taken = at_once(&other, "held").await;
    let granted = Instant::now();
    unlock_all(at_once(&client, "new").await).await;
    let told = told.await.unwrap();
    let mut longest = Duration::ZERO;
    for told in told {
        let overlap = told.at.saturating_duration_since(stepped);
        assert!(matches!(told.why, Loss::Removed | Loss::Taken), "{}", told.held.name);
        assert!(overlap < longest_overlap(step), "{}: {overlap:?}", told.held.name);
        longest = longest.max(overlap);
        told.held.stays_lost().await;
    }
    println!(
        "{step:?} ahead: all kinds taken {:?} after the step; all told {longest:?} after it",
        granted - stepped
    );
    // Those who came after the step hold as ever.
    for guard in &taken {
        renewed(guard).await;
    }
    unlock_all(taken).await;
    held::end(&stage, [client, other]).await;
}

/// Nobody asks after it, so its holder is told at the end of its lease: so much too late as the step was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_on_a_server_that_is_set_forward_overlaps_the_next_by_the_step() {
    let (lease, step) = (Duration::from_secs(4), Duration::from_secs(2));
    let clock = ServerClock::running(1.0);
    let stage = stage(&clock).await;
    let (client, other) = (stage.client().await, stage.client().await);
    let mut leased = Vec::new();
    for kind in KINDS {
        let name = format!("leased:{kind}");
        let guard = lock_of(&client, kind, &name).lock().lease(lease).await.unwrap();
        leased.push(held::Held { kind, name, guard });
    }
    let next: Vec<_> = leased
        .iter()
        .map(|held| {
            let lock = rival_of(&other, held.kind, &held.name);
            tokio::spawn(async move {
                let guard = lock.lock().await.unwrap();
                (Instant::now(), guard)
            })
        })
        .collect();
    let told = all_told(leased);
    clock.forward(step);
    let told = told.await.unwrap();
    for (told, next) in told.into_iter().zip(next) {
        let (granted, guard) = soon("its turn", next).await.unwrap();
        let overlap = told.at.saturating_duration_since(granted);
        println!("{}: overlap {overlap:?}", told.held.name);
        assert!(overlap < step + SLACK / 4, "{}: overlap {overlap:?}", told.held.name);
        assert_eq!(told.why, Loss::Expired);
        told.held.stays_lost().await;
        guard.unlock().await.unwrap();
    }
    held::end(&stage, [client, other]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_5_s_behind_costs_no_holder_its_lock() {
    back(SMALL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_1_h_behind_costs_no_holder_its_lock() {
    back(LARGE).await;
}

async fn back(step: Duration) {
    let clock = ServerClock::running(1.0);
    let stage = stage(&clock).await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let other = connect(stage.config().watchdog(SHORT)).await;
    let held = one_of_each(&client, "held").await;
    let waiting: Vec<_> = held
        .iter()
        .map(|held| {
            let lock = rival_of(&other, held.kind, &held.name);
            tokio::spawn(async move { lock.lock().await })
        })
        .collect();
    sleep(Duration::from_millis(300)).await;
    clock.back(step);
    unlock_all(at_once(&client, "new").await).await;
    // Those who wait keep their places, or take them again, and nobody gets in.
    sleep(SHORT + SLACK).await;
    for held in &held {
        held.guard.check().await.unwrap_or_else(|error| panic!("{}: {error}", held.name));
    }
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    for (held, waiting) in held.into_iter().zip(waiting) {
        let released = Instant::now();
        held.guard.unlock().await.unwrap();
        let guard = soon("its turn", waiting).await.unwrap().unwrap();
        println!("{step:?} behind: {} after {:?}", held.name, released.elapsed());
        guard.unlock().await.unwrap();
    }
    // What nobody gives back stays for the step longer, and no longer than that.
    let lease = Duration::from_secs(2);
    let dead = connect(stage.config().watchdog(lease)).await;
    let orphan = hold(&dead, "lock", LOCK.into()).await;
    clock.back(SMALL);
    let kept = u64::try_from(stage.redis().pttl(LOCK)).unwrap();
    let bound = lease + SMALL;
    assert!(Duration::from_millis(kept) <= bound, "kept for {kept} ms");
    assert!(Duration::from_millis(kept) > SMALL, "kept for {kept} ms");
    // By hand, as for one that has died.
    assert!(other.lock(LOCK).force_unlock().await.unwrap());
    assert_eq!(soon("to be told", orphan.guard.lost()).await, Loss::Removed);
    assert_eq!(why_not_held(orphan.guard.unlock().await), Loss::Removed);
    held::end(&stage, [client, other, dead]).await;
}

/// A clock of the client that runs 1 % slower than the server's, which is the same as a server's that runs 1 % faster: trust ends
/// before the key does. Of one that runs 3 % faster no more is promised.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn trust_ends_before_the_key_on_a_server_whose_clock_runs_one_percent_faster_or_slower() {
    const HOLDS: u32 = 200;
    const LOOKS: usize = 100;
    for rate in [1.01, 0.99] {
        let clock = ServerClock::running(rate);
        let stage = stage(&clock).await;
        let client = connect(stage.config().watchdog(SHORT)).await;
        let mut least = Duration::MAX;
        for n in 0..HOLDS {
            let lease = Duration::from_millis(2_000 + 100 * u64::from(n));
            let kind = KINDS[n as usize % KINDS.len()];
            let name = format!("leased:{n}");
            let guard = lock_of(&client, kind, &name).lock().lease(lease).await.unwrap();
            // Each look says how long the key is kept at least, and the guard trusted at most; on a busy machine not closely.
            let (begun, mut kept, mut trusted) = (Instant::now(), Duration::ZERO, Duration::MAX);
            for _ in 0..LOOKS {
                let (asked, ttl) = (begun.elapsed(), stage.redis().pttl(&name));
                let ttl = Duration::from_millis(ttl.try_into().unwrap());
                kept = kept.max(asked + ttl.div_f64(rate));
                trusted = trusted.min(guard.remaining() + begun.elapsed());
                if trusted < kept {
                    break;
                }
            }
            assert!(trusted < kept, "{kind}, {lease:?} at {rate}: trusted for too long");
            least = least.min(kept - trusted);
            guard.unlock().await.unwrap();
        }
        // Renewals, too.
        let held = one_of_each(&client, "held").await;
        sleep(SHORT).await;
        for held in held {
            held.guard.check().await.unwrap();
            held.guard.unlock().await.unwrap();
        }
        println!("server at {rate}: trust of {HOLDS} holds ended {least:?} or more before the key");
        held::end(&stage, [client]).await;
    }
}

/// A request that was sent before a step may be late by it, or early: it is asked for again, and runs once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_clock_is_set_all_the_time_serves_everybody() {
    let clock = ServerClock::running(1.0);
    let stage = stage(&clock).await;
    let clients = [stage.client().await, stage.client().await];
    let end = Instant::now() + SHORT;
    let visits = clients.clone().map(|client| {
        tokio::spawn(async move {
            let mut visits = 0;
            while Instant::now() < end {
                let kind = KINDS[visits % KINDS.len()];
                let lock = lock_of(&client, kind, &format!("visited:{kind}"));
                // A step takes the lock away from whoever has it.
                let _ = lock.lock().await.unwrap().unlock().await;
                visits += 1;
            }
            visits
        })
    });
    while Instant::now() < end {
        let step = Duration::from_millis(fastrand::u64(1..10_000));
        set(&clock, fastrand::bool(), step);
        sleep(Duration::from_millis(100)).await;
    }
    for visits in visits {
        let visits = soon("all visits", visits).await.unwrap();
        assert!(visits > 0, "nobody gets in");
    }
    let asked = clients[0].lock("nothing").try_lock().await;
    asked.unwrap().unwrap().unlock().await.unwrap();
    // What a step back keeps for longer.
    clock.forward(LARGE);
    sleep(Duration::from_millis(200)).await;
    held::end(&stage, clients).await;
}
