//! Random schedules of permits and latches. Calls are lost or late, messages are missed, futures are dropped or not polled: no
//! more permits are out than there are, each change counts once, nobody hangs, and nothing is left.
//!
//! `FUZZ_SEEDS=0..1000` tries that many.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

use fastrand::Rng;
use futures::future::{Either, join_all};
use harness::redis::cmd;
use tokio::time::{error::Elapsed, sleep, timeout};

use super::{NAME, ms};
use crate::{
    Error, ExpirablePermit,
    sim::{
        Fault, Sim, World,
        fuzz::{LONG, each_seed, stalling},
    },
};

const SCRIPTS: [&str; 9] = [
    "semaphore/acquire",
    "semaphore/release",
    "semaphore/withdraw",
    "expirable/acquire",
    "expirable/release",
    "expirable/change",
    "expirable/renew",
    "latch/count_down",
    "counter/cancel",
];

/// Longer than any lease that is drawn.
const ALL_LEASES: Duration = Duration::from_secs(60);

struct Run {
    seed: u64,
    faulty: bool,
    /// How many permits there are at least, and at most. The latter are with those that are being added.
    there_are: Cell<(u32, u32)>,
    /// How many are out without a lease.
    out: Cell<u32>,
    /// Those that have a lease.
    leased: RefCell<Vec<Rc<ExpirablePermit>>>,
    /// How many count-downs have begun.
    counted: Cell<u64>,
}

/// For how long somebody waits before it drops its future.
fn patience(rng: &mut Rng) -> Duration {
    if rng.u8(0..3) == 0 { ms(rng.u64(0..60)) } else { LONG }
}

impl Run {
    /// What an operation came to. `None`: it was dropped, or has failed as it may.
    fn came_to<T>(&self, limit: Duration, what: Result<Result<T, Error>, Elapsed>) -> Option<T> {
        match what {
            Err(_) => {
                assert!(limit < LONG, "seed {}: hangs", self.seed);
                None
            }
            Ok(Ok(done)) => Some(done),
            Ok(Err(Error::Redis(_))) if self.faulty => None,
            Ok(Err(error)) => panic!("seed {}: {error:?}", self.seed),
        }
    }

    fn check(&self, out: u32) {
        let (_, most) = self.there_are.get();
        assert!(out <= most, "seed {}: {out} permits are out of {most}", self.seed);
    }

    /// After a pause: for how long to wait for how many permits. `None`: one was added instead.
    async fn next(
        &self,
        rng: &mut Rng,
        add_one: impl Future<Output = Result<(), Error>>,
    ) -> Option<(Duration, u32)> {
        sleep(ms(rng.u64(0..12))).await;
        let (limit, n) = (patience(rng), rng.u32(1..=self.there_are.get().0));
        if rng.u8(0..12) > 0 {
            return Some((limit, n));
        }
        // It counts once, whatever becomes of the future.
        let (least, most) = self.there_are.get();
        self.there_are.set((least, most + 1));
        self.came_to(limit, stalling(limit, add_one, rng).await);
        let (least, most) = self.there_are.get();
        self.there_are.set((least + 1, most));
        None
    }

    async fn permits(&self, sim: &Sim, mut rng: Rng) {
        let (pool, rng) = (sim.pool(), &mut rng);
        for _ in 0..6 {
            let Some((limit, n)) = self.next(rng, pool.add(1)).await else { continue };
            let permit = match rng.bool() {
                true => {
                    Either::Left(pool.try_acquire(n).wait(ms(rng.u64(0..3) * 20)).into_future())
                }
                false => {
                    let acquire = pool.acquire(n).into_future();
                    Either::Right(async { acquire.await.map(Some) })
                }
            };
            let permit = self.came_to(limit, stalling(limit, permit, rng).await).flatten();
            let Some(permit) = permit else { continue };
            assert_eq!(permit.num_permits(), n);
            self.out.set(self.out.get() + n);
            self.check(self.out.get());
            sleep(ms(rng.u64(0..9))).await;
            self.out.set(self.out.get() - n);
            let limit = patience(rng);
            match rng.u8(0..4) {
                0 => drop(permit),
                1 => {
                    permit.forget();
                    self.came_to(limit, stalling(limit, pool.release(n), rng).await);
                }
                _ => {
                    self.came_to(limit, stalling(limit, permit.release(), rng).await);
                }
            }
        }
    }

    fn out_with_leases(&self) -> u32 {
        let leased = self.leased.borrow();
        leased.iter().filter(|permit| permit.is_held()).map(|permit| permit.num_permits()).sum()
    }

    async fn leased(&self, sim: &Sim, mut rng: Rng) {
        let (pool, rng) = (sim.leased(), &mut rng);
        for _ in 0..6 {
            let Some((limit, n)) = self.next(rng, pool.add(1)).await else { continue };
            let lease = (rng.u8(0..3) == 0).then(|| ms([60, 500, 30_000][rng.usize(0..3)]));
            let permit = match rng.bool() {
                true => {
                    let mut acquire = pool.try_acquire(n).wait(ms(rng.u64(0..3) * 20));
                    if let Some(lease) = lease {
                        acquire = acquire.lease(lease);
                    }
                    Either::Left(acquire.into_future())
                }
                false => {
                    let mut acquire = pool.acquire(n);
                    if let Some(lease) = lease {
                        acquire = acquire.lease(lease);
                    }
                    let acquire = acquire.into_future();
                    Either::Right(async { acquire.await.map(Some) })
                }
            };
            let permit = match stalling(limit, permit, rng).await {
                // The answer came after the end of the lease.
                Ok(Err(Error::NotHeld { .. })) if lease.is_some() || self.faulty => continue,
                permit => self.came_to(limit, permit).flatten(),
            };
            let Some(permit) = permit.map(Rc::new) else { continue };
            self.leased.borrow_mut().push(permit.clone());
            self.check(self.out_with_leases());
            let long = if rng.u8(0..8) == 0 { 5_000 } else { 9 };
            sleep(ms(rng.u64(0..long))).await;
            assert!(permit.is_held() || lease.is_some() || self.faulty, "seed {}: lost", self.seed);
            self.leased.borrow_mut().retain(|other| !Rc::ptr_eq(other, &permit));
            let permit = Rc::into_inner(permit).expect("the last one");
            let limit = patience(rng);
            match rng.u8(0..4) {
                0 => drop(permit),
                _ => match stalling(limit, permit.release(), rng).await {
                    Ok(Err(Error::NotHeld { .. })) if lease.is_some() || self.faulty => {}
                    released => drop(self.came_to(limit, released)),
                },
            }
        }
    }

    async fn count_down(&self, sim: &Sim, mut rng: Rng) {
        let (gate, limit) = (sim.gate(), patience(&mut rng));
        sleep(ms(rng.u64(0..200))).await;
        self.counted.set(self.counted.get() + 1);
        self.came_to(limit, stalling(limit, gate.count_down(), &mut rng).await);
    }

    async fn wait(&self, sim: &Sim, count: u64, mut rng: Rng) {
        let (gate, limit) = (sim.gate(), patience(&mut rng));
        sleep(ms(rng.u64(0..200))).await;
        let opened = match rng.bool() {
            true => Either::Left(gate.wait_timeout(ms(rng.u64(0..200)))),
            false => Either::Right(async { gate.wait().await.map(|()| true) }),
        };
        let opened = self.came_to(limit, stalling(limit, opened, &mut rng).await);
        let is_lie = opened == Some(true) && self.counted.get() < count;
        assert!(!is_lie, "seed {}: open after {} of {count}", self.seed, self.counted.get());
    }
}

async fn disturb(sims: &[Sim], mut rng: Rng) {
    for _ in 0..60 {
        sleep(ms(rng.u64(0..12))).await;
        let network = &sims[rng.usize(0..sims.len())].network;
        let fault = match rng.u8(0..5) {
            0 => Fault::LoseRequest,
            1 => Fault::LoseReply,
            2 => Fault::Linger(ms([300, 20_000][rng.usize(0..2)] / rng.u64(1..100))),
            3 => Fault::SlowRequest(ms(rng.u64(1..80))),
            _ => Fault::SlowReply(ms(rng.u64(1..80))),
        };
        network.fail(SCRIPTS[rng.usize(0..SCRIPTS.len())], [fault]);
        match rng.u8(0..20) {
            0 => network.miss(),
            1 => network.lose_messages(),
            2 => network.delay_messages(ms(rng.u64(0..60))),
            _ => {}
        }
    }
}

async fn one(world: &Arc<World>, seed: u64) {
    let mut rng = Rng::with_seed(seed);
    fastrand::seed(seed);
    world.inspector.lock().unwrap().query::<()>(&cmd("FLUSHALL"));
    let (total, faulty, tasks) = (rng.u32(1..6), rng.u8(0..4) > 0, rng.u64(1..6));
    let watchdog = ms(rng.u64(1_000..4_000));
    let sims = [
        Sim::with(world, |config| config.watchdog(watchdog)).await,
        Sim::with(world, |config| config.watchdog(watchdog)).await,
    ];
    let run = Run {
        seed,
        faulty,
        there_are: Cell::new((total, total)),
        out: Cell::default(),
        leased: RefCell::default(),
        counted: Cell::default(),
    };
    let family = rng.u8(0..3);
    match family {
        1 => sims[0].leased().set(total).await.unwrap(),
        _ => world.write(NAME, &total.to_string()),
    }
    let mut lives = Vec::new();
    for sim in &sims {
        for _ in 0..tasks {
            let rng = rng.fork();
            lives.push(match family {
                0 => Either::Left(Either::Left(run.permits(sim, rng))),
                1 => Either::Left(Either::Right(run.leased(sim, rng))),
                _ => Either::Right(Either::Left(run.wait(sim, total.into(), rng))),
            });
        }
    }
    if family == 2 {
        let counts = (0..total).map(|_| run.count_down(&sims[rng.usize(0..2)], rng.fork()));
        lives.extend(counts.map(|count| Either::Right(Either::Right(count))));
    }
    let mischief = async {
        if faulty {
            disturb(&sims, rng.fork()).await;
        }
    };
    tokio::join!(join_all(lives), mischief);
    sims.iter().for_each(|sim| sim.network.heal());
    if family == 1 {
        // Whoever acquires takes back what others have left until its lease ends.
        sleep(ALL_LEASES).await;
        let permit = timeout(LONG, sims[1].leased().acquire(1).into_future()).await;
        permit.expect("they are free").unwrap().release().await.unwrap();
    }
    let (there_are, most) = run.there_are.get();
    assert_eq!(there_are, most);
    for sim in &sims {
        let value = timeout(LONG, sim.at_rest())
            .await
            .unwrap_or_else(|_| panic!("seed {seed}: never settled"));
        let right = if family == 2 { None } else { Some(there_are.into()) };
        assert_eq!(value, right, "seed {seed}, family {family}");
    }
}

#[test]
fn whatever_happens_permits_and_counts_are_right() {
    each_seed(one);
}
