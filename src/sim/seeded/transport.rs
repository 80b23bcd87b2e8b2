//! [`ToServer`]: a link as its client sees it.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::{Instant, sleep};

use super::{
    link::{Link, Rest},
    server::Replica,
};
use crate::{
    Replicas,
    options::Acknowledged,
    wire::{Confirm, Flight, Invocation, Reply, Transport, WireError},
};

/// A link as its client sees it.
pub(super) struct ToServer(pub(super) Arc<Link>);

impl std::fmt::Debug for ToServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ToServer")
    }
}

impl Transport for ToServer {
    fn call(&self, call: Invocation) -> Flight {
        self.0.clone().call(call, None)
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        self.0.clone().call(call, Some(by))
    }

    fn call_confirmed(&self, call: Invocation, confirm: Confirm) -> Flight {
        let link = self.0.clone();
        // Others wait for its connection, so it goes on though it is not polled.
        async move { tokio::spawn(link.confirmed(call, confirm)).await.expect("runs to its end") }
            .boxed()
    }

    fn time_at(&self, _: &[u8], moment: Instant) -> u64 {
        self.0.clock.at(moment)
    }

    fn observe(&self, _: &[u8], now: u64) {
        self.0.clock.observe(now);
    }

    fn server_time(&self, _: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let link = self.0.clone();
        async move {
            let time = || link.clone().ask(None, |link| link.server.time());
            let now = link.runtime.run(time).await?;
            link.clock.observe(now);
            Ok(now)
        }
        .boxed()
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        self.server_time(&[]).map(drop).boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let act = move |link: &Link, ear| link.server.subscribe(ear, &channels, true);
        self.0.clone().on_ear(act).boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let act = move |link: &Link, ear| link.server.subscribe(ear, &channels, false);
        self.0.clone().on_ear(act).boxed()
    }

    fn may_replace_servers(&self) -> bool {
        self.0.state().follows
    }

    fn server_id(&self, _: &str) -> u64 {
        self.0.state().place
    }

    fn probe(&self, _: u64) -> BoxFuture<'static, Result<(), WireError>> {
        let link = self.0.clone();
        async move {
            let alive = link.clone().on_ear(|_, _| ()).await;
            if matches!(alive, Err(WireError::Unanswered(_))) {
                link.break_ear();
            }
            alive
        }
        .boxed()
    }

    fn given_up(&self, _: &[u8], _: Duration) {
        self.0.timed_out();
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        let link = self.0.clone();
        async move {
            let (commands, ear) = {
                let mut state = link.state();
                state.closed = true;
                (state.commands.take(), state.ear.take())
            };
            if let Some(connection) = commands {
                connection.end(Rest::Runs(Duration::ZERO));
            }
            if let Some(ear) = ear {
                link.server.disconnect(ear.subscriber);
            }
            link.back.notify_waiters();
        }
        .boxed()
    }
}

impl Link {
    fn call(self: Arc<Self>, call: Invocation, by: Option<Instant>) -> Flight {
        let runtime = self.runtime.clone();
        let run =
            move |link: &Self| -> Result<Reply, WireError> { link.server.run(&link.name, &call) };
        async move { runtime.run(|| self.ask(by, run)).await }.boxed()
    }

    /// As `wire::replicas`: the call, and when it has run, WAIT.
    async fn confirmed(
        self: Arc<Self>,
        call: Invocation,
        confirm: Confirm,
    ) -> Result<Reply, WireError> {
        let by = Instant::now() + self.command_timeout;
        let run = move |link: &Self| link.server.run(&link.name, &call);
        // Its connection is one of its own, so calls that are sent later may overtake it.
        let behind = Self::takes(&mut self.state());
        sleep(behind.min(self.command_timeout)).await;
        let reply = self.clone().ask(Some(by), run).await?;
        if !(confirm.needs_confirmation)(&reply) {
            return Ok(reply);
        }
        let replica = self.clone().ask(Some(by), |link| Ok(link.server.replica())).await;
        let needed = match (confirm.replicas, &replica) {
            (Replicas::None, _) => 0,
            (Replicas::AtLeast(least), _) => least,
            // There is one replica at most.
            (Replicas::All | Replicas::OneOfAll, Ok(Replica::Gone)) => 0,
            (Replicas::All | Replicas::OneOfAll, Ok(_)) => 1,
            // Without an answer the number of replicas is unknown.
            (Replicas::All | Replicas::OneOfAll, Err(_)) => {
                return Err(WireError::unanswered("ROLE has no answer"));
            }
        };
        let acknowledged = u32::from(matches!(replica, Ok(Replica::Follows)));
        if acknowledged < needed {
            sleep(confirm.timeout.min(by.saturating_duration_since(Instant::now()))).await;
        }
        Ok(Reply::Confirmed(Box::new(reply), Acknowledged { by: acknowledged, needed }))
    }
}
