//! A client's connection to the simulated network.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use harness::Messages;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

use super::{Fault, Network};
use crate::{
    sim::world::{Listener, ONE_WAY},
    wire::{Confirm, Flight, Invocation, Transport, WireError},
};

#[derive(Debug)]
pub(in crate::sim) struct Link {
    pub(in crate::sim) network: Arc<Network>,
}

impl Transport for Link {
    fn call(&self, call: Invocation) -> Flight {
        let network = self.network.clone();
        async move {
            let fault = network.fault(&call);
            let (answer, heard) = oneshot::channel();
            // A task of its own: once sent, it runs whoever still listens.
            tokio::spawn(async move {
                sleep(ONE_WAY).await;
                if let Some(Fault::SlowRequest(slow)) = fault {
                    sleep(slow).await;
                }
                match fault {
                    Some(Fault::LoseRequest) => return,
                    Some(Fault::Silent(time)) => return sleep(time).await,
                    Some(Fault::Linger(late)) => {
                        drop(answer);
                        sleep(late).await;
                        let _ = network.run(&call);
                        return;
                    }
                    Some(Fault::LoseReply | Fault::SlowReply(_) | Fault::SlowRequest(_)) | None => {
                    }
                }
                let reply = network.run(&call);
                sleep(ONE_WAY).await;
                if let Some(Fault::SlowReply(slow)) = fault {
                    sleep(slow).await;
                }
                if fault != Some(Fault::LoseReply) {
                    let _ = answer.send(reply);
                }
            });
            heard.await.unwrap_or_else(|_| Err(WireError::unanswered("lost by the test")))
        }
        .boxed()
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        let answer = timeout_at(by, self.call(call));
        let late = |_| Err(WireError::unanswered("no answer in time"));
        answer.map(move |answer| answer.unwrap_or_else(late)).boxed()
    }

    /// As if there were no replicas to ask: the reply says nothing of them.
    fn call_confirmed(&self, call: Invocation, _: Confirm) -> Flight {
        self.call(call)
    }

    fn time_at(&self, _: &[u8], moment: Instant) -> u64 {
        self.network.clock.at(moment)
    }

    fn observe(&self, _: &[u8], now: u64) {
        self.network.clock.observe(now);
    }

    fn server_time(&self, _: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let network = self.network.clone();
        async move {
            sleep(2 * ONE_WAY).await;
            network.clock.observe(network.now());
            Ok(network.now())
        }
        .boxed()
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        self.server_time(&[]).map(drop).boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let network = self.network.clone();
        async move {
            sleep(ONE_WAY).await;
            for channel in channels {
                if network.state().closed {
                    return Err(WireError::unanswered("closed"));
                }
                let messages = Messages::on(network.world.server.client(), &channel);
                let client = network.subscriptions.clone();
                let late_by = network.state().messages_late_by.clone();
                network.world.listeners().push(Listener { late_by, client, channel, messages });
            }
            sleep(ONE_WAY).await;
            Ok(())
        }
        .boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let network = self.network.clone();
        async move {
            sleep(ONE_WAY).await;
            network.forget(|channel| channels.iter().any(|other| other == channel));
            sleep(ONE_WAY).await;
            Ok(())
        }
        .boxed()
    }

    fn may_replace_servers(&self) -> bool {
        self.network.state().heirs.is_some()
    }

    fn server_id(&self, _: &str) -> u64 {
        self.network.state().heirs.unwrap_or_default()
    }

    fn probe(&self, _: u64) -> BoxFuture<'static, Result<(), WireError>> {
        async { Ok(()) }.boxed()
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        let network = self.network.clone();
        async move {
            network.state().closed = true;
            network.forget(|_| true);
        }
        .boxed()
    }
}
