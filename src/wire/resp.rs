//! Commands as text of RESP2.

use super::{connection::Command, script::Arg};
use crate::digits::Digits;

/// The command.
pub(super) fn command(command: &Command<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    let mut number = Digits::new();
    let scripted = if command.script.is_some() { 2 } else { 0 };
    bytes.push(b'*');
    bytes.extend(number.of((1 + scripted + command.args.len()) as u64));
    write_bulk(&mut bytes, command.name.as_bytes());
    if let Some((script, keys)) = &command.script {
        write_bulk(&mut bytes, script);
        write_bulk(&mut bytes, number.of(*keys as u64));
    }
    for arg in command.args {
        match arg {
            Arg::Bytes(arg) => write_bulk(&mut bytes, arg),
            Arg::Int(n) => {
                write_bulk(&mut bytes, number.of((*n).min(i64::MAX as u64)));
            }
            Arg::Publish => write_bulk(&mut bytes, command.channels.publish().as_bytes()),
            Arg::Listening => {
                write_bulk(&mut bytes, command.channels.count_listeners().as_bytes());
            }
        }
    }
    bytes.extend(b"\r\n");
    bytes
}

/// A command about one channel.
pub(super) fn of_channel(name: &str, channel: &str) -> Vec<u8> {
    let mut bytes = b"*2".to_vec();
    write_bulk(&mut bytes, name.as_bytes());
    write_bulk(&mut bytes, channel.as_bytes());
    bytes.extend(b"\r\n");
    bytes
}

/// Writes the end of the line before, and a bulk string without its own.
fn write_bulk(bytes: &mut Vec<u8>, text: &[u8]) {
    bytes.extend_from_slice(b"\r\n$");
    bytes.extend_from_slice(Digits::new().of(text.len() as u64));
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(text);
}
