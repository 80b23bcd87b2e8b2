//! Connecting and logging in, without a secret in an error.

use super::connection;
use crate::wire::{
    answers::{Answer, Failure, FailureKind, refusal_of_login},
    connection::{Channels, Command, Connected, Connection, Options},
    deployment::{Credentials, Endpoint},
    script::{Arg, Reply},
    socket,
    tls_library::Connector,
};

pub(super) async fn connect(
    endpoint: Endpoint,
    tls: Option<Connector>,
    options: Options,
) -> Result<Connected, Failure> {
    let socket = socket::open(&endpoint, tls).await?;
    // Dropping it closes the socket.
    let connected = connection::start(socket, options);
    log_in(&*connected.connection, endpoint.credentials, endpoint.database).await?;
    Ok(connected)
}

async fn log_in(
    connection: &dyn Connection,
    credentials: Credentials,
    database: Option<u8>,
) -> Result<(), Failure> {
    let Credentials { username, password } = credentials;
    let has_password = password.is_some();
    let send = async |name, args: Vec<Arg>| {
        let channels = Channels::Plain;
        let command = Command { name, script: None, args: &args, channels, asking: false };
        let answer = connection.send(command, None).await;
        if has_password { in_our_words(answer) } else { answer }
    };
    if let Some(password) = password {
        let username = username.filter(|name| !name.is_empty());
        let args = username.into_iter().chain([password]);
        match send("AUTH", args.map(|text| Arg::Bytes(text.into())).collect()).await {
            // It asks for none.
            Err(error) if error.text == refusal_of_login("ERR no password is set") => {}
            answer => drop(answer?),
        }
    } else {
        match send("PING", Vec::new()).await {
            Err(error) if error.cannot_save() => {}
            answer => drop(answer?),
        }
    }
    if let Some(database) = database {
        send("SELECT", vec![Arg::Int(database.into())]).await?;
    }
    Ok(())
}

/// Replaces a server's answer to a login by its meaning. A server that does not know AUTH repeats
/// its arguments, the password included.
fn in_our_words(answer: Answer) -> Answer {
    match answer {
        Ok(Reply::Bytes(text)) if text == "OK" => Ok(Reply::Nil),
        Ok(_) => Err(Failure::refused(refusal_of_login(""))),
        Err(error) => match error.kind {
            // These contain no words that the server said after a command.
            FailureKind::NotSent
            | FailureKind::Full
            | FailureKind::TimedOut
            | FailureKind::Gone => Err(error),
            kind => Err(Failure::new(kind, refusal_of_login(&error.text))),
        },
    }
}
