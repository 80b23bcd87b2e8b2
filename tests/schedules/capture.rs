//! Redisson's own scripts, captured: a Java peer acquires and releases a lock while MONITOR listens.
//!
//! This repository contains none of them. The scripts stay where Redisson has loaded them, on the server of the test.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::Mutex;
use std::time::Duration;

use harness::redis::{self, cmd};
use harness::{PATIENCE, Peer, PeerArgs, RedisServer, epoch_micros, java_or_skip};
use serde_json::Value;
use sha1_smol::Sha1;
use tokio::runtime::Runtime;

use crate::model::Script;
use crate::template::{HOLDER_HOLE, NAME_HOLE, Part, Template};

/// Numbers that nobody else would say.
pub(crate) const LEASE: u64 = 77_123;
const WATCHDOG: u64 = 2_223;
const WAIT: u64 = 31_234;
/// A number of permits, or a count.
pub(crate) const COUNT: u64 = 4_321;
/// A wait that ends soon.
pub(crate) const SHORT_WAIT: u64 = 717;
const NAME: &str = "captured";
/// Whatever is greater is a time of day.
const LONG_AGO_MS: u64 = 1_500_000_000_000;

/// The texts of scripts by their SHA-1. A second peer does not load again what a first one has loaded.
static TEXTS: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

fn keep(text: &str) {
    let sha = Sha1::from(text).digest().to_string();
    TEXTS.lock().expect("no test has failed here").insert(sha, text.into());
}

/// A Java peer, and a connection that monitors its server.
pub(crate) struct Capture {
    runtime: Runtime,
    peer: Peer,
    kind: String,
    lines: BufReader<TcpStream>,
    marks: redis::Connection,
}

impl Capture {
    /// For a kind of lock, as the peer calls it; `None`, and a line that says so, when there is no Java.
    pub(crate) fn open(server: &RedisServer, test: &str, kind: &str) -> Option<Self> {
        let runtime = Runtime::new().expect("a runtime");
        let arguments = PeerArgs::redis(server.url())
            .watchdog(Duration::from_millis(WATCHDOG))
            .fair_wait(Duration::from_millis(WAIT));
        let peer = runtime.block_on(java_or_skip(test, &arguments))?;
        let kind = kind.to_string();
        Some(Self { runtime, peer, kind, lines: monitor(server), marks: server.client() })
    }

    /// Has an owner of the peer do something about the lock.
    pub(crate) fn ask(&self, owner: &str, mut request: Value) -> Value {
        request["kind"] = self.kind.as_str().into();
        request["name"] = NAME.into();
        request["owner"] = owner.into();
        let question = request.to_string();
        let answer = self.runtime.block_on(self.peer.call(request));
        answer.unwrap_or_else(|error| panic!("{question}: {error}")).value
    }

    pub(crate) fn close(self) {
        self.runtime.block_on(self.peer.close()).expect("the peer closes");
    }

    /// The last script call about the lock up to now. A first one may have found its script missing.
    pub(crate) fn last_call(&mut self) -> Template {
        const MARK: &str = "up to here";
        cmd("ECHO").arg(MARK).exec(&mut self.marks).expect("a mark");
        let mut last = None;
        loop {
            let words = self.words();
            if words == ["ECHO", MARK] {
                return last.expect("Redisson calls a script");
            }
            last = self.template(&words).or(last);
        }
    }

    /// The next script call about the lock. A first one may find its script missing: it is made again. By the time it is read
    /// here the script may have been loaded, but its text comes behind.
    pub(crate) fn next_call(&mut self) -> Template {
        loop {
            let words = self.words();
            if let Some(template) = self.template(&words)
                && !template.script.text().is_empty()
                && self.is_loaded(&template)
            {
                return template;
            }
        }
    }

    fn is_loaded(&mut self, template: &Template) -> bool {
        let mut question = cmd("SCRIPT");
        question.arg("EXISTS").arg(template.script.sha());
        let (loaded,): (bool,) = question.query(&mut self.marks).expect("an answer");
        loaded
    }

    /// The next command of a client, with its arguments.
    fn words(&mut self) -> Vec<String> {
        loop {
            let mut line = String::new();
            self.lines.read_line(&mut line).expect("the next command");
            if let Some((origin, command)) = line.split_once("] ")
                && !origin.ends_with(" lua")
            {
                return quoted(command.trim_end());
            }
        }
    }

    fn template(&mut self, words: &[String]) -> Option<Template> {
        if let [command, load, text] = words
            && [command, load].map(|word| word.to_uppercase()) == ["SCRIPT", "LOAD"]
        {
            keep(text);
        }
        let [command, script, count, rest @ ..] = words else { return None };
        let count: usize = count.parse().ok()?;
        if rest.first().is_none_or(|key| !key.contains(NAME)) {
            return None;
        }
        let sha = match command.to_uppercase().as_str() {
            "EVALSHA" => script.clone(),
            "EVAL" => {
                keep(script);
                cmd("SCRIPT").arg("LOAD").arg(script).query(&mut self.marks).expect("a sha")
            }
            _ => return None,
        };
        let parts: Vec<Part> = rest.iter().map(|word| self.part(word)).collect();
        let (keys, args) = parts.split_at(count);
        // A first call may find its script missing.
        let text =
            TEXTS.lock().expect("no test has failed here").get(&sha).cloned().unwrap_or_default();
        Some(Template {
            script: Script::of_others(sha, &text),
            keys: keys.to_vec(),
            args: args.to_vec(),
        })
    }

    fn part(&self, word: &str) -> Part {
        match word.parse() {
            Ok(LEASE | WATCHDOG) => return Part::Lease,
            Ok(WAIT | SHORT_WAIT) => return Part::Wait,
            Ok(COUNT) => return Part::Count,
            Ok(moment @ LONG_AGO_MS..) => {
                let is_later = moment > epoch_micros() / 1_000 + LEASE / 2;
                return if is_later { Part::End } else { Part::Now };
            }
            _ => {}
        }
        if word.starts_with("redisson_unlock_latch:") {
            return Part::Latch;
        }
        // The id of a permit is 16 random bytes.
        if word.chars().count() == 16 && !word.chars().all(|char| char.is_ascii_graphic()) {
            return Part::Permit;
        }
        Part::Text(self.with_holes(word))
    }

    /// The word with a hole where it names the lock or the holder: the client and the number of its thread.
    fn with_holes(&self, word: &str) -> String {
        let word = word.replace(NAME, NAME_HOLE);
        let Some((before, thread)) = word.split_once(&format!("{}:", self.peer.client())) else {
            return word;
        };
        let after = thread.trim_start_matches(|char: char| char.is_ascii_digit());
        format!("{before}{HOLDER_HOLE}{after}")
    }
}

fn monitor(server: &RedisServer) -> BufReader<TcpStream> {
    let mut stream =
        TcpStream::connect(("127.0.0.1", server.port())).expect("a connection to listen on");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.write_all(b"MONITOR\r\n").expect("to listen");
    let mut lines = BufReader::new(stream);
    lines.read_line(&mut String::new()).expect("OK");
    lines
}

/// The words of a line of MONITOR's: each in quotes, with the escapes of C.
fn quoted(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut chars = line.chars();
    while chars.by_ref().any(|char| char == '"') {
        let mut word = String::new();
        while let Some(char) = chars.next().filter(|char| *char != '"') {
            let char = match char {
                '\\' => match chars.next() {
                    Some('n') => '\n',
                    Some('r') => '\r',
                    Some('t') => '\t',
                    Some('a') => '\x07',
                    Some('b') => '\x08',
                    // A byte that is no printable ASCII.
                    Some('x') => {
                        let digits: String = chars.by_ref().take(2).collect();
                        u8::from_str_radix(&digits, 16).map_or('?', char::from)
                    }
                    Some(other) => other,
                    None => break,
                },
                plain => plain,
            };
            word.push(char);
        }
        words.push(word);
    }
    words
}
