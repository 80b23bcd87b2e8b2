//! The protocol, as it is on the wire.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use harness::{PATIENCE, RedisServer};
use redis_in_process::Reply;

use crate::step::Words;

/// A connection that hides nothing of what is said.
pub(crate) struct Connection {
    lines: BufReader<UnixStream>,
}

impl Connection {
    /// To a server with a unix socket.
    pub(crate) fn to(redis: &RedisServer) -> Self {
        let stream = UnixStream::connect(redis.unix_path()).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        Self { lines: BufReader::new(stream) }
    }

    pub(crate) fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Reply {
        self.send(&packed(words));
        self.read()
    }

    pub(crate) fn is_ok<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        assert_eq!(self.call(words), Reply::Status(b"OK".to_vec()));
    }

    /// Several commands in one round trip.
    pub(crate) fn call_all(&mut self, commands: &[Words]) -> Vec<Reply> {
        self.send(&commands.iter().flat_map(|words| packed(words)).collect::<Vec<_>>());
        commands.iter().map(|_| self.read()).collect()
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.lines.get_mut().write_all(bytes).expect("the server listens");
    }

    pub(crate) fn read(&mut self) -> Reply {
        let mut line = Vec::new();
        self.lines.read_until(b'\n', &mut line).expect("the server answers");
        assert!(line.ends_with(b"\r\n"), "the server has gone");
        let text = String::from_utf8_lossy(&line[1..line.len() - 2]).into_owned();
        let number = || text.parse::<i64>().expect("a number");
        match line[0] {
            b'+' => Reply::Status(text.into()),
            b'-' => Reply::Error(text),
            b':' => Reply::Int(number()),
            b'$' | b'*' if number() < 0 => Reply::Nil,
            b'$' => {
                let mut bytes = vec![0; number() as usize + 2];
                self.lines.read_exact(&mut bytes).expect("the server answers");
                bytes.truncate(bytes.len() - 2);
                Reply::Bulk(bytes)
            }
            b'*' => Reply::Array((0..number()).map(|_| self.read()).collect()),
            _ => panic!("no answer begins with {line:?}"),
        }
    }
}

pub(crate) fn packed<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}
