//! The way of one call to the server and back.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, future::BoxFuture};
use harness::{Messages, redis};
use tokio::{sync::oneshot, time::sleep};

use super::{Fault, Listener, Network, ONE_WAY};
use crate::wire::{Flight, Invocation, Reply, Transport, WireError};

#[derive(Debug)]
pub(super) struct Link {
    pub(super) network: Arc<Network>,
}

impl Transport for Link {
    fn call(&self, call: Invocation) -> Flight {
        let network = self.network.clone();
        async move {
            let fault = network.fault(call.script.name);
            let (answer, heard) = oneshot::channel();
            // A task of its own: once sent, it runs whoever still listens.
            tokio::spawn(async move {
                sleep(ONE_WAY).await;
                match fault {
                    Some(Fault::LoseRequest) => return,
                    Some(Fault::Linger(late)) => {
                        drop(answer);
                        sleep(late).await;
                        let _ = network.run(&call);
                        return;
                    }
                    Some(Fault::LoseReply | Fault::SlowReply(_)) | None => {}
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

    fn server_time(&self) -> BoxFuture<'static, Result<u64, WireError>> {
        let network = self.network.clone();
        async move {
            sleep(2 * ONE_WAY).await;
            Ok(network.now())
        }
        .boxed()
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
                let client = network.wakeups.clone();
                network.world.listeners().push(Listener { client, channel, messages });
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

    fn probe(&self) -> BoxFuture<'static, Result<(), WireError>> {
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

pub(super) fn convert(value: redis::Value) -> Reply {
    match value {
        redis::Value::Nil => Reply::Nil,
        redis::Value::Int(n) => Reply::Int(n),
        redis::Value::BulkString(bytes) => Reply::Bytes(Bytes::from(bytes)),
        redis::Value::Array(values) => Reply::Array(values.into_iter().map(convert).collect()),
        other => panic!("no script of ours answers {other:?}"),
    }
}
