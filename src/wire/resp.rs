//! Commands as text of RESP2.

use itoa::Buffer;

use super::{connection::Command, script::Arg};

/// The command.
pub(super) fn command(command: &Command<'_>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(192);
    let mut number = Buffer::new();
    let scripted = if command.script.is_some() { 2 } else { 0 };
    bytes.push(b'*');
    bytes.extend(number.format(1 + scripted + command.args.len()).as_bytes());
    write_bulk(&mut bytes, command.name.as_bytes());
    if let Some((script, keys)) = &command.script {
        write_bulk(&mut bytes, script);
        write_bulk(&mut bytes, number.format(*keys).as_bytes());
    }
    for arg in command.args {
        match arg {
            Arg::Bytes(arg) => write_bulk(&mut bytes, arg),
            Arg::Int(n) => {
                let n = i64::try_from(*n).unwrap_or(i64::MAX);
                write_bulk(&mut bytes, number.format(n).as_bytes());
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
    bytes.extend_from_slice(Buffer::new().format(text.len()).as_bytes());
    bytes.extend_from_slice(b"\r\n");
    bytes.extend_from_slice(text);
}
