//! The server in process, and what a schedule does to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use redis_in_process::{Channel, Message, Refusal, Reply, Server, Subscriber, Value};

use crate::outcome::{Outcome, SUBSCRIBERS};
use crate::scripts::{OTHERS, OURS};
use crate::step::Step;

/// The server in process, with the same.
pub(crate) struct InProcess {
    pub(crate) server: Server,
    shas: BTreeMap<&'static str, String>,
    listening: Vec<Subscriber>,
    moods: BTreeSet<Refusal>,
    /// How long it has taken for what was asked of it, and how many scripts it has run.
    pub(crate) busy: Duration,
    pub(crate) scripts: u64,
}

impl InProcess {
    pub(crate) fn start() -> Self {
        let mut this = Self {
            server: Server::new(),
            shas: BTreeMap::new(),
            listening: Vec::new(),
            moods: BTreeSet::new(),
            busy: Duration::ZERO,
            scripts: 0,
        };
        this.begin();
        this
    }

    pub(crate) fn begin(&mut self) {
        self.moods.clear();
        self.server.accept_all();
        self.server.flush();
        for sample in OURS.iter().chain(OTHERS) {
            self.shas.insert(sample.name, self.server.load(sample.source));
        }
        for listening in std::mem::take(&mut self.listening) {
            self.server.disconnect(listening);
        }
        self.listening = (0..SUBSCRIBERS).map(|_| self.server.connect()).collect();
    }

    pub(crate) fn step(&mut self, step: &Step) -> Outcome {
        let mut answer = Reply::Nil;
        let begun = Instant::now();
        match step {
            Step::SetClock(micros) => self.server.set_now(*micros),
            Step::Command(words) => answer = self.server.command(words),
            Step::Script(name, keys, words) => {
                let (keys, args) = words.split_at(*keys);
                answer = self.server.eval_sha(&self.shas[name], keys, args);
                self.busy += begun.elapsed();
                self.scripts += 1;
            }
            Step::FlushScripts => answer = self.server.command(&["script", "flush"]),
            Step::Subscribe(who, channel) => {
                assert!(self.server.subscribe(self.listening[*who], channel.clone()));
            }
            Step::Unsubscribe(who, channel) => {
                assert!(self.server.unsubscribe(self.listening[*who], channel));
            }
            Step::Refuse(mood) => {
                self.moods.insert(*mood);
                self.server.refuse(*mood);
            }
            Step::Accept(mood) => {
                self.moods.remove(mood);
                self.server.accept(*mood);
            }
        }
        let mut outcome = self.outcome();
        outcome.answer = answer;
        outcome
    }

    fn outcome(&mut self) -> Outcome {
        let may_look = !self.moods.contains(&Refusal::MasterDown);
        let now = self.server.now() / 1000;
        let heard = self
            .listening
            .iter()
            .map(|who| self.server.take_messages(*who).into_iter().map(as_pushed).collect());
        let heard = heard.collect();
        let keys = self.server.look_at_all().into_iter().map(|(key, entry)| {
            let pttl = entry.expires.map_or(-1, |expires| (expires - now) as i64);
            let sort = Reply::Bulk(entry.value.sort().into());
            (key, Reply::Array(vec![Reply::Int(pttl), sort, content(entry.value)]))
        });
        let keys = may_look.then(|| keys.collect());
        let kept = if may_look { self.server.command(&["dbsize"]) } else { Reply::Nil };
        Outcome { answer: Reply::Nil, keys, kept, heard }
    }
}

fn content(value: Value) -> Reply {
    match value {
        Value::String(text) => Reply::Bulk(text),
        Value::List(items) => Reply::Array(items.into_iter().map(Reply::Bulk).collect()),
        Value::Hash(fields) => {
            let words = fields.into_iter().flat_map(|(name, value)| [name, value]);
            Reply::Array(words.map(Reply::Bulk).collect())
        }
        Value::SortedSet(members) => {
            let score = |score: f64| Reply::Bulk(score.to_string().into());
            let words = members.into_iter().flat_map(|(name, had)| [Reply::Bulk(name), score(had)]);
            Reply::Array(words.collect())
        }
    }
}

fn as_pushed(message: Message) -> Vec<Vec<u8>> {
    let Message { channel, text, to } = message;
    match to {
        Channel::Plain(_) => vec![b"message".to_vec(), channel, text],
        Channel::Sharded(_) => vec![b"smessage".to_vec(), channel, text],
        Channel::Pattern(pattern) => vec![b"pmessage".to_vec(), pattern, channel, text],
    }
}
