//! Redisson's own scripts, overheard: a Java peer takes and releases a lock while MONITOR listens.
//!
//! Nothing of Redisson's is kept in this repository. The scripts stay where Redisson has loaded them, on the server of the test.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use harness::redis::{self, cmd};
use harness::{PATIENCE, Peer, PeerArgs, RedisServer, java_or_skip};
use serde_json::{Value, json};

use crate::sim::{Arg, Invocation, Ms, Script};

/// Numbers that nobody else would say.
const LEASE: &str = "77123";
const WATCHDOG: &str = "2223";
const NAME: &str = "overheard";
/// What stands for the lock's name and for the holder in a word.
const LOCK: &str = "<lock>";
const HOLDER: &str = "<holder>";

/// What Redisson calls for each operation.
#[derive(Debug, Clone)]
pub(crate) struct Overheard {
    pub(crate) lock: Template,
    pub(crate) unlock: Template,
    pub(crate) renewal: Template,
    pub(crate) force_unlock: Template,
}

/// A script call with places for what differs from call to call.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    script: Script,
    keys: Vec<Part>,
    args: Vec<Part>,
}

/// A key or an argument.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Latch,
    Lease,
    Publish,
    Text(String),
}

/// What a template is filled with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filling<'a> {
    pub(crate) lock: &'a str,
    pub(crate) holder: &'a str,
    pub(crate) latch: &'a str,
    pub(crate) publish: &'a str,
    pub(crate) lease: Ms,
}

impl Template {
    pub(crate) fn fill(&self, with: Filling<'_>) -> Invocation {
        let arg = |part: &Part| match part {
            Part::Latch => Arg::Text(with.latch.into()),
            Part::Lease => Arg::Lease(with.lease),
            Part::Publish => Arg::Text(with.publish.into()),
            Part::Text(text) => {
                Arg::Text(text.replace(LOCK, with.lock).replace(HOLDER, with.holder))
            }
        };
        let key = |part: &Part| match arg(part) {
            Arg::Text(text) => text,
            other => unreachable!("{other:?} is no key"),
        };
        Invocation {
            script: self.script.clone(),
            keys: self.keys.iter().map(key).collect(),
            args: self.args.iter().map(arg).collect(),
        }
    }
}

/// Listens to a Java peer on this server; `None`, and a line that says so, when there is no Java.
pub(crate) fn overhear(server: &RedisServer, test: &str, kind: &str) -> Option<Overheard> {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let arguments = PeerArgs::redis(server.url())
        .watchdog(Duration::from_millis(WATCHDOG.parse().expect("a number")));
    let peer = runtime.block_on(java_or_skip(test, &arguments))?;
    let mut ear =
        Ear { lines: monitor(server), marks: server.client(), client: peer.client().to_string() };
    let ask = |request: Value| {
        runtime.block_on(ask(&peer, request));
    };

    ask(
        json!({ "op": "lock", "kind": kind, "name": NAME, "owner": "a", "lease_ms": LEASE.parse::<u64>().expect("a number") }),
    );
    let lock = ear.last_call();
    ask(json!({ "op": "unlock", "kind": kind, "name": NAME, "owner": "a" }));
    let unlock = ear.last_call();
    ask(json!({ "op": "lock", "kind": kind, "name": NAME, "owner": "a" }));
    ear.last_call();
    let renewal = ear.next_call();
    ask(json!({ "op": "force_unlock", "kind": kind, "name": NAME, "owner": "a" }));
    let force_unlock = ear.last_call();
    runtime.block_on(peer.close()).expect("the peer closes");
    Some(Overheard { lock, unlock, renewal, force_unlock })
}

async fn ask(peer: &Peer, request: Value) {
    let question = request.to_string();
    peer.call(request).await.unwrap_or_else(|error| panic!("{question}: {error}"));
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

struct Ear {
    lines: BufReader<TcpStream>,
    marks: redis::Connection,
    client: String,
}

impl Ear {
    /// The last script call about the lock up to now. A first one may have found its script missing.
    fn last_call(&mut self) -> Template {
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

    /// The next script call about the lock.
    fn next_call(&mut self) -> Template {
        loop {
            let words = self.words();
            if let Some(template) = self.template(&words) {
                return template;
            }
        }
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
        let [command, script, count, rest @ ..] = words else { return None };
        let count: usize = count.parse().ok()?;
        if rest.first().is_none_or(|key| key != NAME) {
            return None;
        }
        let sha = match command.to_uppercase().as_str() {
            "EVALSHA" => script.clone(),
            "EVAL" => cmd("SCRIPT").arg("LOAD").arg(script).query(&mut self.marks).expect("a sha"),
            _ => return None,
        };
        let parts: Vec<Part> = rest.iter().map(|word| self.part(word)).collect();
        let (keys, args) = parts.split_at(count);
        Some(Template { script: Script(sha), keys: keys.to_vec(), args: args.to_vec() })
    }

    fn part(&self, word: &str) -> Part {
        match word {
            LEASE | WATCHDOG => Part::Lease,
            _ if word.starts_with("redisson_unlock_latch:") => Part::Latch,
            _ if word.eq_ignore_ascii_case("publish") => Part::Publish,
            _ => Part::Text(self.with_holes(word)),
        }
    }

    /// The word with a hole where it names the lock or the holder: the client and the number of its thread.
    fn with_holes(&self, word: &str) -> String {
        let word = word.replace(NAME, LOCK);
        let Some((before, thread)) = word.split_once(&format!("{}:", self.client)) else {
            return word;
        };
        format!("{before}{HOLDER}{}", thread.trim_start_matches(|char: char| char.is_ascii_digit()))
    }
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
