//! Callers come and go while the server refuses different requests. After it accepts all again, nothing of them is left.
//!
//! `TURMOIL_SEED` repeats a run as far as the machine allows. `TURMOIL_SECONDS` makes it longer.

use std::env;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use futures::future::join_all;
use harness::assert_nothing_left;
use harness::redis::cmd;
use redisson_lock::{Client, Config, Lock, LockGuard, MultiLock};
use tokio::time::{sleep, timeout};

use crate::refusals::{Refusal, config, set_user, stage};
use crate::stage::{Stage, connect, within};

const CALLERS: usize = 24;

/// Longer than all of a test: what nobody takes back is seen.
const LONG: Duration = Duration::from_secs(120);

/// How long what was refused may stay: until it is tried again, and copies without an answer are too late.
const CLEAN_UP: Duration = Duration::from_secs(20);

/// What a user may have to do without for a while; in the middle of a script, mostly.
const RIGHTS: [&str; 11] = [
    "evalsha",
    "eval",
    "hdel",
    "pexpire",
    "zadd",
    "zrem",
    "lrem",
    "rpush",
    "lpop",
    "publish",
    "subscribe",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_stays_of_callers_who_were_refused_now_this_and_now_that() {
    let seed = number("TURMOIL_SEED").unwrap_or_else(|| fastrand::u64(..));
    let time = Duration::from_secs(number("TURMOIL_SECONDS").unwrap_or(10));
    println!("TURMOIL_SEED={seed}");
    let stage = stage().await;
    let patient = |config: Config| config.fair_wait(LONG).watchdog(LONG);
    let mut clients = Vec::new();
    for _ in 0..2 {
        let config = patient(config(&stage)).retry_timeout(Duration::from_millis(300));
        clients.push(connect(config.command_timeout(Duration::from_secs(1))).await);
    }
    let end = Instant::now() + time;
    let inside: Arc<[AtomicUsize; LOCKS]> = Arc::default();
    let callers = (0..CALLERS as u64).map(|i| {
        let (client, inside) = (clients[i as usize % clients.len()].clone(), inside.clone());
        tokio::spawn(caller(client, inside, Rng::with_seed(seed ^ (i + 1)), end))
    });
    let callers = join_all(callers);
    let (turns, ()) = tokio::join!(callers, refuse(&stage, Rng::with_seed(seed), end));
    let turns: Vec<Turns> = turns.into_iter().map(|turns| turns.expect("no panic")).collect();
    let sum = |of: fn(&Turns) -> usize| turns.iter().map(of).sum::<usize>();
    let (held, failed, left) = (sum(|t| t.held), sum(|t| t.failed), sum(|t| t.left));
    println!("{held} holds, {failed} calls that failed, {left} that were left");
    assert!(held > 50 && failed > 50 && left > 50, "a run that says nothing");

    let calm = Instant::now();
    let left = loop {
        let mut left = stage.redis().keys();
        left.retain(|key| !key.contains("_token:"));
        if left.is_empty() || calm.elapsed() > CLEAN_UP {
            break left;
        }
        sleep(Duration::from_millis(20)).await;
    };
    assert!(left.is_empty(), "left {CLEAN_UP:?} after the last refusal: {left:?}");
    println!("nothing left {:?} after the last refusal", calm.elapsed());
    // All are served as if nothing had been.
    for i in 0..LOCKS {
        let guard = within(CLEAN_UP, "to acquire", lock(&clients[0], i).lock()).await.unwrap();
        guard.unlock().await.unwrap();
    }
    let () = stage.redis().query(cmd("DEL").arg("redisson_lock_token:{fenced}"));
    for client in clients {
        // Calls of which nothing is left may be about to be repeated for longer than closing waits.
        let _ = within(CLEAN_UP, "to close", client.close()).await;
    }
    assert_nothing_left(&stage.server).await;
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok().map(|number| number.parse().expect("a number"))
}

/// Refuses one thing after the other, and some together; at the end nothing.
async fn refuse(stage: &Stage, mut rng: Rng, end: Instant) {
    while Instant::now() < end {
        sleep(Duration::from_millis(rng.u64(20..300))).await;
        let refusals =
            [Refusal::Disk, Refusal::Memory, Refusal::Replicas, Refusal::Role, Refusal::Rights];
        let refusal = rng.choice(refusals).filter(|_| rng.bool());
        let rights: Vec<_> = rng.choose_multiple(RIGHTS, 2);
        if let Some(refusal) = refusal {
            refusal.set(stage, true);
        }
        for right in &rights {
            set_user(stage, &[&format!("-{right}")]);
        }
        sleep(Duration::from_millis(rng.u64(20..600))).await;
        if let Some(refusal) = refusal {
            refusal.set(stage, false);
        }
        for right in &rights {
            set_user(stage, &[&format!("+{right}")]);
        }
    }
}

/// What became of a caller's calls.
#[derive(Debug, Default)]
struct Turns {
    held: usize,
    failed: usize,
    left: usize,
}

const LOCKS: usize = 8;

fn lock(client: &Client, i: usize) -> Lock {
    let both = client.read_write_lock("both");
    match i {
        0..3 => client.fair_lock(format!("fair:{i}")),
        3 => client.non_reentrant_fair_lock("fair:once"),
        4 => client.lock("plain"),
        5 => client.fenced_lock("fenced").into(),
        6 => both.write_lock().clone(),
        _ => both.read_lock().clone(),
    }
}

/// Takes locks in many ways, and goes away in many ways.
async fn caller(
    client: Client,
    inside: Arc<[AtomicUsize; LOCKS]>,
    mut rng: Rng,
    end: Instant,
) -> Turns {
    let mut turns = Turns::default();
    while Instant::now() < end {
        let i = rng.usize(..LOCKS);
        let lock = lock(&client, i);
        let some = |rng: &mut Rng, most| Duration::from_millis(rng.u64(0..most));
        let taken = match rng.u32(0..10) {
            0 => take_two(&client, &mut turns, &mut rng).await,
            1..4 => Some(lock.try_lock().wait(some(&mut rng, 300)).await),
            4 => Some(lock.try_lock().lease(LONG).await),
            5 => Some(lock.try_lock().by(&mut client.owner()).wait(some(&mut rng, 300)).await),
            // Dropped wherever it stands.
            _ => {
                let waiting = async { lock.lock().await.map(Some) };
                timeout(some(&mut rng, 200), waiting).await.ok()
            }
        };
        match taken {
            None => turns.left += 1,
            Some(Ok(None)) => {}
            Some(Err(_)) => {
                turns.failed += 1;
                sleep(some(&mut rng, 50)).await;
            }
            Some(Ok(Some(guard))) => {
                turns.held += 1;
                hold(guard, (i != 7).then_some(&inside[i]), &mut rng).await;
            }
        }
    }
    turns
}

/// `alone`: how many hold it who must hold it alone.
async fn hold(guard: LockGuard, alone: Option<&AtomicUsize>, rng: &mut Rng) {
    if let Some(inside) = alone {
        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
    }
    sleep(Duration::from_millis(rng.u64(0..10))).await;
    if let Some(inside) = alone {
        inside.fetch_sub(1, Ordering::SeqCst);
    }
    match rng.u32(0..3) {
        0 => drop(guard),
        1 => drop(guard.unlock().await),
        _ => drop(timeout(Duration::from_micros(rng.u64(0..2_000)), guard.unlock()).await),
    }
}

/// Two at a time, of which one may be refused.
async fn take_two<T>(client: &Client, turns: &mut Turns, rng: &mut Rng) -> Option<T> {
    let both = MultiLock::all([lock(client, 0), lock(client, 4)]);
    match timeout(Duration::from_millis(rng.u64(0..300)), both.lock().into_future()).await {
        Ok(Ok(guard)) => {
            turns.held += 1;
            drop(guard);
        }
        Ok(Err(_)) => turns.failed += 1,
        Err(_) => {}
    }
    None
}
