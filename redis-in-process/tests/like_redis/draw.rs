//! Schedules, drawn from a seed.

use fastrand::Rng;
use redis_in_process::{Channel, Refusal};

use crate::scripts::{OTHERS, OURS, Sample};
use crate::step::{Step, Words};

/// When every schedule begins, in µs.
pub(crate) const BEGIN: u64 = 1_700_000_000_000_000;
const LOCKS: [&str; 2] = ["lock", "{tag}lock"];
/// Two of ours, whose numbers are of 19 digits, and two of Redisson's.
const HOLDERS: [&str; 4] =
    ["ours:4611686018427387904", "ours:4611686018427387905", "theirs:57", "theirs:58"];
/// In ms.
const SPANS: [u64; 8] = [1, 2, 30, 100, 1_000, 5_000, 30_000, 3_600_000];
const TEXTS: [&str; 7] =
    ["", "word", "TWO words", "-DASH and more", "-dashed", "line\nbreak\r\n", "1"];
const NUMBERS: [&str; 14] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "-2",
    "5",
    "1700000000123",
    "9223372036854775807",
    "-9223372036854775808",
    "0.5",
    "-2.75",
    "1e3",
    "many",
];
const MOODS: [Refusal; 5] = [
    Refusal::OutOfMemory,
    Refusal::Misconfigured,
    Refusal::NoReplicas,
    Refusal::ReadOnly,
    Refusal::MasterDown,
];

/// Single commands: a name, and words.
const COMMANDS: &[&str] = &[
    "get key",
    "set key text",
    "set key number",
    "set key text px ms",
    "set key text nx",
    "set key text xx px ms",
    "set key text nx xx",
    "set key text px",
    "set key text sideways",
    "incr key",
    "incr token",
    "incrby key number",
    "incrby token small",
    "decr token",
    "decrby key number",
    "decrby token small",
    "del key",
    "del key key key",
    "exists key",
    "exists key key",
    "type key",
    "pttl key",
    "pexpire key ms",
    "pexpire key number",
    "pexpire key ms gt",
    "pexpire key number GT",
    "persist key",
    "keys pattern",
    "hset key field text",
    "hset key field small field small",
    "hset plain field number",
    "hset key field",
    "hget key field",
    "hdel key field",
    "hdel key field field",
    "hexists key field",
    "hlen key",
    "hkeys key",
    "hscan key 0",
    "hscan key 0 count number",
    "hscan key 0 count",
    "hstrlen key field",
    "hgetall key",
    "hincrby key field small",
    "hincrby plain field number",
    "rpush key holder",
    "rpush key holder holder",
    "lpop key",
    "lindex key number",
    "llen key",
    "lrange key number number",
    "lrem key number holder",
    "zadd key number holder",
    "zadd key number holder number holder",
    "zadd key number",
    "zcard key",
    "zincrby key number holder",
    "zcount key number number",
    "zcount key -inf (1700000000123",
    "zrange key number number",
    "zrange key number number withscores",
    "zrange key 0 -1 sideways",
    "zrangebyscore key number number",
    "zrangebyscore key -inf +inf withscores limit number number",
    "zrangebyscore key (1700000000000 +inf limit 1 -1 withscores",
    "zrangebyscore key -inf +inf limit 1",
    "zrangebyscore key -inf +inf sideways",
    "zrem key holder",
    "zremrangebyscore key number number",
    "zremrangebyscore key -inf (1700000000123",
    "zrem key holder holder",
    "zscore key holder",
    "publish channel text",
    "spublish channel text",
    "pubsub numsub channel channel",
    "pubsub shardnumsub channel",
    "pubsub channels",
    "pubsub channels pattern",
    "pubsub shardchannels",
    "pubsub nobody",
    "time",
    "ping",
    "ping text",
    "ping text text",
    "echo text",
    "dbsize",
    "get",
    "get key key",
    "hset key",
    "del",
    "time text",
];

/// Commands that no script may or need call.
const ALONE: &[&str] = &[
    "eval nothing 0",
    "eval nothing 1 key",
    "eval nothing 2 key",
    "eval nothing -1 key",
    "eval nothing number",
    "eval broken 0",
    "evalsha text 0",
    "evalsha ffffffffffffffffffffffffffffffffffffffff 0",
    "evalsha ffffffffffffffffffffffffffffffffffffffff many",
    "script load nothing",
    "script load broken",
    "script exists text ffffffffffffffffffffffffffffffffffffffff",
    "script flush sideways",
    "script nobody",
    "script exists",
    "flushall",
    "flushdb",
];

/// A schedule in the making.
struct Draw {
    rng: Rng,
    now: u64,
    /// The lock of most calls.
    lock: &'static str,
    steps: Vec<Step>,
}

/// The schedule of a seed.
pub(crate) fn schedule(seed: u64) -> Vec<Step> {
    let mut rng = Rng::with_seed(seed);
    let lock = rng.choice(LOCKS).expect("a lock");
    let now = BEGIN + rng.u64(..2_000);
    let length = rng.usize(5..60);
    let kinds = if rng.u8(..4) == 0 {
        ["strings", "hashes", "lists", "sets"]
    } else {
        ["reentrant/", "fenced/", "read/", "fair/"]
    };
    let kind = match rng.u8(..8) {
        0 => "counters/",
        1 => "permits/",
        _ => rng.choice(kinds).expect("a kind"),
    };
    let moody = rng.u8(..8) == 0;
    let mut draw = Draw { rng, now, lock, steps: vec![Step::SetClock(now)] };
    while draw.steps.len() < length {
        let step = match draw.rng.u32(..100) {
            0..14 => draw.clock(),
            14..30 => draw.command(),
            30..40 => draw.script(&OTHERS.iter().collect::<Vec<_>>()),
            40..44 => draw.listener(),
            44..46 if moody => draw.mood(),
            46 if draw.rng.u8(..4) == 0 => Step::FlushScripts,
            47..53 => draw.script(&OURS.iter().collect::<Vec<_>>()),
            _ => draw.of_kind(kind),
        };
        draw.steps.push(step);
    }
    draw.steps
}

impl Draw {
    fn one(&mut self, of: &[&'static str]) -> &'static str {
        self.rng.choice(of).expect("one of them")
    }

    fn clock(&mut self) -> Step {
        let ms = self.rng.choice(SPANS).expect("a span");
        let micros = match self.rng.u8(..8) {
            0 => 1,
            1 => 999,
            2 => ms * 1000 + 1,
            3 => ms * 500,
            _ => ms * 1000,
        };
        let back = self.rng.u8(..12) == 0;
        self.now = if back { (self.now - micros).max(BEGIN) } else { self.now + micros };
        Step::SetClock(self.now)
    }

    fn command(&mut self) -> Step {
        let alone = self.rng.u8(..12) == 0;
        let words = self.one(if alone { ALONE } else { COMMANDS });
        Step::Command(self.words(words))
    }

    /// What most steps of a schedule do: about one kind of lock, or one sort of key.
    fn of_kind(&mut self, kind: &str) -> Step {
        let prefixes: &[&str] = match kind {
            // A lock to read is one to write, and to take a fenced lock is all that is not reentrant about it.
            "read/" => &["read/", "write/"],
            "fenced/" => &["fenced/", "reentrant/"],
            "counters/" => &["counter/", "semaphore/", "latch/"],
            "permits/" => &["counter/", "expirable/"],
            "strings" => &["get key", "set key", "incr key", "p"],
            "hashes" => &["h"],
            "lists" => &["l", "r"],
            "sets" => &["z"],
            _ => &[kind],
        };
        let is_of_kind = |name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
        if !kind.ends_with('/') {
            let commands = COMMANDS.iter().copied().filter(|words| is_of_kind(words));
            let words = self.one(&commands.collect::<Vec<_>>());
            // One key, so that there is something in it.
            return Step::Command(self.words(&words.replace(" key", " plain")));
        }
        let mut scripts: Vec<_> = OURS.iter().filter(|sample| is_of_kind(sample.name)).collect();
        if self.rng.u8(..3) == 0 {
            scripts.retain(|sample| sample.name.ends_with("/acquire"));
        }
        self.script(&scripts)
    }

    fn script(&mut self, among: &[&'static Sample]) -> Step {
        let sample = *self.rng.choice(among).expect("a script");
        let (keys, args) = self.rng.choice(sample.calls).expect("a call");
        let mut words = self.words(keys);
        let count = words.len();
        words.extend(self.words(args));
        Step::Script(sample.name, count, words)
    }

    fn listener(&mut self) -> Step {
        let who = self.rng.usize(..2);
        let channel = match self.rng.u8(..5) {
            0 => Channel::Pattern(self.word("pattern")),
            1 | 2 => Channel::Sharded(self.word("channel")),
            _ => Channel::Plain(self.word("channel")),
        };
        if self.rng.u8(..3) == 0 {
            Step::Unsubscribe(who, channel)
        } else {
            Step::Subscribe(who, channel)
        }
    }

    fn mood(&mut self) -> Step {
        let mood = self.rng.choice(MOODS).expect("a mood");
        let begun = self.steps.iter().rev().find_map(|step| match step {
            Step::Refuse(why) if *why == mood => Some(true),
            Step::Accept(why) if *why == mood => Some(false),
            _ => None,
        });
        if begun == Some(true) { Step::Accept(mood) } else { Step::Refuse(mood) }
    }

    fn words(&mut self, words: &str) -> Words {
        let mut drawn = Words::new();
        for word in words.split_whitespace() {
            if word == "command" {
                let command = self.one(COMMANDS);
                drawn.extend(self.words(command));
            } else {
                drawn.push(self.word(word));
            }
        }
        drawn
    }

    fn word(&mut self, word: &str) -> Vec<u8> {
        let lock = if self.rng.u8(..10) == 0 { self.one(&LOCKS) } else { self.lock };
        let tag = if lock.contains('{') { lock.into() } else { format!("{{{lock}}}") };
        let span = self.rng.choice(SPANS).expect("a span");
        let drawn = match word {
            "lock" => lock.into(),
            "other" => self.one(&LOCKS).into(),
            "any" | "key" => {
                let sort = self.one(&[
                    "lock",
                    "lock",
                    "token",
                    "queue",
                    "deadlines",
                    "timeout",
                    "plain",
                    "permits",
                    "requests",
                ]);
                if sort == "plain" { return sort.into() } else { return self.word(sort) }
            }
            "token" => format!("{tag}:token"),
            "permits" => format!("{tag}:permits"),
            "requests" => format!("{tag}:requests"),
            // So few that many are sent twice.
            "request" => format!("ours:{}", self.rng.u8(..6)),
            "permit" => format!("permit-of-16-by-{}", self.rng.u8(..8)),
            "empty" => String::new(),
            "some" => self.rng.u8(1..4).to_string(),
            "queue" => format!("{tag}:queue"),
            "deadlines" => format!("{tag}:deadlines"),
            "channel" => format!("{tag}:channel"),
            "timeout" => {
                format!("{tag}:{}:rwlock_timeout:{}", self.one(&HOLDERS), self.rng.u8(1..3))
            }
            "holder" => self.one(&HOLDERS).into(),
            "writer" => format!("{}:write", self.one(&HOLDERS)),
            "under" if self.rng.bool() => String::new(),
            "under" => return self.word("writer"),
            "field" if self.rng.u8(..4) == 0 => "mode".into(),
            "field" => return self.word("holder"),
            "count" => self.rng.u8(..3).to_string(),
            "lease" | "wait" | "theirs" | "ms" => span.to_string(),
            "not_after" if self.rng.u8(..8) == 0 => {
                (self.now / 1000 + self.rng.u64(..3) - 1).to_string()
            }
            "not_after" => "9007199254740991".into(),
            "publish" => self.one(&["publish", "publish", "spublish"]).into(),
            "numsub" => self.one(&["numsub", "shardnumsub"]).into(),
            "stand" => self.one(&["0", "1", "1"]).into(),
            "text" => self.one(&TEXTS).into(),
            "number" => self.one(&NUMBERS).into(),
            // A hold count: scripts go through all re-entries of one.
            "small" => self.one(&["0", "1", "2", "3", "-1", "0.5", "many"]).into(),
            "pattern" => {
                self.one(&["*", "lock", "{*", "*lock*", "[a-l]*", "l?ck", "*:channel"]).into()
            }
            "nothing" => "return nil".into(),
            "broken" => "return return".into(),
            literal => literal.into(),
        };
        drawn.into_bytes()
    }
}
