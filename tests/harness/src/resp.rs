//! Finds the end of a message of the Redis protocol, in both of its versions.

use std::io::{Error, ErrorKind, Result};

/// The length of the request at the start of `bytes`, or `None` while it is not whole.
pub(crate) fn request_len(bytes: &[u8]) -> Result<Option<usize>> {
    match bytes.first() {
        // Anything else is an inline command, one line.
        Some(b'*') | None => frame_len(bytes),
        Some(_) => Ok(line(bytes).map(|(_, len)| len)),
    }
}

/// The length of the reply at the start of `bytes`, or `None` while it is not whole.
pub(crate) fn frame_len(bytes: &[u8]) -> Result<Option<usize>> {
    let Some((head, len)) = line(bytes) else {
        return Ok(None);
    };
    let Some((&kind, count)) = head.split_first() else {
        return Err(malformed(bytes));
    };
    match kind {
        b'+' | b'-' | b':' | b'_' | b'#' | b',' | b'(' => Ok(Some(len)),
        b'$' | b'!' | b'=' => {
            let end = number(count, bytes)?.map_or(len, |payload| len + payload + 2);
            Ok((bytes.len() >= end).then_some(end))
        }
        b'*' | b'~' | b'>' => frames_len(bytes, len, number(count, bytes)?.unwrap_or(0)),
        b'%' => frames_len(bytes, len, 2 * number(count, bytes)?.unwrap_or(0)),
        // Attributes come in front of the reply they belong to.
        b'|' => frames_len(bytes, len, 2 * number(count, bytes)?.unwrap_or(0) + 1),
        _ => Err(malformed(bytes)),
    }
}

/// A push is nobody's reply.
pub(crate) fn is_push(frame: &[u8]) -> bool {
    frame.first() == Some(&b'>')
}

/// After one of these the connection's replies are not one for each request any more.
pub(crate) fn is_subscribe(request: &[u8]) -> bool {
    let command = request.split(|&byte| byte == b'\n').nth(2).unwrap_or(request);
    command.trim_ascii().to_ascii_uppercase().ends_with(b"SUBSCRIBE")
}

fn frames_len(bytes: &[u8], mut end: usize, count: usize) -> Result<Option<usize>> {
    for _ in 0..count {
        match frame_len(&bytes[end..])? {
            Some(len) => end += len,
            None => return Ok(None),
        }
    }
    Ok(Some(end))
}

/// The first line without its end, and its length with it.
fn line(bytes: &[u8]) -> Option<(&[u8], usize)> {
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    Some((&bytes[..end], end + 2))
}

/// `None` stands for the −1 of a null.
fn number(digits: &[u8], bytes: &[u8]) -> Result<Option<usize>> {
    if digits == b"-1" {
        return Ok(None);
    }
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.map(Some).ok_or_else(|| malformed(bytes))
}

fn malformed(bytes: &[u8]) -> Error {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]).into_owned();
    Error::new(ErrorKind::InvalidData, format!("not the Redis protocol: {start:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_frames_are_measured_and_parts_are_not() {
        let frames: [&[u8]; 12] = [
            b"+OK\r\n",
            b"-ERR no\r\n",
            b":12\r\n",
            b"_\r\n",
            b"$-1\r\n",
            b"*-1\r\n",
            b"*0\r\n",
            b"$5\r\na\r\nbc\r\n",
            b"*2\r\n$1\r\na\r\n*1\r\n:1\r\n",
            b"%1\r\n+a\r\n*1\r\n:1\r\n",
            b"|1\r\n+a\r\n+b\r\n:7\r\n",
            b">2\r\n+a\r\n+b\r\n",
        ];
        for frame in frames {
            let followed = [frame, b"+next\r\n"].concat();
            assert_eq!(frame_len(&followed).unwrap(), Some(frame.len()));
            for part in 0..frame.len() {
                assert_eq!(frame_len(&frame[..part]).unwrap(), None, "{part} of {frame:?}");
            }
        }
    }

    #[test]
    fn inline_commands_are_requests() {
        assert_eq!(request_len(b"PING\r\nPING\r\n").unwrap(), Some(6));
    }

    #[test]
    fn subscriptions_are_known_by_their_command() {
        assert!(is_subscribe(b"*2\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n"));
        assert!(is_subscribe(b"*2\r\n$10\r\nSSUBSCRIBE\r\n$1\r\nc\r\n"));
        assert!(!is_subscribe(b"*2\r\n$3\r\nGET\r\n$9\r\nsubscribe\r\n"));
    }

    #[test]
    fn what_is_not_the_protocol_is_an_error() {
        frame_len(b"?\r\n").unwrap_err();
        frame_len(b"$x\r\n").unwrap_err();
    }
}
