//! Subscriptions over fred: confirmed ones, and no message lost without a word.

use std::sync::Arc;

use fred::interfaces::{EventInterface, PubsubInterface};
use futures::future::try_join_all;
use tokio::sync::broadcast::error::RecvError;

use super::{
    Event, WireError,
    line::Line,
    node::{Terms, classify},
};

/// Takes the events of a subscriber connection. Must not block.
pub(crate) type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// Passes on all that the connection hears, until the client is gone, and that it broke.
///
/// fred's own `on_message` ends for good at the first lagged broadcast; here that is a gap.
pub(super) fn forward(line: &Line, terms: &Terms) {
    let (client, sink, doubt) = (line.client(), terms.sink.clone(), terms.doubt.clone());
    let mut messages = client.message_rx();
    let mut reconnects = client.reconnect_rx();
    let mut errors = client.error_rx();
    terms.runtime.spawn(async move {
        loop {
            let event = tokio::select! {
                message = messages.recv() => match message {
                    Ok(message) => Event::Message(message.channel.to_string()),
                    Err(RecvError::Lagged(missed)) => {
                        tracing::warn!(missed, "messages were lost, everyone looks again");
                        Event::Gap
                    }
                    Err(RecvError::Closed) => return,
                },
                broken = errors.recv() => match broken {
                    Err(RecvError::Closed) => return,
                    _ => {
                        doubt.notify_one();
                        continue;
                    }
                },
                reconnected = reconnects.recv() => match reconnected {
                    Ok(_) | Err(RecvError::Lagged(_)) => Event::Gap,
                    Err(RecvError::Closed) => return,
                },
            };
            sink(event);
        }
    });
}

pub(super) async fn subscribe(
    line: &Line,
    channels: Vec<String>,
    sharded: bool,
) -> Result<(), WireError> {
    if sharded {
        // One channel in each: they need not share a slot, and each has an answer of its own.
        let asked =
            channels.into_iter().map(|channel| line.command("SSUBSCRIBE", vec![channel.into()]));
        return try_join_all(asked).await.map(drop).map_err(classify);
    }
    line.ask(line.client().subscribe(channels)).await.map_err(classify)?;
    ping(line).await
}

pub(super) async fn unsubscribe(
    line: &Line,
    channels: Vec<String>,
    sharded: bool,
) -> Result<(), WireError> {
    if sharded {
        for channel in channels {
            line.ask(line.client().sunsubscribe(channel)).await.map_err(classify)?;
        }
    } else {
        line.ask(line.client().unsubscribe(channels)).await.map_err(classify)?;
    }
    ping(line).await
}

pub(super) async fn probe(line: &Line) -> Result<(), WireError> {
    let alive = ping(line).await;
    if alive.is_err() {
        line.give_up().await;
    }
    alive
}

/// fred answers SUBSCRIBE before it has written it and drops the server's confirmation; the answer
/// to a PING behind it is the confirmation. Never two at a time: a refused SUBSCRIBE is an
/// answer too many, and it is this PING that must get it.
async fn ping(line: &Line) -> Result<(), WireError> {
    match line.command("PING", Vec::new()).await {
        // A server that cannot save answers every PING so, and serves subscribers all the same.
        Err(error) if error.details().starts_with("MISCONF") => Ok(()),
        answer => answer.map(drop).map_err(classify),
    }
}
