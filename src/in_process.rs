//! Turns an [`Invocation`] into the words of a command for the Redis in the process ([`Server`]), and its
//! answer back into a [`Reply`]. For `test_util`, and for the simulation.

use bytes::Bytes;
use redis_in_process::{Channel, Reply as Said, Server, Subscriber};

use crate::wire::{Arg, Invocation, Reply, WireError};

/// The words of the command that runs this script. `command`: `eval` or `evalsha`; `script`: its
/// source or its SHA-1.
pub(crate) fn words(command: &str, script: &[u8], call: &Invocation) -> Vec<Vec<u8>> {
    let keys = call.keys.to_string();
    let head = [command.as_bytes(), script, keys.as_bytes()].map(<[u8]>::to_vec);
    let args = call.args.iter().map(|arg| match arg {
        Arg::Int(n) => n.to_string().into_bytes(),
        Arg::Bytes(bytes) => bytes.to_vec(),
        Arg::Publish => b"publish".to_vec(),
        Arg::Listening => b"numsub".to_vec(),
    });
    head.into_iter().chain(args).collect()
}

/// The server's answer, as a connection gives it.
pub(crate) fn reply(said: Said) -> Result<Reply, WireError> {
    Ok(match said {
        Said::Error(text) => return Err(WireError::from_server(&text)),
        Said::Array(parts) => Reply::Array(parts.into_iter().map(reply).collect::<Result<_, _>>()?),
        Said::Nil => Reply::Nil,
        Said::Int(n) => Reply::Int(n),
        Said::Bulk(bytes) | Said::Status(bytes) => Reply::Bytes(Bytes::from(bytes)),
    })
}

/// TIME, in ms.
pub(crate) fn time(server: &mut Server) -> Result<u64, WireError> {
    match server.command(&["time"]) {
        Said::Error(text) => Err(WireError::from_server(&text)),
        _ => Ok(server.now() / 1000),
    }
}

/// Subscribes to these channels, or unsubscribes.
pub(crate) fn subscribe(
    server: &mut Server,
    subscriber: Subscriber,
    channels: &[String],
    wanted: bool,
) {
    for name in channels {
        let channel = Channel::Plain(name.clone().into_bytes());
        match wanted {
            true => server.subscribe(subscriber, channel),
            false => server.unsubscribe(subscriber, &channel),
        };
    }
}
