//! Connecting and logging in, without a secret in an error or a log line.
//!
//! A server that does not know AUTH repeats its arguments, the password included. Its answer is
//! therefore never passed on.

use std::iter;

use fred::{
    clients::Client,
    error::{Error, ErrorKind},
    interfaces::ClientLike,
    types::{ConnectHandle, Value, config::Config},
};

use super::connection::{self, custom};
use crate::wire::{
    answers::refusal_of_login,
    connection::{Connected, Options},
};

/// Where fred logs the answer to its own AUTH, at DEBUG or TRACE.
const LOGS: [&str; 4] = [
    "fred::modules::inner",
    "fred::router::commands",
    "fred::router::utils",
    "fred::runtime::_tokio",
];

/// Connects and logs in.
pub(super) async fn connect(config: Config, options: Options) -> Result<Connected, Error> {
    if config.password.is_none() {
        return connection::connect(config, options).await;
    }
    if LOGS.iter().any(|target| log::log_enabled!(target: *target, log::Level::Debug)) {
        let mut open = config.clone();
        (open.username, open.password, open.database) = (None, None, None);
        match connection::open(open, &options).await {
            Ok((client, running)) => {
                return log_in(config, client, running, options).await.map_err(in_our_words);
            }
            // It asks for AUTH, so it knows AUTH.
            Err(error) if asks_for_auth(&error) => {}
            Err(error) => return Err(in_our_words(error)),
        }
    }
    connection::connect(config, options).await.map_err(in_our_words)
}

fn asks_for_auth(error: &Error) -> bool {
    ["NOAUTH", "NOPERM"].iter().any(|code| error.details().starts_with(code))
}

/// Logs in on a connection that the server has accepted without AUTH. It may not know AUTH. fred logs
/// the answer to its own AUTH, but not the answer to a command, unless that is `CLUSTERDOWN`.
async fn log_in(
    config: Config,
    client: Client,
    mut running: ConnectHandle,
    options: Options,
) -> Result<Connected, Error> {
    let Config { username, password, database, .. } = config;
    let auth: Vec<_> = username.into_iter().chain(password).map(Value::from).collect();
    let select = database.map(|database| vec![Value::from(i64::from(database))]);
    let logging_in = async {
        for (name, args) in iter::once(("AUTH", auth)).chain(select.map(|args| ("SELECT", args))) {
            let answer: Value = client.custom(custom(name), args).await?;
            if answer.as_str().as_deref() != Some("OK") {
                return Err(Error::new(ErrorKind::Auth, ""));
            }
        }
        Ok(())
    };
    let answer = tokio::select! {
        biased;
        answer = logging_in => answer,
        _ = &mut running => Err(Error::new(ErrorKind::IO, "the connection is gone")),
    };
    match answer {
        Ok(()) => Ok(connection::connected(client, running, options)),
        Err(error) => {
            running.abort();
            Err(error)
        }
    }
}

/// What fred says of its own AUTH when the connection ends before the answer.
const ENDED: &str = "Expected string.";

/// Replaces a server's answer to a login by its meaning.
fn in_our_words(error: Error) -> Error {
    use ErrorKind::{Backpressure, Canceled, IO, Routing, Timeout, Url};
    match error.kind() {
        ErrorKind::Protocol if error.details() == ENDED => Error::new(IO, "the connection is gone"),
        // These contain no words of the server.
        IO | Timeout | Canceled | Routing | Backpressure | Url => error,
        #[cfg(feature = "_tls")]
        ErrorKind::Tls => error,
        kind => Error::new(kind.clone(), refusal_of_login(error.details())),
    }
}
