//! [`Caller`]: a task that acquires and releases locks, as its plan says.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    pin::pin,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, join},
};
use judge::Answer;
use tokio::time::{Instant, sleep, timeout};

use super::{
    guard::{Got, Holding, ids},
    kind::Kind,
    plan::{End, Operation, Overlap, TaskPlan},
    recorder::{Underway, code},
    world::World,
};
use crate::{Client, Error, Loss, Owner, Replicas};

pub(super) struct Caller {
    pub(super) world: Arc<World>,
    pub(super) client: usize,
    pub(super) task: usize,
}

impl Caller {
    pub(super) async fn run(self, plan: TaskPlan) {
        let mut me = self.client(0).owner();
        for (number, operation) in plan.operations.iter().enumerate() {
            // Not even a turn of the scheduler goes by.
            if !operation.pause.is_zero() {
                sleep(operation.pause).await;
            }
            if self.world.is_healed() {
                return;
            }
            let work = self.operate(number, operation, &mut me);
            if let Err(panic) = AssertUnwindSafe(work).catch_unwind().await
                && panic.downcast_ref::<OfPlan>().is_none()
            {
                resume_unwind(panic);
            }
        }
    }

    /// After everything is healed: the caller gets each of its locks once more.
    pub(super) async fn turn(&self, plan: &TaskPlan, within: Duration) {
        let mut wanted: Vec<_> = plan.operations.iter().collect();
        wanted.dedup_by_key(|operation| (operation.kind, operation.name, operation.server));
        let mut me = self.client(0).owner();
        for operation in wanted {
            let last = Operation {
                wait: None,
                lease: None,
                cut: None,
                unpolled: None,
                hold: Duration::from_millis(1),
                end: End::Unlock,
                again: None,
                overlap: None,
                asleep: false,
                ask: None,
                ..*operation
            };
            let begun = Instant::now();
            let turn = timeout(within, self.operate(LAST, &last, &mut me)).await;
            let (waited, kind) = (begun.elapsed(), last.kind);
            match turn {
                Ok(true) => self.world.waited(waited),
                Ok(false) => {}
                Err(_) => {
                    self.find(&format!("turn: none within {within:?}, {kind:?} {}", last.name))
                }
            }
        }
    }

    pub(super) fn find(&self, what: &str) {
        self.world.find(format!("{what} (c{} t{})", self.client, self.task));
    }

    pub(super) fn client(&self, server: usize) -> &Client {
        let clients = &self.world.clients[self.client].by_server;
        // That of a cluster has all servers.
        clients.get(server).unwrap_or(&clients[0])
    }

    fn note(&self, number: usize, what: std::fmt::Arguments<'_>) {
        self.world.trace.note(format_args!("c{} t{} #{number} {what}", self.client, self.task));
    }

    /// `outer`: when the guard was given back whose hold is entered again.
    async fn acquire(
        &self,
        number: usize,
        operation: &Operation,
        owner: Option<&mut Owner>,
        outer: Option<&OnceLock<Instant>>,
    ) -> Option<Holding> {
        let recorder = &self.world.recorder;
        let guard = recorder.guard();
        let asked = recorder.invoke(self.client, self.call(operation, owner.is_some(), guard));
        let begun = Instant::now();
        let future = self.asking(operation, owner);
        let future = self.as_polled(operation, future, &asked);
        let got = match operation.cut {
            Some(cut) => timeout(cut, future).await.ok(),
            None => Some(future.await),
        };
        let shown = got.as_ref().map(|got| got.as_ref().map(Option::is_some));
        self.note(number, format_args!("{:?} {shown:?}", operation.kind));
        let got = got?;
        asked.answer(match &got {
            Ok(Some(guard)) => guard.granted(&ids(&self.world, self.client)),
            Ok(None) => Answer::Refused,
            Err(error) => Answer::Error { code: code(error) },
        });
        self.examine(number, operation, &got, begun.elapsed(), outer);
        let got = got.ok()??;
        Some(Holding::new(&self.world, self.client, guard, got))
    }

    async fn as_polled<T>(
        &self,
        operation: &Operation,
        future: BoxFuture<'_, T>,
        asked: &Underway,
    ) -> T {
        let mut future = pin!(future);
        if let Some(pause) = operation.unpolled {
            if let Some(done) = future.as_mut().now_or_never() {
                return done;
            }
            asked.polled(false);
            sleep(pause).await;
            asked.polled(true);
        }
        future.await
    }

    /// Whether it got the lock.
    async fn operate(&self, number: usize, operation: &Operation, me: &mut Owner) -> bool {
        // A client of each server has owners of its own, but several locks have one owner.
        let owned = operation.again.is_some();
        let owner = owned.then_some(&mut *me);
        let Some(held) = self.acquire(number, operation, owner, None).await else {
            return false;
        };
        match operation.overlap {
            _ if operation.again.is_none() => {}
            Some(overlap) => {
                self.overlap(number, operation, overlap, held, me).await;
                return true;
            }
            None => {
                let never = OnceLock::new();
                let again = self.again(number, operation, me, &never);
                self.watching(operation, &held, again).await;
            }
        }
        self.hold(operation, &held).await;
        self.end(number, operation, held).await;
        true
    }

    /// Gives the guard back while its hold is entered once more.
    async fn overlap(
        &self,
        number: usize,
        operation: &Operation,
        Overlap { begins, ends }: Overlap,
        held: Holding,
        me: &mut Owner,
    ) {
        let given_back = OnceLock::new();
        // A future that is not polled has its answer long before it is seen.
        let again = Operation { unpolled: None, ..*operation };
        let enters = async {
            sleep(begins).await;
            self.again(number, &again, me, &given_back).await;
        };
        let leaves = async {
            self.watching(operation, &held, sleep(begins + ends)).await;
            given_back.get_or_init(Instant::now);
            self.end(number, operation, held).await;
        };
        join(enters, leaves).await;
    }

    /// Enters it once more, and leaves it. `outer`: when the first guard was given back.
    async fn again(
        &self,
        number: usize,
        operation: &Operation,
        me: &mut Owner,
        outer: &OnceLock<Instant>,
    ) {
        let Some(kind) = operation.again else { return };
        let wait = operation.wait.or(Some(Duration::from_secs(1)));
        let again = Operation { kind, wait, inner: true, ..*operation };
        if let Some(held) = self.acquire(number, &again, Some(me), Some(outer)).await {
            self.hold(&again, &held).await;
            self.end(number, operation, held).await;
        }
    }

    /// Answers that no acquisition should have.
    fn examine(
        &self,
        number: usize,
        operation: &Operation,
        got: &Got,
        took: Duration,
        outer: Option<&OnceLock<Instant>>,
    ) {
        let several = matches!(operation.kind, Kind::All | Kind::Majority);
        let error = match got {
            Ok(Some(guard)) if !guard.is_held() && !several => {
                return self.find(&format!("stale: {:?} was lost when granted", operation.kind));
            }
            Ok(_) => return,
            Err(error) => error,
        };
        let owned = operation.again.is_some();
        // A hold of which no guard is left is not entered again, lost or not.
        let is_given_back =
            outer.and_then(OnceLock::get).is_some_and(|given_back| *given_back < Instant::now());
        let asks_replicas = self.world.options.replicas[self.client] != Replicas::None;
        let expected = match error {
            _ if number == LAST => false,
            Error::Redis(_) | Error::Closed => true,
            // The grant came too late; or, within a hold or among several, one was lost.
            Error::NotHeld { why } => {
                // What another of the process left to it had at least half of this, or most of a lease.
                let least = match operation.lease {
                    Some(lease) => lease.mul_f64(0.85),
                    None => self.world.options.watchdog.mul_f64(0.45),
                };
                let is_late = *why == Loss::Expired && took >= least;
                let is_closed = *why == Loss::Closed;
                operation.inner && (!is_given_back || is_closed) || several || is_late
            }
            Error::WouldDeadlock { .. } => owned,
            Error::NotReplicated { .. } => asks_replicas && !operation.unconfirmed,
            _ => false,
        };
        if !expected {
            let sort = if number == LAST { "turn" } else { "error" };
            self.find(&format!("{sort}: {:?} {error}", operation.kind));
        }
    }

    async fn hold(&self, operation: &Operation, held: &Holding) {
        if let Some(question) = operation.ask {
            self.ask(operation, question, held).await;
        }
        let work = self.watching(operation, held, sleep(operation.hold));
        match operation.asleep {
            true => work.await,
            false => tokio::select! {
                biased;
                () = work => {}
                _ = held.lost() => {}
            },
        }
    }

    /// Does the work. The belief ends when the holder is told of a loss.
    async fn watching<T>(
        &self,
        operation: &Operation,
        held: &Holding,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            why = held.lost() => {
                self.world.trace.note(format_args!("c{} t{} lost {why:?}", self.client, self.task));
                // Who does not poll for long gets what nearly nothing is left of.
                let renewed = operation.lease.is_none() && operation.unpolled.is_none();
                if renewed && self.world.is_calm() {
                    self.find(&format!("alarm: {:?} lost, {why:?}", operation.kind));
                }
            }
            done = &mut work => {
                held.look().await;
                return done;
            }
        }
        work.await
    }

    async fn end(&self, number: usize, operation: &Operation, held: Holding) {
        let Operation { end, lease, .. } = *operation;
        match end {
            End::Unlock => {
                let done = held.unlock().await;
                self.note(number, format_args!("unlock {done:?}"));
                let lost = matches!(done, Err(Error::NotHeld { .. }));
                let renewed = lease.is_none() && operation.unpolled.is_none();
                if lost && renewed && self.world.is_calm() {
                    self.find(&format!("alarm: {done:?}"));
                }
            }
            End::Drop => drop(held),
            End::CutUnlock(after) => drop(timeout(after, held.unlock()).await),
            End::Panic => {
                let _held = held;
                resume_unwind(Box::new(OfPlan));
            }
        }
    }
}

/// The number of the operations after everything is healed.
const LAST: usize = usize::MAX;

/// A panic that the plan demands.
struct OfPlan;
