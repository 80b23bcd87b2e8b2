//! What becomes known when a connection logs in.
//!
//! A server that does not know AUTH repeats its arguments, the password among them. So what answers it is
//! never passed on.

use std::{sync::Arc, time::Duration};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::Value,
};

use super::{
    connection::{Broken, Session},
    deployment::{Credentials, Endpoint},
};
use crate::runtime::ClientRuntime;

/// Connects. May be dropped meanwhile.
pub(super) async fn connect(
    runtime: &ClientRuntime,
    endpoint: &Endpoint,
    command_timeout: Duration,
    events: usize,
    broken: Broken,
) -> Result<Arc<Session>, FredError> {
    let login = Login::of(endpoint);
    login.try_unheard(runtime, endpoint, command_timeout).await?;
    let broken = login.broken(broken);
    login.judge(Session::begin(runtime, endpoint, command_timeout, events, broken).await)
}

/// Of one connection.
struct Login {
    has_password: bool,
}

impl Login {
    fn of(endpoint: &Endpoint) -> Self {
        Self { has_password: endpoint.credentials.password.is_some() }
    }

    /// Whether somebody reads in fred's log what answers an AUTH of fred's.
    fn is_overheard(&self) -> bool {
        self.has_password && log::log_enabled!(target: "fred::router", log::Level::Debug)
    }

    /// What becomes of the connection: fred does not connect it again where it is overheard.
    fn broken(&self, wanted: Broken) -> Broken {
        if self.is_overheard() { Broken::IsGone } else { wanted }
    }

    /// Where fred's log is listened to: finds out whether the server refuses to let us in, before fred does.
    ///
    /// fred logs at DEBUG what answers its AUTH, but not what answers a command. A server that does not know
    /// AUTH lets us in without it.
    async fn try_unheard(
        &self,
        runtime: &ClientRuntime,
        endpoint: &Endpoint,
        patience: Duration,
    ) -> Result<(), FredError> {
        if !self.is_overheard() {
            return Ok(());
        }
        let Credentials { username, password } = endpoint.credentials.clone();
        let endpoint =
            Endpoint { credentials: Credentials::default(), database: None, ..endpoint.clone() };
        let stranger = Session::begin(runtime, &endpoint, patience, 4, Broken::IsGone).await;
        // One that lets nobody in without AUTH knows it.
        let Ok(stranger) = stranger else { return Ok(()) };
        let args: Vec<_> = username.into_iter().chain(password).map(Value::from).collect();
        let answer = stranger.command("AUTH", args).await;
        stranger.quit().await;
        match answer.map_err(in_our_words)?.as_str().as_deref() {
            Some("OK") => Ok(()),
            _ => Err(in_our_words(FredError::new(ErrorKind::Auth, ""))),
        }
    }

    /// What came of it, in words that may be passed on.
    fn judge<T>(&self, connected: Result<T, FredError>) -> Result<T, FredError> {
        connected.map_err(|error| if self.has_password { in_our_words(error) } else { error })
    }
}

/// What a server says to a client that logs in may repeat the password. Its words are not passed on,
/// only what they mean.
fn in_our_words(error: FredError) -> FredError {
    use ErrorKind::{Backpressure, Canceled, IO, Routing, Timeout, Url};
    if matches!(error.kind(), IO | Timeout | Canceled | Routing | Backpressure | Url) {
        // No word of the server's.
        return error;
    }
    #[cfg(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"))]
    if *error.kind() == ErrorKind::Tls {
        return error;
    }
    let said = error.details();
    let says = |words: &str| said.contains(words);
    let meaning = match said.split_whitespace().next().unwrap_or_default() {
        "WRONGPASS" => "WRONGPASS the user or the password is wrong",
        "NOAUTH" => "NOAUTH a password is needed",
        "NOPERM" if says("'select'") => "NOPERM the user may not run SELECT",
        "NOPERM" => "NOPERM the user may not do what is needed to connect",
        "LOADING" => "LOADING the server is loading its data",
        "MASTERDOWN" => "MASTERDOWN the replica has lost its master",
        "BUSY" => "BUSY the server runs a script",
        "DENIED" => "DENIED the server is in protected mode",
        "ERR" if says("DB index is out of range") => "ERR DB index is out of range",
        "ERR" if says("cluster support disabled") => "ERR cluster support disabled",
        "ERR" if says("max number of clients") => "ERR max number of clients reached",
        "ERR" if says("unknown command") => "ERR the server does not know AUTH",
        "ERR" if says("without any password") || says("no password is set") => {
            "ERR the server has no password"
        }
        _ => {
            "the server refuses the connection (its words may repeat the password, and are not shown)"
        }
    };
    FredError::new(error.kind().clone(), meaning)
}
