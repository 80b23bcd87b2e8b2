//! Subscriptions over fred: confirmed ones, and no message lost without a word.

use std::sync::Arc;

use fred::{
    clients::Client,
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{ClusterHash, CustomCommand, Value},
};
use tokio::sync::broadcast::error::RecvError;

use super::{Event, WireError, fred_client::classify};

/// Takes the events of a subscriber connection. Must not block.
pub(crate) type EventSink = Arc<dyn Fn(Event) + Send + Sync>;

/// Passes on all that the connection hears, until the client is gone.
///
/// fred's own `on_message` ends for good at the first lagged broadcast; here that is a gap.
pub(super) fn forward(client: &Client, sink: EventSink) {
    let mut messages = client.message_rx();
    let mut reconnects = client.reconnect_rx();
    tokio::spawn(async move {
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
                reconnected = reconnects.recv() => match reconnected {
                    Ok(_) | Err(RecvError::Lagged(_)) => Event::Gap,
                    Err(RecvError::Closed) => return,
                },
            };
            sink(event);
        }
    });
}

pub(super) async fn subscribe(client: Client, channels: Vec<String>) -> Result<(), WireError> {
    client.subscribe(channels).await.map_err(classify)?;
    ping(&client).await
}

pub(super) async fn unsubscribe(client: Client, channels: Vec<String>) -> Result<(), WireError> {
    client.unsubscribe(channels).await.map_err(classify)?;
    ping(&client).await
}

pub(super) async fn probe(client: Client) -> Result<(), WireError> {
    let alive = ping(&client).await;
    if alive.is_err() {
        let _ = client.force_reconnection().await;
    }
    alive
}

/// fred answers SUBSCRIBE before it has written it and drops the server's confirmation; the answer
/// to a PING behind it is the confirmation. Never two at a time: a refused SUBSCRIBE is an
/// answer too many, and it is this PING that must get it.
async fn ping(client: &Client) -> Result<(), WireError> {
    let command = CustomCommand::new_static("PING", ClusterHash::Random, false);
    let answer: Result<Value, _> = client.custom(command, Vec::<Value>::new()).await;
    answer.map(drop).map_err(classify)
}
