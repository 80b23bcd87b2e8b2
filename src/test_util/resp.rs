//! The Redis protocol, version 2.

use redis_in_process::{Executed, Reply};

/// What was sent is not the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Takes the first request from the buffer. `None`: it is not complete yet.
pub(super) fn request(buffer: &mut Vec<u8>) -> Result<Option<Vec<Vec<u8>>>, Malformed> {
    let mut rest = &buffer[..];
    let Some(head) = line(&mut rest) else { return Ok(None) };
    let mut words = Vec::new();
    match head.strip_prefix(b"*") {
        Some(count) => {
            for _ in 0..number(count)? {
                let Some(head) = line(&mut rest) else { return Ok(None) };
                let length = number(head.strip_prefix(b"$").ok_or(Malformed)?)?;
                if rest.len() < length + 2 {
                    return Ok(None);
                }
                words.push(rest[..length].to_vec());
                rest = &rest[length + 2..];
            }
        }
        // An inline command.
        None => words.extend(head.split(|byte| *byte == b' ').map(<[u8]>::to_vec)),
    }
    words.retain(|word| !word.is_empty() || head.starts_with(b"*"));
    let used = buffer.len() - rest.len();
    buffer.drain(..used);
    Ok(Some(words))
}

/// Takes a line without its end.
fn line<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
    let (line, after) = (&rest[..end], &rest[end + 2..]);
    *rest = after;
    Some(line)
}

fn number(digits: &[u8]) -> Result<usize, Malformed> {
    /// As in Redis, the longest bulk string.
    const MOST_LENGTH: usize = 512 << 20;

    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    number.filter(|number| *number <= MOST_LENGTH).ok_or(Malformed)
}

/// Writes a reply.
pub(super) fn write(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    write_to(&mut bytes, reply);
    bytes
}

fn write_to(bytes: &mut Vec<u8>, reply: &Reply) {
    let mut put = |kind: &str, text: &[u8]| {
        bytes.extend(kind.as_bytes());
        bytes.extend(text);
        bytes.extend(b"\r\n");
    };
    match reply {
        Reply::Nil => put("$", b"-1"),
        Reply::Int(n) => put(":", n.to_string().as_bytes()),
        Reply::Status(text) => put("+", text),
        Reply::Error(text) => put("-", text.as_bytes()),
        Reply::Bulk(text) => {
            put("$", text.len().to_string().as_bytes());
            put("", text);
        }
        Reply::Array(items) => {
            put("*", items.len().to_string().as_bytes());
            for item in items {
                write_to(bytes, item);
            }
        }
    }
}

/// A line of MONITOR, such as `1700000000.000005 [0 lua] "get" "name"`. `now`: in µs.
pub(super) fn monitored(now: u64, executed: &Executed) -> Reply {
    let by = if executed.by_script { "lua" } else { "127.0.0.1:0" };
    let mut line = format!("{}.{:06} [0 {by}]", now / 1_000_000, now % 1_000_000);
    for word in &executed.words {
        line.push_str(" \"");
        for byte in word {
            match byte {
                b'\\' | b'"' => line.extend(['\\', char::from(*byte)]),
                b'\n' => line.push_str("\\n"),
                b'\r' => line.push_str("\\r"),
                b'\t' => line.push_str("\\t"),
                b' '..=b'~' => line.push(char::from(*byte)),
                _ => line.push_str(&format!("\\x{byte:02x}")),
            }
        }
        line.push('"');
    }
    Reply::Status(line.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn requests_are_taken_when_they_are_complete() {
        let sent = b"*2\r\n$4\r\nECHO\r\n$3\r\na\r\n\r\nPING  x\r\n";
        for cut in 0..sent.len() {
            let mut buffer = sent[..cut].to_vec();
            let first = request(&mut buffer).unwrap();
            assert_eq!(first.is_some(), cut >= 23, "{cut}");
            if cut < 23 {
                assert_eq!(buffer, sent[..cut], "nothing was taken");
            }
        }
        let mut buffer = sent.to_vec();
        assert_eq!(request(&mut buffer), Ok(Some(words(&["ECHO", "a\r\n"]))));
        assert_eq!(request(&mut buffer), Ok(Some(words(&["PING", "x"]))));
        assert_eq!(request(&mut buffer), Ok(None));
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for sent in [&b"*x\r\n"[..], b"*1\r\n+a\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$999999999999\r\n"]
        {
            assert_eq!(request(&mut sent.to_vec()), Err(Malformed), "{sent:?}");
        }
    }

    #[test]
    fn replies_are_written() {
        let reply = Reply::Array(vec![
            Reply::Nil,
            Reply::Int(-2),
            Reply::Bulk(b"a".to_vec()),
            Reply::Status(b"OK".to_vec()),
            Reply::Error("ERR no".into()),
        ]);
        assert_eq!(write(&reply), b"*5\r\n$-1\r\n:-2\r\n$1\r\na\r\n+OK\r\n-ERR no\r\n");
    }

    #[test]
    fn a_monitor_shows_bytes_as_redis_does() {
        let executed =
            Executed { words: vec![b"get".to_vec(), b"\"\\\n\xe9".to_vec()], by_script: true };
        let line = r#"1.000002 [0 lua] "get" "\"\\\n\xe9""#;
        assert_eq!(monitored(1_000_002, &executed), Reply::Status(line.into()));
    }
}
