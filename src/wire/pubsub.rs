//! Subscriptions over fred: confirmed ones, and no message lost without a word.

use fred::{
    clients::Client,
    error::Error as FredError,
    interfaces::{EventInterface, PubsubInterface},
};
use futures::future::try_join_all;
use tokio::sync::broadcast::error::RecvError;

use super::{
    Event,
    answers::classify,
    connection::{ConnectionSettings, Session},
    error::WireError,
};

/// Passes on all that the connection hears, until the client is gone, and that it broke.
///
/// fred's own `on_message` ends for good at the first lagged broadcast; here that is a gap.
pub(super) fn forward(client: &Client, server: String, settings: &ConnectionSettings) {
    let (sink, refresh) = (settings.sink.clone(), settings.refresh_requested.clone());
    let mut messages = client.message_rx();
    let mut reconnects = client.reconnect_rx();
    let mut errors = client.error_rx();
    settings.runtime.spawn(async move {
        let mut lost = false;
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
                        // fred tells of each try to connect again, too.
                        if !std::mem::replace(&mut lost, true) {
                            tracing::warn!(server, "the connection to redis is lost");
                        }
                        refresh.notify_one();
                        continue;
                    }
                },
                reconnected = reconnects.recv() => match reconnected {
                    Ok(_) | Err(RecvError::Lagged(_)) => {
                        lost = false;
                        tell_of_return(&server);
                        Event::Gap
                    }
                    Err(RecvError::Closed) => return,
                },
            };
            sink(event);
        }
    });
}

/// A connection that was lost, or given up, is there again.
pub(super) fn tell_of_return(server: &str) {
    tracing::info!(server, "redis is connected to again");
}

pub(super) async fn subscribe(
    session: &Session,
    channels: Vec<String>,
    sharded: bool,
) -> Result<(), WireError> {
    if sharded {
        // One channel in each: they need not share a slot, and each has an answer of its own.
        let asked =
            channels.into_iter().map(|channel| session.command("SSUBSCRIBE", vec![channel.into()]));
        return try_join_all(asked).await.map(drop).map_err(classify);
    }
    session.ask(session.client().subscribe(channels)).await.map_err(classify)?;
    ping(session).await.map_err(classify)
}

pub(super) async fn unsubscribe(
    session: &Session,
    channels: Vec<String>,
    sharded: bool,
) -> Result<(), WireError> {
    if sharded {
        for channel in channels {
            session.ask(session.client().sunsubscribe(channel)).await.map_err(classify)?;
        }
    } else {
        session.ask(session.client().unsubscribe(channels)).await.map_err(classify)?;
    }
    ping(session).await.map_err(classify)
}

/// fred answers SUBSCRIBE before it has written it and drops the server's confirmation; the answer
/// to a PING behind it, on the same connection, is the confirmation. Never two at a time: a refused
/// SUBSCRIBE is an answer too many, and it is this PING that must get it.
pub(super) async fn ping(session: &Session) -> Result<(), FredError> {
    match session.command("PING", Vec::new()).await {
        // A server that cannot save answers every PING so, and serves subscribers all the same.
        Err(error) if error.details().starts_with("MISCONF") => Ok(()),
        answer => answer.map(drop),
    }
}
