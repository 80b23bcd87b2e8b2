//! What becomes known when a connection logs in.
//!
//! A server that does not know AUTH repeats its arguments, the password among them. So what answers it is
//! never passed on.

use std::time::Duration;

use fred::{
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::{Value, config::Config},
};

use super::connection::{self, custom};
use crate::wire::{
    answers::refusal_of_login,
    connection::{Connected, OnBreak, Options},
};

/// Connects and logs in. fred does not connect again where somebody reads in its log what answers its AUTH.
pub(super) async fn connect(config: Config, mut options: Options) -> Result<Connected, Error> {
    let has_password = config.password.is_some();
    if has_password && log::log_enabled!(target: "fred::router", log::Level::Debug) {
        options.on_break = OnBreak::End;
        try_unheard(config.clone(), options.command_timeout).await?;
    }
    let connected = connection::connect(config, options).await;
    connected.map_err(|error| if has_password { in_our_words(error) } else { error })
}

/// Where fred's log is listened to: finds out whether the server refuses to let us in, before fred does.
///
/// fred logs at DEBUG what answers its AUTH, but not what answers a command. A server that does not know
/// AUTH lets us in without it.
async fn try_unheard(mut config: Config, command_timeout: Duration) -> Result<(), Error> {
    let (username, password) = (config.username.take(), config.password.take());
    config.database = None;
    let options = Options { command_timeout, on_break: OnBreak::End, listener: None };
    // One that lets nobody in without AUTH knows it.
    let Ok((client, mut running)) = connection::open(config, &options).await else { return Ok(()) };
    let args: Vec<_> = username.into_iter().chain(password).map(Value::from).collect();
    let answer: Result<Value, _> = tokio::select! {
        biased;
        answer = client.custom(custom("AUTH"), args) => answer,
        _ = &mut running => return Err(Error::new(ErrorKind::IO, "the connection is gone")),
    };
    running.abort();
    match answer.map_err(in_our_words)?.as_str().as_deref() {
        Some("OK") => Ok(()),
        _ => Err(in_our_words(Error::new(ErrorKind::Auth, ""))),
    }
}

/// What a server says to a client that logs in is not passed on, only what it means.
fn in_our_words(error: Error) -> Error {
    use ErrorKind::{Backpressure, Canceled, IO, Routing, Timeout, Url};
    match error.kind() {
        // No word of the server's.
        IO | Timeout | Canceled | Routing | Backpressure | Url => error,
        #[cfg(feature = "_tls")]
        ErrorKind::Tls => error,
        kind => Error::new(kind.clone(), refusal_of_login(error.details())),
    }
}
