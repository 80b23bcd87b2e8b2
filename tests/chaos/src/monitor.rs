//! What the servers say that they carry out (`MONITOR`): each command with the moment of the server's own clock, at
//! which it was carried out. When it is read here plays no role.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How soon it is tried again where no server answers.
const AGAIN: Duration = Duration::from_millis(1);
/// For how long a connection may say nothing before it is looked whether all is over.
const SILENCE: Duration = Duration::from_millis(100);
/// What a server is asked. As a user of its own: who kills the connections of the others leaves this one alone.
const GREETING: &[u8] =
    b"ACL SETUSER witness on nopass ~* &* +@all\r\nAUTH witness any\r\nMONITOR\r\n";
/// How many answers that has.
const ANSWERS: usize = 3;
/// What changes a lock, or calls a script that may.
const KEPT: [&str; 22] = [
    "hset",
    "hmset",
    "hincrby",
    "hdel",
    "del",
    "unlink",
    "set",
    "pexpire",
    "pexpireat",
    "persist",
    "incr",
    "incrby",
    "rpush",
    "lpop",
    "lrem",
    "flushall",
    "flushdb",
    "eval",
    "evalsha",
    "zadd",
    "zrem",
    "zremrangebyscore",
];

/// A command that a server carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// When: microseconds since the epoch.
    pub(crate) micros: u64,
    /// The command, its name in small letters.
    pub(crate) words: Vec<String>,
}

/// Threads that listen, one for each server.
#[derive(Debug)]
pub(crate) struct Monitors {
    over: Arc<AtomicBool>,
    /// How many times each has begun to listen.
    nodes: Vec<(Arc<AtomicUsize>, JoinHandle<Vec<Line>>)>,
}

impl Monitors {
    /// Of the servers on these ports, whenever they are there.
    pub(crate) fn start(ports: impl IntoIterator<Item = u16>) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let listen = |port: u16| {
            let (over, hears) = (over.clone(), Arc::new(AtomicUsize::new(0)));
            let heard = hears.clone();
            (hears, thread::spawn(move || listen(port, &over, &heard)))
        };
        let nodes = ports.into_iter().map(listen).collect();
        Self { over, nodes }
    }

    /// How many times one has begun to listen to this server.
    pub(crate) fn heard(&self, node: usize) -> usize {
        self.nodes[node].0.load(Ordering::Acquire)
    }

    /// Waits until one listens to a server that was started after it had been heard so many times, within reason.
    pub(crate) fn wait_for(&self, node: usize, times: usize) {
        for _ in 0..5_000 {
            if self.heard(node) > times {
                return;
            }
            thread::sleep(AGAIN);
        }
    }

    /// What each server said.
    pub(crate) fn stop(self) -> Vec<Vec<Line>> {
        self.over.store(true, Ordering::Relaxed);
        self.nodes.into_iter().map(|(_, thread)| thread.join().expect("a listener")).collect()
    }
}

fn listen(port: u16, over: &AtomicBool, hears: &AtomicUsize) -> Vec<Line> {
    let mut lines = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let _ = hear(port, over, hears, &mut lines);
        thread::sleep(AGAIN);
    }
    lines
}

/// Listens up to the end of the connection.
fn hear(
    port: u16,
    over: &AtomicBool,
    hears: &AtomicUsize,
    lines: &mut Vec<Line>,
) -> std::io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut server = TcpStream::connect_timeout(&address, SILENCE)?;
    server.set_read_timeout(Some(SILENCE))?;
    server.write_all(GREETING)?;
    let (mut bytes, mut chunk, mut answers) = (Vec::new(), vec![0; 1 << 16], 0);
    loop {
        match server.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(read) => bytes.extend_from_slice(&chunk[..read]),
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) =>
            {
                if over.load(Ordering::Relaxed) {
                    return Ok(());
                }
            }
            Err(error) => return Err(error),
        }
        let mut used = 0;
        while let Some(length) = bytes[used..].windows(2).position(|pair| pair == b"\r\n") {
            let line = &bytes[used..used + length];
            used += length + 2;
            if answers < ANSWERS {
                answers += 1;
                if answers == ANSWERS {
                    if line != b"+OK" {
                        // It loads its data, or is busy: the next try may have a better answer.
                        return Ok(());
                    }
                    hears.fetch_add(1, Ordering::Release);
                }
            } else {
                lines.extend(parse(&String::from_utf8_lossy(line)));
            }
        }
        bytes.drain(..used);
    }
}

/// `+1795316413.255123 [0 lua] "hdel" "shop" "5f0c:1"`, if it is one that may change a lock.
fn parse(line: &str) -> Option<Line> {
    let (time, rest) = line.strip_prefix('+')?.split_once(" [")?;
    let (seconds, micros) = time.split_once('.')?;
    let micros = seconds.parse::<u64>().ok()? * 1_000_000 + micros.parse::<u64>().ok()?;
    let (_, words) = rest.split_once("] ")?;
    let name = words.strip_prefix('"')?.split('"').next()?.to_ascii_lowercase();
    if !KEPT.contains(&name.as_str()) {
        return None;
    }
    let mut words = split(words);
    // The text of a script, or its hash.
    if name.starts_with("eval") && words.len() > 1 {
        words[1].clear();
    }
    words[0] = name;
    Some(Line { micros, words })
}

/// Words in quotes, with the escapes that Redis makes.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), None::<String>);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (&mut word, letter) {
            (None, '"') => word = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => words.extend(word.take()),
            (Some(word), '\\') => match letters.next() {
                Some('n') => word.push('\n'),
                Some('r') => word.push('\r'),
                Some('t') => word.push('\t'),
                Some('x') => {
                    let digits: String = letters.by_ref().take(2).collect();
                    word.extend(u8::from_str_radix(&digits, 16).ok().map(char::from));
                }
                Some(other) => word.push(other),
                None => {}
            },
            (Some(word), letter) => word.push(letter),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_moment_and_words() {
        let line = parse(r#"+1795316413.255123 [0 lua] "HDEL" "a\"b\\" "5f0c:1\x00""#).unwrap();
        assert_eq!(line.micros, 1_795_316_413_255_123);
        assert_eq!(line.words, ["hdel", "a\"b\\", "5f0c:1\0"]);
        let call =
            parse(r#"+1.000002 [0 127.0.0.1:4] "EVALSHA" "0a1b" "1" "shop" "5f0c:1""#).unwrap();
        assert_eq!(
            (call.micros, call.words.join(" ").as_str()),
            (1_000_002, "evalsha  1 shop 5f0c:1")
        );
        assert_eq!(parse(r#"+1.000002 [0 lua] "pttl" "shop""#), None);
        assert_eq!(parse("+OK"), None);
    }
}
