//! A user: takes locks by the plan and its own seed, works under them, and writes down what it sees.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use judge::{Answer, Call, Held, Kind, MS, Mode, Place, Rule, Seen, What};
use redisson_lock::{Client, Error, Owner, Remaining};
use tokio::time::{Instant, sleep, timeout};

use super::holding::{Holding, listening, loss};
use super::plan::{Mood, Moods, Plan, code};
use super::recorder::{Recorder, now};
use crate::locks::{AnyGuard, AnyLock, Terms};
use crate::request;

pub(crate) struct Worker {
    name: String,
    rng: Rng,
    plan: Arc<Plan>,
    client: Client,
    recorder: Arc<Recorder>,
    moods: Arc<Moods>,
    /// How many owners it has been.
    owners: u64,
    /// Which lock is next in a calm.
    next: usize,
}

/// On which terms an acquisition is made.
struct Wish {
    place: Place,
    wait: Option<Duration>,
    lease: Option<Duration>,
    cut: Option<Duration>,
}

impl Worker {
    pub(crate) fn new(
        number: usize,
        plan: Arc<Plan>,
        client: Client,
        recorder: Arc<Recorder>,
        moods: Arc<Moods>,
    ) -> Self {
        let rng = Rng::with_seed(plan.seed.wrapping_mul(31).wrapping_add(number as u64));
        let name = format!("w{number}");
        Self { name, rng, plan, client, recorder, moods, owners: 0, next: number }
    }

    pub(crate) async fn run(mut self) {
        loop {
            match self.moods.get() {
                Mood::Wild => self.wild().await,
                Mood::Calm => self.calm().await,
                Mood::Rest => return,
            }
        }
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.rng.u8(0..100) < percent
    }

    /// Between 1 ms and so many, short ones as often as long ones.
    fn some_time(&mut self, most_ms: u64) -> Duration {
        let exponent = self.rng.f64() * (most_ms.max(1) as f64).ln();
        Duration::from_micros((exponent.exp() * 1000.0) as u64)
    }

    async fn wild(&mut self) {
        let place = self.plan.places[self.rng.usize(0..self.plan.places.len())].clone();
        if self.rng.u16(0..1000) < self.plan.force_permille {
            self.force(place).await;
        } else if place.kind.mode() == Mode::Whole && self.chance(15) {
            self.ask(place).await;
        } else {
            let wait = match self.rng.u8(0..10) {
                0..4 => None,
                4..7 => Some(Duration::ZERO),
                _ => Some(self.some_time(3_000)),
            };
            let lease = self.chance(self.plan.lease_percent);
            let lease =
                lease.then(|| Duration::from_millis(100) + self.some_time(self.plan.lease_ms));
            let cut = self.chance(self.plan.cut_percent).then(|| self.some_time(1_000));
            self.hold(Wish { place, wait, lease, cut }).await;
        }
        let pause = self.some_time(self.plan.pause_ms);
        self.rest_for(pause).await;
    }

    async fn calm(&mut self) {
        self.next = (self.next + 1) % self.plan.places.len();
        let place = self.plan.places[self.next].clone();
        self.hold(Wish { place, wait: None, lease: None, cut: None }).await;
        self.rest_for(Duration::from_millis(20)).await;
    }

    /// Sleeps, but not into another mood.
    async fn rest_for(&self, time: Duration) {
        let (until, mood) = (Instant::now() + time, self.moods.get());
        while Instant::now() < until && self.moods.get() == mood {
            sleep((until - Instant::now()).min(Duration::from_millis(100))).await;
        }
    }

    /// Takes a lock, perhaps twice, works, and gives it back.
    async fn hold(&mut self, wish: Wish) {
        let mut owner = self.chance(self.plan.owner_percent).then(|| self.client.owner());
        let owner_name = owner.is_some().then(|| {
            self.owners += 1;
            format!("{}.{}", self.name, self.owners)
        });
        let mut holdings = Vec::new();
        let Some(first) = self.take(&wish, owner.as_mut(), owner_name.clone(), &mut []).await
        else {
            return;
        };
        holdings.push(first);
        self.work(&mut holdings).await;
        let reenters = matches!(
            wish.place.kind,
            Kind::Lock | Kind::Fair | Kind::Fenced | Kind::Read | Kind::Write
        );
        if owner.is_some() && reenters && self.chance(60) && !holdings[0].told {
            let again = Wish { cut: wish.cut.filter(|_| self.rng.bool()), ..wish };
            let inner = self.take(&again, owner.as_mut(), owner_name, &mut holdings).await;
            if let Some(inner) = inner {
                holdings.push(inner);
                self.work(&mut holdings).await;
                if self.rng.bool() {
                    holdings.swap(0, 1);
                }
            }
        }
        while let Some(holding) = holdings.pop() {
            self.give_back(holding, &mut holdings).await;
        }
    }

    async fn take(
        &mut self,
        wish: &Wish,
        owner: Option<&mut Owner>,
        owner_name: Option<String>,
        holdings: &mut [Holding],
    ) -> Option<Holding> {
        let lock = self.lock(&wish.place);
        let number = self.recorder.guard();
        let op = self.recorder.invoke(Call::Acquire {
            guard: number,
            locks: vec![wish.place.clone()],
            rule: Rule::One,
            owner: owner_name,
            lease: wish.lease.map(nanos),
            wait: wish.wait.map(nanos),
        });
        let acquire = lock.acquire(owner, Terms::new(wish.wait, wish.lease));
        let acquire = async {
            match wish.cut {
                Some(cut) => timeout(cut, acquire).await.ok(),
                None => Some(acquire.await),
            }
        };
        let (answer, guard) = match listening(holdings, &self.recorder, acquire).await {
            None => {
                self.recorder.note(What::Cut { op });
                return None;
            }
            Some(Ok(Some(guard))) => (granted(&guard), Some(guard)),
            Some(Ok(None)) => (Answer::Refused, None),
            Some(Err(error)) => (Answer::Error { code: code(&error) }, None),
        };
        self.recorder.note(What::Answer { op, answer });
        guard.map(|guard| Holding { number, guard, told: false })
    }

    /// Until the hold has lasted for long enough, or its user knows that it is lost.
    async fn work(&mut self, holdings: &mut [Holding]) {
        let calm = self.moods.get() != Mood::Wild;
        let most = if calm { 20 } else { self.plan.hold_ms };
        let until = Instant::now()
            + match !calm && self.chance(self.plan.long_percent) {
                // So that a hold which is taken away can be missed.
                true => {
                    Duration::from_millis(self.rng.u64(self.plan.long_ms / 2..=self.plan.long_ms))
                }
                false => self.some_time(most),
            };
        while Instant::now() < until && holdings.iter().all(|holding| !holding.told) {
            if !calm && self.moods.get() != Mood::Wild {
                break;
            }
            let step = (until - Instant::now()).min(Duration::from_millis(200));
            listening(holdings, &self.recorder, sleep(step)).await;
            let Some(last) = holdings.last().filter(|last| !last.told) else { continue };
            let (guard, seen) = (last.number, now());
            let remaining = nanos(last.guard.single().map_or(Duration::ZERO, |it| it.remaining()));
            if remaining > 0 {
                self.recorder.note_at(seen, What::Renewed { guard, remaining });
            }
            if !calm && self.rng.u8(0..10) == 0 {
                let op = self.recorder.invoke(Call::Check { guard });
                let answer = checked(holdings, &self.recorder).await;
                let lost = matches!(answer, Answer::NotHeld { .. });
                self.recorder.note(What::Answer { op, answer });
                holdings.last_mut().expect("is there").told |= lost;
            }
        }
    }

    async fn give_back(&mut self, holding: Holding, others: &mut [Holding]) {
        let wild = self.moods.get() == Mood::Wild;
        let Holding { number: guard, guard: held, .. } = holding;
        if wild && self.chance(self.plan.drop_percent) {
            self.recorder.note(What::Drop { guard });
            return drop(held);
        }
        let cut = wild && self.chance(self.plan.cut_percent);
        let cut = cut.then(|| self.some_time(100));
        let op = self.recorder.invoke(Call::Unlock { guard });
        let unlock = async {
            match cut {
                Some(cut) => timeout(cut, held.unlock()).await.ok(),
                None => Some(held.unlock().await),
            }
        };
        self.recorder.note(match listening(others, &self.recorder, unlock).await {
            Some(done) => What::Answer { op, answer: outcome(done) },
            None => What::Cut { op },
        });
    }

    async fn force(&self, lock: Place) {
        let handle = self.lock(&lock);
        let freed = async {
            match handle.force_unlock().await {
                Ok(freed) => Answer::Freed { freed },
                Err(failure) => Answer::Error { code: failure.code.into() },
            }
        };
        self.recorder.operation(Call::Force { lock }, freed).await;
    }

    async fn ask(&mut self, lock: Place) {
        let handle = self.lock(&lock);
        let failed = |failure: crate::answers::Failure| Answer::Error { code: failure.code.into() };
        let recorder = self.recorder.clone();
        match self.rng.u8(0..3) {
            0 => {
                let locked = async {
                    handle.is_locked().await.map_or_else(failed, |locked| Answer::Locked { locked })
                };
                recorder.operation(Call::IsLocked { lock }, locked).await;
            }
            1 => {
                let left = async {
                    handle.ttl().await.map_or_else(failed, |left| Answer::Remaining {
                        left: match left {
                            Remaining::Held(time) => Some(nanos(time)),
                            Remaining::WithoutExpiry => Some(u64::MAX),
                            Remaining::Free => None,
                        },
                    })
                };
                recorder.operation(Call::Remaining { lock }, left).await;
            }
            _ => {
                let state = async {
                    handle.inspect().await.map_or_else(failed, |seen| Answer::State {
                        holders: seen
                            .holders
                            .into_iter()
                            .map(|it| Seen { id: it.id, count: it.count as u32 })
                            .collect(),
                        queue: seen.queue.into_iter().map(|waiter| waiter.id).collect(),
                    })
                };
                recorder.operation(Call::Inspect { lock }, state).await;
            }
        }
    }

    fn lock(&self, place: &Place) -> AnyLock {
        let kind = match place.kind {
            Kind::Lock => request::Kind::Lock,
            Kind::Fair => request::Kind::Fair,
            Kind::Fenced => request::Kind::Fenced,
            Kind::Spin => request::Kind::Spin,
            Kind::Read => request::Kind::Read,
            Kind::Write => request::Kind::Write,
            Kind::NonReentrant => request::Kind::NonReentrant,
            Kind::NonReentrantFair => request::Kind::NonReentrantFair,
        };
        let names = [place.name.clone()];
        AnyLock::named(&self.client, kind, &names).expect("a kind of one lock")
    }
}

fn granted(guard: &AnyGuard) -> Answer {
    let token = match guard {
        AnyGuard::Fenced(guard) => Some(guard.token().value()),
        _ => None,
    };
    let guard = guard.single().expect("a guard of one lock");
    Answer::Granted {
        holds: vec![Held { place: 0, id: guard.holder().to_owned() }],
        token,
        acknowledged: guard.acknowledged(),
        remaining: nanos(guard.remaining()).saturating_sub(MS),
        count: guard.hold_count(),
    }
}

fn outcome(done: Result<(), Error>) -> Answer {
    match done {
        Ok(()) => Answer::Done,
        Err(Error::NotHeld { why }) => Answer::NotHeld { why: loss(why) },
        Err(error) => Answer::Error { code: code(&error) },
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos().try_into().unwrap_or(u64::MAX)
}

/// Asks the server about the last of them, while listening to what all are told.
async fn checked(holdings: &mut [Holding], recorder: &Recorder) -> Answer {
    let (last, others) = holdings.split_last_mut().expect("there is one");
    tokio::select! {
        answer = listening(others, recorder, last.guard.check()) => outcome(answer),
        why = last.guard.lost() => {
            recorder.note(What::Lost { guard: last.number, why: loss(why) });
            last.told = true;
            outcome(last.guard.check().await)
        }
    }
}
