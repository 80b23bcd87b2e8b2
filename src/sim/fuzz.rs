//! Random schedules. Calls are lost, late, cut off, dropped or not polled: no holder is granted the lock beside a writer, nothing
//! hangs, and nothing is left.
//!
//! `FUZZ_SEEDS=0..1000` tries that many. No lease ends meanwhile, because TTLs do not run here.

use std::{
    future::IntoFuture,
    sync::{Arc, Mutex},
    time::Duration,
};

use fastrand::Rng;
use futures::future::join_all;
use tokio::time::{sleep, timeout};

use super::{Fault, LOCK, Sim, World, ms};
use crate::{Client, Error, Lock, LockGuard};

/// Longer than anybody waits.
pub(super) const LONG: Duration = Duration::from_secs(1_200);

/// Polled once, and then not for a while.
pub(super) async fn stalling<T>(
    limit: Duration,
    future: impl Future<Output = T>,
    rng: &mut Rng,
) -> Result<T, tokio::time::error::Elapsed> {
    let mut future = std::pin::pin!(future);
    if rng.u8(0..4) == 0 {
        if let Some(done) = futures::FutureExt::now_or_never(&mut future) {
            return Ok(done);
        }
        sleep(ms(rng.u64(0..90))).await;
    }
    timeout(limit, future).await
}

/// Who is inside: an owner, and whether to write.
#[derive(Default)]
struct Inside(Mutex<Vec<(u64, bool)>>);

impl Inside {
    fn enter(&self, who: u64, write: bool, strict: bool, log: &str) {
        let mut inside = self.0.lock().unwrap();
        let alone = inside.iter().all(|&(other, writes)| other == who || !(write || writes));
        assert!(alone || !strict, "{log}: {who} (write {write}) beside {inside:?}");
        inside.push((who, write));
    }

    fn leave(&self, who: u64, write: bool) {
        let mut inside = self.0.lock().unwrap();
        let at = inside.iter().position(|entry| *entry == (who, write)).unwrap();
        inside.swap_remove(at);
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Family {
    Plain,
    /// The plain lock, a string with a token.
    Token,
    Fenced,
    ReadWrite,
    Fair,
    /// All kinds with one key on the server: a hash, or a string for the plain lock.
    Mixed,
}

struct Run<'a> {
    family: Family,
    inside: &'a Inside,
    /// Whether keys are deleted.
    chaos: bool,
    seed: u64,
}

impl Run<'_> {
    fn lock(&self, client: &Client, rng: &mut Rng) -> (Lock, bool) {
        match self.family {
            Family::Plain => match rng.u8(0..5) {
                0 => (client.spin_lock(LOCK), true),
                _ => (client.lock(LOCK), true),
            },
            Family::Token => (client.plain_lock(LOCK), true),
            Family::Fenced => (client.fenced_lock(LOCK).into(), true),
            Family::Fair => (client.fair_lock(LOCK), true),
            Family::Mixed => match rng.u8(0..8) {
                0 => (client.spin_lock(LOCK), true),
                1 => (client.fenced_lock(LOCK).into(), true),
                2 => (client.fair_lock(LOCK), true),
                3 => (client.non_reentrant_lock(LOCK), true),
                4 => (client.plain_lock(LOCK), true),
                _ => (client.lock(LOCK), true),
            },
            Family::ReadWrite => {
                let both = client.read_write_lock(LOCK);
                match rng.u8(0..3) {
                    0 => (both.write_lock().clone(), true),
                    _ => (both.read_lock().clone(), false),
                }
            }
        }
    }

    async fn acquire(
        &self,
        lock: &Lock,
        me: Option<&mut crate::Owner>,
        rng: &mut Rng,
    ) -> Option<LockGuard> {
        let limit = if rng.u8(0..3) == 0 { ms(rng.u64(0..30)) } else { LONG };
        let lease = rng.u8(0..3) == 0;
        let lease = lease.then(|| Duration::from_secs(rng.u64(300..900)));
        let got = if rng.u8(0..4) == 0 {
            let mut ask = lock.try_lock().wait(ms(rng.u64(0..3) * 20));
            if let Some(me) = me {
                ask = ask.by(me);
            }
            if let Some(lease) = lease {
                ask = ask.lease(lease);
            }
            stalling(limit, ask.into_future(), rng).await
        } else {
            let mut ask = lock.lock();
            if let Some(me) = me {
                ask = ask.by(me);
            }
            if let Some(lease) = lease {
                ask = ask.lease(lease);
            }
            let ask = ask.into_future();
            stalling(limit, async { ask.await.map(Some) }, rng).await
        };
        match got {
            Err(_) => {
                assert!(limit < LONG, "{}: hangs", self.seed);
                None
            }
            Ok(Ok(guard)) => guard,
            Ok(Err(Error::NotHeld { why })) if self.chaos || why == crate::Loss::Expired => None,
            Ok(Err(Error::Redis(_) | Error::WouldDeadlock { .. })) => None,
            Ok(Err(Error::WrongKind { .. })) if self.family == Family::Mixed => None,
            Ok(Err(error)) => panic!("{}: {error:?}", self.seed),
        }
    }

    async fn end(&self, guard: LockGuard, rng: &mut Rng) {
        let held = guard.is_held();
        match rng.u8(0..4) {
            0 => drop(guard),
            1 => drop(stalling(ms(rng.u64(0..9)), guard.unlock(), rng).await),
            _ => {
                let done = timeout(LONG, guard.unlock()).await;
                let done = done.unwrap_or_else(|_| panic!("{}: unlock hangs", self.seed));
                let lied = held
                    && matches!(done, Err(Error::NotHeld { why }) if why != crate::Loss::Unknown);
                assert!(!lied || self.chaos, "{}: {done:?}", self.seed);
            }
        }
    }

    async fn life(&self, client: &Client, task: u64, mut rng: Rng) {
        for round in 0..6 {
            let who = task * 1000 + round;
            sleep(ms(rng.u64(0..12))).await;
            let (lock, write) = self.lock(client, &mut rng);
            let mut me = client.owner();
            let owned = rng.bool();
            let first = self.acquire(&lock, owned.then_some(&mut me), &mut rng).await;
            let Some(first) = first else { continue };
            let log = format!("seed {} {:?}", self.seed, self.family);
            self.inside.enter(who, write, !self.chaos, &log);
            sleep(ms(rng.u64(0..6))).await;
            if rng.u8(0..12) == 0 {
                sleep(ms(rng.u64(0..100_000))).await;
            }
            let mut second = None;
            if owned && rng.bool() {
                let (lock, write) = self.lock(client, &mut rng);
                second = self.acquire(&lock, Some(&mut me), &mut rng).await.map(|it| (it, write));
                if let Some((_, write)) = &second {
                    self.inside.enter(who, *write, !self.chaos, &log);
                    sleep(ms(rng.u64(0..6))).await;
                }
            }
            let mut guards = vec![(first, write)];
            guards.extend(second);
            if rng.bool() {
                guards.reverse();
            }
            for (guard, write) in guards {
                self.inside.leave(who, write);
                self.end(guard, &mut rng).await;
                sleep(ms(rng.u64(0..4))).await;
            }
        }
    }
}

const FAMILIES: [Family; 6] =
    [Family::Plain, Family::Token, Family::Fenced, Family::ReadWrite, Family::Fair, Family::Mixed];

const SCRIPTS: [&str; 7] = ["acquire", "release", "swap", "extend", "reenter", "renew", "combine"];

async fn one(world: &Arc<World>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    fastrand::seed(seed);
    let family = FAMILIES[rng.usize(0..FAMILIES.len())];
    let faulty = rng.u8(0..4) > 0;
    let chaos = rng.u8(0..3) == 0;
    let sims = [Sim::that_follows(world).await, Sim::new(world).await];
    let inside = Inside::default();
    let run = Run { family, inside: &inside, chaos, seed };
    let tasks = rng.u64(1..5);
    let mut lives = Vec::new();
    for (i, sim) in sims.iter().enumerate() {
        for task in 0..tasks {
            lives.push(run.life(&sim.client, i as u64 * 100 + task, rng.fork()));
        }
    }
    let mut fault_rng = rng.fork();
    let faults = async {
        for _ in 0..60 {
            sleep(ms(fault_rng.u64(0..12))).await;
            if faulty {
                let script = SCRIPTS[fault_rng.usize(0..SCRIPTS.len())];
                let fault = match fault_rng.u8(0..4) {
                    0 => Fault::LoseRequest,
                    1 => Fault::LoseReply,
                    2 => Fault::Linger(ms(fault_rng.u64(1..300))),
                    _ => Fault::SlowReply(ms(fault_rng.u64(1..80))),
                };
                sims[fault_rng.usize(0..2)].network.fail(script, [fault]);
            }
            match fault_rng.u8(0..20) {
                0 => sims[fault_rng.usize(0..2)].network.miss(),
                1 => sims[0].network.fail_over(),
                _ => {}
            }
            if chaos && fault_rng.u8(0..3) == 0 {
                match fault_rng.u8(0..3) {
                    0 => world.forget(LOCK),
                    _ => {
                        let client = &sims[fault_rng.usize(0..2)].client;
                        let both = client.read_write_lock(LOCK);
                        let _ = match family {
                            Family::ReadWrite if fault_rng.bool() => {
                                both.read_lock().force_unlock().await
                            }
                            Family::ReadWrite => both.write_lock().force_unlock().await,
                            Family::Token => client.plain_lock(LOCK).force_unlock().await,
                            _ => client.lock(LOCK).force_unlock().await,
                        };
                    }
                }
            }
        }
        std::future::pending().await
    };
    tokio::select! {
        _ = join_all(lives) => {}
        () = faults => {}
    }
    for sim in &sims {
        sim.network.heal();
    }
    for sim in &sims {
        let left = timeout(LONG, sim.left()).await;
        assert!(left.is_ok(), "seed {seed} {family:?}: never settled");
    }
    let left = sims[0].left().await;
    assert!(left.is_empty(), "seed {seed} {family:?} chaos {chaos} faulty {faulty}: {left:?}");
}

/// Runs the seeds of `FUZZ_SEEDS`, each on a clock of its own.
pub(super) fn each_seed(one: impl AsyncFn(&Arc<World>, u64)) {
    let seeds = std::env::var("FUZZ_SEEDS").unwrap_or("0..40".into());
    let (from, to) = seeds.split_once("..").unwrap();
    let (from, to): (u64, u64) = (from.parse().unwrap(), to.parse().unwrap());
    let mut failures = Vec::new();
    let mut world = None;
    for seed in from..to {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .start_paused(true)
                .build()
                .unwrap();
            let world = world.get_or_insert_with(World::new).clone();
            runtime.block_on(one(&world, seed));
        }));
        if let Err(error) = result {
            let text = error.downcast_ref::<String>().cloned().unwrap_or_default();
            failures.push(text);
            world = None;
        }
    }
    for failure in &failures {
        println!("{failure}");
    }
    assert!(failures.is_empty(), "{} failures", failures.len());
}

#[test]
fn whatever_happens_locks_exclude_and_come_free() {
    each_seed(one);
}
