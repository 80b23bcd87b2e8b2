//! Connecting and logging in, without a secret in an error or a log line.
//!
//! A server that does not know AUTH repeats its arguments, the password included. Its answer is
//! therefore never passed on.

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

/// Connects and logs in. If fred's log shows the answers to AUTH, fred must not reconnect.
pub(super) async fn connect(config: Config, mut options: Options) -> Result<Connected, Error> {
    let has_password = config.password.is_some();
    if has_password && log::log_enabled!(target: "fred::router", log::Level::Debug) {
        options.on_break = OnBreak::End;
        try_unheard(config.clone(), options.command_timeout).await?;
    }
    let connected = connection::connect(config, options).await;
    connected.map_err(|error| if has_password { in_our_words(error) } else { error })
}

/// If fred's log is active: finds out whether the server refuses the login, before fred logs in
/// itself. fred logs the answer to its own AUTH at DEBUG, but not the answer to a command. A server
/// that does not know AUTH accepts a connection without it.
async fn try_unheard(mut config: Config, command_timeout: Duration) -> Result<(), Error> {
    let (username, password) = (config.username.take(), config.password.take());
    config.database = None;
    let options = Options::plain(command_timeout, OnBreak::End);
    // A server that refuses connections without AUTH knows AUTH.
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

/// Replaces a server's answer to a login by its meaning.
fn in_our_words(error: Error) -> Error {
    use ErrorKind::{Backpressure, Canceled, IO, Routing, Timeout, Url};
    match error.kind() {
        // These contain no words of the server.
        IO | Timeout | Canceled | Routing | Backpressure | Url => error,
        #[cfg(feature = "_tls")]
        ErrorKind::Tls => error,
        kind => Error::new(kind.clone(), refusal_of_login(error.details())),
    }
}
