//! The real server, and what a schedule does to it.

use std::collections::{BTreeMap, BTreeSet};

use harness::LOOK;
use redis_in_process::{Channel, Refusal, Reply};

use crate::clock::RealServer;
use crate::connection::{Connection, packed};
use crate::outcome::{Outcome, SUBSCRIBERS, spoken};
use crate::scripts::{OTHERS, OURS};
use crate::step::{Step, Words};

/// The real server, with the connections of a schedule.
pub(crate) struct Real {
    server: RealServer,
    connection: Connection,
    look: String,
    shas: BTreeMap<&'static str, String>,
    listening: Vec<(Connection, BTreeSet<Channel>)>,
    moods: BTreeSet<Refusal>,
    /// Whether the scripts are to be loaded again.
    flushed: bool,
}

impl Real {
    pub(crate) fn start() -> Self {
        let server = RealServer::start();
        let connection = server.connect();
        let mut real = Self {
            server,
            connection,
            look: String::new(),
            shas: BTreeMap::new(),
            listening: Vec::new(),
            moods: BTreeSet::new(),
            flushed: true,
        };
        real.begin();
        real
    }

    pub(crate) fn set_clock(&self, micros: u64) {
        self.server.set_clock(micros);
    }

    /// Whether its errors are those that the server in process gives.
    pub(crate) fn is_comparable(&mut self) -> Result<(), String> {
        let Reply::Bulk(info) = self.connection.call(&["INFO", "server"]) else {
            panic!("INFO is a text");
        };
        let info = String::from_utf8_lossy(&info).into_owned();
        let version = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
        let version = version.expect("a version").to_string();
        if version.starts_with("7.0.") { Ok(()) } else { Err(version) }
    }

    /// Another schedule: no keys, no moods, no listeners.
    pub(crate) fn begin(&mut self) {
        for mood in std::mem::take(&mut self.moods) {
            self.mood(mood, false);
        }
        self.connection.is_ok(&["FLUSHALL"]);
        if std::mem::take(&mut self.flushed) {
            for sample in OURS.iter().chain(OTHERS) {
                let sha = self.load(sample.source);
                self.shas.insert(sample.name, sha);
            }
            self.look = self.load(LOOK);
        }
        if self.listening.is_empty() || self.listening.iter().any(|(_, to)| !to.is_empty()) {
            self.listening =
                (0..SUBSCRIBERS).map(|_| (self.server.connect(), BTreeSet::new())).collect();
            // A connection that was closed is counted until the server has noticed it.
            while self.connection.call(&["PUBSUB", "NUMPAT"]) != Reply::Int(0)
                || self.connection.call(&["PUBSUB", "CHANNELS"]) != Reply::Array(Vec::new())
                || self.connection.call(&["PUBSUB", "SHARDCHANNELS"]) != Reply::Array(Vec::new())
            {
            }
        }
    }

    fn load(&mut self, source: &str) -> String {
        match self.connection.call(&["SCRIPT", "LOAD", source]) {
            Reply::Bulk(sha) => String::from_utf8(sha).expect("hex"),
            other => panic!("{}", spoken(&other)),
        }
    }

    fn mood(&mut self, mood: Refusal, begins: bool) {
        if begins {
            self.moods.insert(mood)
        } else {
            self.moods.remove(&mood)
        };
        let is_replica = |moods: &BTreeSet<_>| {
            moods.contains(&Refusal::ReadOnly) || moods.contains(&Refusal::MasterDown)
        };
        let yes_no = |yes| if yes { "yes" } else { "no" };
        match mood {
            Refusal::OutOfMemory => {
                let limit = if begins { "1" } else { "0" };
                self.connection.is_ok(&["CONFIG", "SET", "maxmemory", limit]);
            }
            Refusal::Misconfigured => {
                let stop = ["CONFIG", "SET", "stop-writes-on-bgsave-error", yes_no(begins)];
                self.connection.is_ok(&stop);
            }
            Refusal::NoReplicas => {
                let least = if begins { "1" } else { "0" };
                self.connection.is_ok(&["CONFIG", "SET", "min-replicas-to-write", least]);
            }
            Refusal::ReadOnly | Refusal::MasterDown => {
                let stale = !self.moods.contains(&Refusal::MasterDown);
                let serve = ["CONFIG", "SET", "replica-serve-stale-data", yes_no(stale)];
                self.connection.is_ok(&serve);
                // Nobody listens there.
                let master =
                    if is_replica(&self.moods) { ["127.0.0.1", "1"] } else { ["NO", "ONE"] };
                self.connection.call(&["REPLICAOF", master[0], master[1]]);
            }
            Refusal::Loading | Refusal::Busy => panic!("{mood:?} is not to be had at will"),
        }
    }

    pub(crate) fn step(&mut self, step: &Step) -> Outcome {
        let mut commands: Vec<Words> = Vec::new();
        match step {
            Step::SetClock(micros) => self.server.set_clock(*micros),
            Step::Command(words) => {
                self.flushed |= words[..2.min(words.len())] == [&b"script"[..], b"flush"];
                commands.push(words.clone());
            }
            Step::Script(name, keys, words) => {
                let head = ["evalsha".into(), self.shas[name].clone(), keys.to_string()];
                let head = head.map(String::into_bytes).into_iter();
                commands.push(head.chain(words.iter().cloned()).collect());
            }
            Step::FlushScripts => {
                commands.push(vec![b"script".to_vec(), b"flush".to_vec()]);
                self.flushed = true;
            }
            Step::Subscribe(who, channel) => self.listen(*who, channel, true),
            Step::Unsubscribe(who, channel) => self.listen(*who, channel, false),
            Step::Refuse(mood) => self.mood(*mood, true),
            Step::Accept(mood) => self.mood(*mood, false),
        }
        let acts = commands.len();
        let may_look = !self.moods.contains(&Refusal::MasterDown);
        if may_look {
            // Not by EVALSHA: the scripts may be gone, and what is loaded stays loaded.
            let look = if self.flushed {
                ["eval", LOOK, "0", "*"]
            } else {
                ["evalsha", &self.look, "0", "*"]
            };
            commands.push(look.map(|word| word.as_bytes().to_vec()).into());
            commands.push(vec![b"dbsize".to_vec()]);
        }
        let mut answers = self.connection.call_all(&commands).into_iter();
        let answer = answers.by_ref().take(acts).next().unwrap_or(Reply::Nil);
        let keys = answers.next().map(|looked| match looked {
            Reply::Array(keys) => keys.into_iter().map(named).collect(),
            other => panic!("{}", spoken(&other)),
        });
        let kept = answers.next().unwrap_or(Reply::Nil);
        let heard = self.listening.iter_mut().map(heard).collect();
        Outcome { answer, keys, kept, heard }
    }

    fn listen(&mut self, who: usize, channel: &Channel, begins: bool) {
        let (connection, to) = &mut self.listening[who];
        let (sort, name) = match channel {
            Channel::Plain(name) => ("subscribe", name),
            Channel::Sharded(name) => ("ssubscribe", name),
            Channel::Pattern(name) => ("psubscribe", name),
        };
        let verb = match (begins, sort) {
            (true, verb) => verb,
            (false, "ssubscribe") => "sunsubscribe",
            (false, "psubscribe") => "punsubscribe",
            (false, _) => "unsubscribe",
        };
        let answer = connection.call(&[verb.as_bytes(), name]);
        // A server that serves nothing stale refuses it.
        if matches!(answer, Reply::Array(_)) {
            if begins {
                to.insert(channel.clone())
            } else {
                to.remove(channel)
            };
        }
    }
}

/// A key that was looked at, with its name.
fn named(key: Reply) -> (Vec<u8>, Reply) {
    let Reply::Array(parts) = key else { panic!("{}", spoken(&key)) };
    let [Reply::Bulk(name), pttl, sort, mut content] = <[Reply; 4]>::try_from(parts).expect("four")
    else {
        panic!("a key has a name");
    };
    if let Reply::Array(words) = &mut content
        && sort == Reply::Bulk(b"zset".to_vec())
    {
        for score in words.iter_mut().skip(1).step_by(2) {
            let Reply::Bulk(text) = score else { panic!("{}", spoken(score)) };
            let number: f64 = String::from_utf8_lossy(text).parse().expect("a score");
            *score = Reply::Bulk(number.to_string().into());
        }
    }
    (name, Reply::Array(vec![pttl, sort, content]))
}

/// What a subscriber has heard up to now.
fn heard((connection, to): &mut (Connection, BTreeSet<Channel>)) -> Vec<Vec<Vec<u8>>> {
    let mut heard = Vec::new();
    if to.is_empty() {
        return heard;
    }
    connection.send(&packed(&["PING"]));
    loop {
        // PONG, or that it is refused.
        let Reply::Array(parts) = connection.read() else { return heard };
        let parts = parts.into_iter().map(|part| match part {
            Reply::Bulk(word) => word,
            other => panic!("{}", spoken(&other)),
        });
        let parts: Vec<_> = parts.collect();
        if parts[0] == b"pong" {
            return heard;
        }
        heard.push(parts);
    }
}
