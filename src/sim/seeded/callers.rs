//! [`Caller`]: a task that acquires and releases locks, as its plan says.

use std::{
    future::IntoFuture,
    panic::{AssertUnwindSafe, resume_unwind},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, sleep, timeout};

use super::{
    beliefs::{Asked, Belief, Mode},
    guard::Guard,
    kind::Kind,
    plan::{End, Operation, TaskPlan},
    world::World,
};
use crate::{Client, Error, MultiLock, Owner};

pub(super) struct Caller {
    pub(super) world: Arc<World>,
    pub(super) client: usize,
    pub(super) task: usize,
}

type Got = Result<Option<Guard>, Error>;

impl Caller {
    pub(super) async fn run(self, plan: TaskPlan) {
        for (number, operation) in plan.operations.iter().enumerate() {
            sleep(operation.pause).await;
            if self.world.is_healed() {
                return;
            }
            let work = self.operate(number, operation);
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
        for operation in wanted {
            let last = Operation {
                wait: None,
                lease: None,
                cut: None,
                unpolled: None,
                hold: Duration::from_millis(1),
                end: End::Unlock,
                again: None,
                asleep: false,
                ask: None,
                ..*operation
            };
            let begun = Instant::now();
            let turn = timeout(within, self.operate(LAST, &last)).await;
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
        &self.world.clients[self.client].by_server[server]
    }

    fn note(&self, number: usize, what: std::fmt::Arguments<'_>) {
        self.world.trace.note(format_args!("c{} t{} #{number} {what}", self.client, self.task));
    }

    fn asking<'a>(
        &self,
        operation: &Operation,
        owner: Option<&'a mut Owner>,
    ) -> BoxFuture<'a, Got> {
        let Operation { wait, lease, kind, .. } = *operation;
        let name = kind.name(operation.name);
        macro_rules! asking {
            ($lock:expr, $guard:path) => {{
                let lock = $lock;
                async move {
                    match wait {
                        None => {
                            let mut asking = lock.lock();
                            if let Some(owner) = owner {
                                asking = asking.by(owner);
                            }
                            if let Some(lease) = lease {
                                asking = asking.lease(lease);
                            }
                            asking.into_future().await.map(|guard| Some($guard(guard)))
                        }
                        Some(wait) => {
                            let mut asking = lock.try_lock().wait(wait);
                            if let Some(owner) = owner {
                                asking = asking.by(owner);
                            }
                            if let Some(lease) = lease {
                                asking = asking.lease(lease);
                            }
                            asking.into_future().await.map(|guard| guard.map($guard))
                        }
                    }
                }
                .boxed()
            }};
        }
        let all = &self.world.clients[self.client].by_server;
        let client = self.client(operation.server);
        match kind {
            Kind::Plain => asking!(client.lock(name), Guard::One),
            Kind::Spin => asking!(client.spin_lock(name), Guard::One),
            Kind::Fenced => asking!(client.fenced_lock(name), Guard::Fenced),
            Kind::Fair => asking!(client.fair_lock(name), Guard::One),
            Kind::NonReentrant => asking!(client.non_reentrant_lock(name), Guard::One),
            Kind::NonReentrantFair => asking!(client.non_reentrant_fair_lock(name), Guard::One),
            Kind::Read => asking!(client.read_write_lock(name).read_lock().clone(), Guard::One),
            Kind::Write => asking!(client.read_write_lock(name).write_lock().clone(), Guard::One),
            Kind::All => {
                let locks = MultiLock::all(all.iter().map(|client| client.lock(&name)));
                asking!(locks, Guard::Several)
            }
            Kind::Majority => {
                let locks = MultiLock::majority(all.iter().map(|client| client.lock(&name)));
                asking!(locks, Guard::Several)
            }
        }
    }

    fn domains(&self, operation: &Operation) -> Vec<String> {
        let name = operation.kind.name(operation.name);
        match operation.kind {
            Kind::All => (0..self.world.servers.len()).map(|s| format!("s{s}/{name}")).collect(),
            Kind::Majority => vec![name],
            _ => vec![format!("s{}/{name}", operation.server)],
        }
    }

    /// How late an answer may be: the servers' silence is known after the time of a command.
    async fn acquire(
        &self,
        number: usize,
        operation: &Operation,
        owner: Option<&mut Owner>,
    ) -> Option<Got> {
        let begun = Instant::now();
        let future = self.asking(operation, owner);
        let future = self.as_polled(operation, future);
        let got = match operation.cut {
            Some(cut) => timeout(cut, future).await.ok(),
            None => Some(future.await),
        };
        let shown = got.as_ref().map(|got| got.as_ref().map(Option::is_some));
        self.note(number, format_args!("{:?} {shown:?}", operation.kind));
        if let (Some(wait), Some(_), None) = (operation.wait, &got, operation.unpolled) {
            let most = wait + self.world.options.command_timeout + Duration::from_millis(100);
            let several = matches!(operation.kind, Kind::All | Kind::Majority);
            if begun.elapsed() > most + self.world.blocked_since(begun) && !several {
                let (kind, took) = (operation.kind, begun.elapsed());
                self.find(&format!("bound: {kind:?} took {took:?} of {most:?}: {shown:?}"));
            }
        }
        got
    }

    async fn as_polled<T>(&self, operation: &Operation, future: BoxFuture<'_, T>) -> T {
        let mut future = pin!(future);
        if let Some(pause) = operation.unpolled {
            if let Some(done) = future.as_mut().now_or_never() {
                return done;
            }
            sleep(pause).await;
        }
        future.await
    }

    /// Whether it got the lock.
    async fn operate(&self, number: usize, operation: &Operation) -> bool {
        self.world.count_operation();
        let mut me = self.client(operation.server).owner();
        let who = self.world.next_owner();
        let asked = self.world.asked();
        let owned = operation.again.is_some();
        let Some(got) = self.acquire(number, operation, owned.then_some(&mut me)).await else {
            return false;
        };
        let Some(guard) = self.judge(number, operation, got) else { return false };
        let first = self.believe(operation, &asked, who, &guard);
        if operation.again.is_some() {
            self.watching(operation, &guard, &first, self.again(number, operation, &mut me, who))
                .await;
        }
        self.hold(operation, &guard, &first).await;
        drop(first);
        self.end(number, operation, guard).await;
        true
    }

    /// Enters it once more, and leaves it.
    async fn again(&self, number: usize, operation: &Operation, me: &mut Owner, who: u64) {
        let Some(kind) = operation.again else { return };
        let wait = operation.wait.or(Some(Duration::from_secs(1)));
        let again = Operation { kind, wait, ..*operation };
        let asked = self.world.asked();
        if let Some(got) = self.acquire(number, &again, Some(me)).await
            && let Some(guard) = self.judge(number, &again, got)
        {
            let second = self.believe(&again, &asked, who, &guard);
            self.hold(&again, &guard, &second).await;
            drop(second);
            self.end(number, operation, guard).await;
        }
    }

    fn judge(&self, number: usize, operation: &Operation, got: Got) -> Option<Guard> {
        match got {
            Ok(guard) => guard,
            Err(error) if number == LAST => {
                self.find(&format!("turn: {:?} {error}", operation.kind));
                None
            }
            Err(Error::Redis(_) | Error::NotHeld { .. } | Error::Closed) => None,
            Err(Error::WouldDeadlock { .. }) if operation.again.is_some() => None,
            Err(error) => {
                self.find(&format!("error: {:?} {error}", operation.kind));
                None
            }
        }
    }

    fn believe(&self, operation: &Operation, asked: &Asked, owner: u64, guard: &Guard) -> Belief {
        let mode = if operation.kind == Kind::Read { Mode::Read } else { Mode::Write };
        let (several, late) = (self.domains(operation).len() > 1, operation.unpolled.is_some());
        if !guard.is_held() && !several && !late && !self.world.was_blocked() {
            self.find(&format!("stale: {:?} was lost when it was granted", operation.kind));
        }
        let belief =
            self.world.believe(self.domains(operation), owner, mode, operation.lease, asked);
        if let Some(token) = guard.token() {
            let lock = &self.domains(operation)[0];
            // A hold that was entered again has the token that it had.
            if operation.again.is_none() {
                self.world.see_token(lock, asked, token);
            }
        }
        belief
    }

    async fn hold(&self, operation: &Operation, guard: &Guard, belief: &Belief) {
        if let Some(question) = operation.ask {
            self.ask(operation, question, guard).await;
        }
        let work = self.watching(operation, guard, belief, sleep(operation.hold));
        match operation.asleep {
            true => work.await,
            false => tokio::select! {
                biased;
                () = work => {}
                _ = guard.lost() => {}
            },
        }
    }

    /// Does the work. The belief ends when the holder is told of a loss.
    async fn watching<T>(
        &self,
        operation: &Operation,
        guard: &Guard,
        belief: &Belief,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        tokio::select! {
            biased;
            why = guard.lost() => {
                self.world.trace.note(format_args!("c{} t{} lost {why:?}", self.client, self.task));
                if operation.lease.is_none() && self.world.is_calm() {
                    self.find(&format!("alarm: {:?} lost, {why:?}", operation.kind));
                }
                belief.end();
            }
            done = &mut work => {
                if !guard.is_held() {
                    belief.end();
                }
                return done;
            }
        }
        work.await
    }

    async fn end(&self, number: usize, operation: &Operation, guard: Guard) {
        let Operation { end, lease, .. } = *operation;
        let begun = Instant::now();
        match end {
            End::Unlock => {
                let done = guard.unlock().await;
                self.note(number, format_args!("unlock {done:?}"));
                let lost = matches!(done, Err(Error::NotHeld { .. }));
                if lost && lease.is_none() && self.world.is_calm() {
                    self.find(&format!("alarm: {done:?}"));
                }
                let options = &self.world.options;
                let most =
                    options.retry_timeout + options.command_timeout + Duration::from_millis(100);
                let took = begun.elapsed();
                if took > most + self.world.blocked_since(begun) {
                    self.find(&format!("bound: a release took {took:?} of {most:?}"));
                }
            }
            End::Drop => drop(guard),
            End::CutUnlock(after) => drop(timeout(after, guard.unlock()).await),
            End::Panic => {
                let _guard = guard;
                resume_unwind(Box::new(OfPlan));
            }
        }
    }
}

/// The number of the operations after everything is healed.
const LAST: usize = usize::MAX;

/// A panic that the plan demands.
struct OfPlan;
