//! How a caller asks for a lock of any kind.

use std::future::IntoFuture;

use futures::{FutureExt, future::BoxFuture};
use judge::{Call, Place, Rule};

use super::{
    callers::Caller,
    guard::{Got, Guard},
    judgement::nanos,
    kind::Kind,
    plan::Operation,
};
use crate::{Lock, MultiLock, Owner, Replicas};

impl Caller {
    pub(super) fn asking<'a>(
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
        let confirmed = |lock: Lock| match operation.unconfirmed {
            true => lock.replicas(Replicas::None),
            false => lock,
        };
        let all = &self.world.clients[self.client].by_server;
        let client = self.client(operation.server);
        match kind {
            Kind::Plain => asking!(confirmed(client.lock(name)), Guard::One),
            Kind::Spin => asking!(confirmed(client.spin_lock(name)), Guard::One),
            Kind::Fenced => asking!(client.fenced_lock(name), Guard::Fenced),
            Kind::Fair => asking!(confirmed(client.fair_lock(name)), Guard::One),
            Kind::NonReentrant => asking!(confirmed(client.non_reentrant_lock(name)), Guard::One),
            Kind::NonReentrantFair => {
                asking!(confirmed(client.non_reentrant_fair_lock(name)), Guard::One)
            }
            Kind::Read => {
                asking!(confirmed(client.read_write_lock(name).read_lock().clone()), Guard::One)
            }
            Kind::Write => {
                asking!(confirmed(client.read_write_lock(name).write_lock().clone()), Guard::One)
            }
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

    /// The same as the judge knows it. `guard`: the number of the guard that it would give.
    pub(super) fn call(&self, operation: &Operation, owned: bool, guard: u64) -> Call {
        let rule = match operation.kind {
            Kind::All => Rule::All,
            Kind::Majority => Rule::Majority,
            _ => Rule::One,
        };
        let wait = operation.wait.filter(|_| rule == Rule::One);
        Call::Acquire {
            guard,
            locks: self.places(operation),
            rule,
            owner: owned.then(|| format!("t{}", self.task)),
            lease: operation.lease.map(nanos),
            wait: wait.map(nanos),
        }
    }

    fn places(&self, operation: &Operation) -> Vec<Place> {
        match operation.kind {
            Kind::All | Kind::Majority => (0..self.world.servers.len())
                .map(|s| operation.kind.place(operation.name, s))
                .collect(),
            kind => vec![kind.place(operation.name, operation.server)],
        }
    }
}
