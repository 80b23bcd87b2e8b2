//! Histories and witnesses as stories, one event a line:
//! ```text
//! 10 a asks 1 shop            a process asks for guard 1 of a lock; `fair`, `by o`, `lease 50`, `wait 20`, `all`, … may follow
//! 12 server grants a:1        a server puts in the holder a:1; `until 90`, `reading`, `token 3` may follow
//! 15 a has 1                  the process has guard 1, by the id a:1; `id b:7`, `token 3`, `trust 280` may follow
//! 20 a unlocks 1
//! 21 server releases a:1
//! 22 a unlocked 1
//! ```
//! Times are milliseconds, and may have a fraction. A process is there from 0 on, and its client's id is its name. `server` and
//! `heir` are masters of the same data; `s1`, `s2` and so on are servers of their own.

use judge::{
    Answer, Bounds, Call, Check, Code, Deed, Effect, Event, Fault, Held, History, Kind, Leave,
    Left, Log, Loss, MS, Mode, Nanos, Place, Policy, Rating, Reign, Rule, Seen, Taker, Verdict,
    What, Witness, judge,
};

/// All in ms, and small.
pub(crate) fn bounds() -> Bounds {
    Bounds {
        watchdog: 300 * MS,
        command_timeout: 30 * MS,
        retry_timeout: 100 * MS,
        fair_wait: 100 * MS,
        redisson_fair_wait: 400 * MS,
        tick: 10 * MS,
        rtt: 0,
        slack: 0,
        clock_error: 0,
        wake: 10 * MS,
        undo: 40 * MS,
        recovery: 10 * MS,
        courtesy: 0,
        poll: 50 * MS,
        news: 50 * MS,
        idle: 20 * MS,
        turn: None,
        failover: 20 * MS,
        follow: 10 * MS,
        discovery: 10 * MS,
        farewell: 10 * MS,
    }
}

#[derive(Default)]
pub(crate) struct Story {
    pub(crate) history: History,
    pub(crate) witness: Witness,
}

/// The rest of a line.
struct Words<'a>(Vec<&'a str>);

impl<'a> Words<'a> {
    fn next(&mut self) -> &'a str {
        assert!(!self.0.is_empty(), "a word is missing");
        self.0.remove(0)
    }

    fn number(&mut self) -> u64 {
        let word = self.next();
        word.parse().unwrap_or_else(|_| panic!("{word} is no number"))
    }

    /// Takes the word out, if it is there.
    fn has(&mut self, word: &str) -> bool {
        let at = self.0.iter().position(|other| *other == word);
        at.map(|at| self.0.remove(at)).is_some()
    }

    /// Takes the word out, and the one after it.
    fn after(&mut self, word: &str) -> Option<&'a str> {
        let at = self.0.iter().position(|other| *other == word)?;
        self.0.remove(at);
        Some(self.0.remove(at))
    }

    fn ms(&mut self, word: &str) -> Option<Nanos> {
        self.after(word).map(ms)
    }

    fn count(&mut self, word: &str) -> Option<u64> {
        self.after(word).map(|count| count.parse().unwrap())
    }
}

fn ms(word: &str) -> Nanos {
    let (whole, part) = word.split_once('.').unwrap_or((word, ""));
    let part = format!("{part:0<6}");
    whole.parse::<u64>().unwrap_or_else(|_| panic!("{word} is no time")) * MS
        + part.parse::<u64>().unwrap()
}

fn loss(word: &str) -> Loss {
    match word {
        "expired" => Loss::Expired,
        "removed" => Loss::Removed,
        "taken" => Loss::Taken,
        "closed" => Loss::Closed,
        "unknown" => Loss::Unknown,
        _ => panic!("{word} is no loss"),
    }
}

fn place(word: &str, kind: Kind) -> Place {
    let (server, name) = word.split_once('/').unwrap_or(("", word));
    Place { server: server.into(), name: name.into(), kind }
}

fn kind(words: &mut Words<'_>) -> Kind {
    use Kind as K;
    let kinds = [
        ("fair", K::Fair),
        ("fenced", K::Fenced),
        ("spin", K::Spin),
        ("reading", K::Read),
        ("writing", K::Write),
        ("non_reentrant", K::NonReentrant),
        ("non_reentrant_fair", K::NonReentrantFair),
    ];
    kinds.into_iter().find(|(word, _)| words.has(word)).map_or(K::Lock, |(_, kind)| kind)
}

impl Story {
    pub(crate) fn told(text: &str) -> Self {
        let mut story = Self::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = Words(line.split_whitespace().collect());
            let (at, who, verb) = (ms(words.next()), words.next(), words.next());
            match who {
                "server" | "heir" | "s1" | "s2" | "s3" => story.server(at, who, verb, &mut words),
                _ => story.process(at, who, verb, &mut words),
            }
            assert!(words.0.is_empty(), "not understood: {:?} of {line}", words.0);
        }
        for log in &mut story.witness.logs {
            // Stable: effects of one moment are in the order in which they are told.
            log.effects.sort_by_key(|effect| effect.at);
        }
        story.witness.logs.sort_by_key(|log| (log.server.clone(), log.node == "heir"));
        story
    }

    pub(crate) fn judged(&self) -> Verdict {
        judge(&self.history, Some(&self.witness), &bounds())
    }

    fn happens(&mut self, at: Nanos, process: &str, what: What) {
        if !matches!(what, What::Begin { .. } | What::Heal { .. } | What::Start { .. })
            && !self.history.events.iter().any(|event| event.process == process)
        {
            let what =
                What::Start { client: Some(process.into()), redisson: false, policy: Policy::None };
            self.history.events.insert(0, Event { at: 0, process: process.into(), what });
        }
        self.history.events.push(Event { at, process: process.into(), what });
    }

    fn process(&mut self, at: Nanos, who: &str, verb: &str, words: &mut Words<'_>) {
        let mut invoke = |op, call| self.happens(at, who, What::Invoke { op, call });
        match verb {
            "asks" => {
                let guard = words.number();
                let rule = match () {
                    () if words.has("all") => Rule::All,
                    () if words.has("majority") => Rule::Majority,
                    () => Rule::One,
                };
                let kind = kind(words);
                let (owner, lease, wait) = (words.after("by"), words.ms("lease"), words.ms("wait"));
                let locks = words.next().split(',').map(|word| place(word, kind)).collect();
                let owner = owner.map(str::to_owned);
                return invoke(guard, Call::Acquire { guard, locks, rule, owner, lease, wait });
            }
            // The operations of a guard are numbered by it: its acquisition 1, its release 101 and so on.
            "unlocks" => {
                let guard = words.number();
                return invoke(100 + guard, Call::Unlock { guard });
            }
            "checks" => {
                let guard = words.number();
                return invoke(200 + guard, Call::Check { guard });
            }
            "writes" => {
                let guard = words.number();
                let (token, op) = (words.count("token"), words.count("op").unwrap_or(300 + guard));
                return invoke(op, Call::Use { guard, token });
            }
            "connects" => return invoke(words.number(), Call::Connect),
            "closes" => return invoke(words.number(), Call::Close),
            "forces" | "is_locked" | "inspects" | "remaining" | "token" => {
                let op = words.number();
                let kind = kind(words);
                let lock = place(words.next(), kind);
                return invoke(
                    op,
                    match verb {
                        "forces" => Call::Force { lock },
                        "is_locked" => Call::IsLocked { lock },
                        "inspects" => Call::Inspect { lock },
                        "remaining" => Call::Remaining { lock },
                        _ => Call::Token { lock },
                    },
                );
            }
            _ => {}
        }
        let what = match verb {
            "starts" => {
                let starts = |event: &Event| {
                    matches!(event.what, What::Start { .. }) && event.process == who
                };
                self.history.events.retain(|event| !starts(event));
                let redisson = words.has("redisson");
                let policy = if words.has("all") { Policy::All } else { Policy::None };
                What::Start { client: Some(who.into()), redisson, policy }
            }
            "has" => {
                let op = words.number();
                let call = self.history.events.iter().find_map(|event| match &event.what {
                    What::Invoke { op: number, call: Call::Acquire { locks, .. } }
                        if *number == op && event.process == who =>
                    {
                        Some(locks.len())
                    }
                    _ => None,
                });
                let id = words.after("id").map_or(format!("{who}:{op}"), str::to_owned);
                let of = words
                    .after("on")
                    .map(|on| on.split(',').map(|at| at.parse().unwrap()).collect());
                let places: Vec<usize> =
                    of.unwrap_or_else(|| (0..call.expect("has asked")).collect());
                let holds =
                    places.into_iter().map(|place| Held { place, id: id.clone() }).collect();
                let (token, count) =
                    (words.count("token"), words.count("count").unwrap_or(1) as u32);
                let acknowledged = words.count("acked").map(|by| by as u32);
                let remaining = words.ms("trust").unwrap_or(0);
                What::Answer {
                    op,
                    answer: Answer::Granted { holds, token, acknowledged, remaining, count },
                }
            }
            "refused" => What::Answer { op: words.number(), answer: Answer::Refused },
            "cuts" => What::Cut { op: words.number() },
            "idles" => What::Idle { op: words.number() },
            "polls" => What::Polled { op: words.number() },
            "fails" => {
                let op = words.number();
                let code = match words.next() {
                    "redis" => Code::Redis,
                    "would_deadlock" => Code::WouldDeadlock,
                    "wrong_kind" => Code::WrongKind,
                    word => panic!("{word} is no error"),
                };
                What::Answer { op, answer: Answer::Error { code } }
            }
            "unlocked" => What::Answer { op: 100 + words.number(), answer: Answer::Done },
            "checked" => What::Answer { op: 200 + words.number(), answer: Answer::Done },
            "done" => What::Answer { op: words.number(), answer: Answer::Done },
            "finds" => {
                let op = words.number();
                What::Answer { op, answer: Answer::NotHeld { why: loss(words.next()) } }
            }
            "stored" | "stale" => {
                let guard = words.number();
                let op = words.count("op").unwrap_or(300 + guard);
                What::Answer { op, answer: Answer::Used { accepted: verb == "stored" } }
            }
            "drops" => What::Drop { guard: words.number() },
            "trusts" => What::Renewed { guard: words.number(), remaining: ms(words.next()) },
            "joins" => {
                let guard = words.number();
                let place = words.number() as usize;
                What::Joined { guard, hold: Held { place, id: words.next().into() } }
            }
            "loses" => What::Lost { guard: words.number(), why: loss(words.next()) },
            "sleeps" => What::Pause,
            "wakes" => What::Resume,
            "dies" => What::End,
            "freed" => What::Answer {
                op: words.number(),
                answer: Answer::Freed { freed: words.number() == 1 },
            },
            "locked" => What::Answer {
                op: words.number(),
                answer: Answer::Locked { locked: words.number() == 1 },
            },
            "left" => {
                let (op, left) = (words.number(), words.next());
                let left = (left != "none").then(|| ms(left));
                What::Answer { op, answer: Answer::Remaining { left } }
            }
            "told" => {
                let op = words.number();
                What::Answer { op, answer: Answer::Token { token: words.count("token") } }
            }
            "sees" => {
                let op = words.number();
                let (holders, queue) = (words.after("holding"), words.after("queue"));
                let ids = |ids: Option<&str>| -> Vec<String> {
                    ids.into_iter().flat_map(|ids| ids.split(',')).map(str::to_owned).collect()
                };
                let count = words.count("count").unwrap_or(1) as u32;
                let holders = ids(holders).into_iter().map(|id| Seen { id, count }).collect();
                What::Answer { op, answer: Answer::State { holders, queue: ids(queue) } }
            }
            "begins" => {
                let fault = words.next().to_owned();
                let class = match words.next() {
                    "delay" => Fault::Delay,
                    "failover" => Fault::Failover,
                    "partition" => Fault::Partition,
                    "data" => Fault::Data,
                    "clock" => Fault::Clock,
                    word => panic!("{word} is no class of faults"),
                };
                What::Begin { fault, class, target: "server".into() }
            }
            "heals" => What::Heal { fault: words.next().into() },
            _ => panic!("nobody {verb}"),
        };
        self.happens(at, who, what);
    }

    fn log(&mut self, node: &str) -> &mut Log {
        let server = if node.starts_with('s') && node != "server" { node } else { "" };
        let logs = &mut self.witness.logs;
        if !logs.iter().any(|log| log.node == node) {
            let reign = Reign { from: 0, until: None };
            let (server, node) = (server.to_owned(), node.to_owned());
            logs.push(Log { server, node, reign, synced: Vec::new(), effects: Vec::new() });
        }
        logs.iter_mut().find(|log| log.node == node).expect("was pushed")
    }

    fn server(&mut self, at: Nanos, who: &str, verb: &str, words: &mut Words<'_>) {
        let log = self.log(who);
        match verb {
            "reigns" => return log.reign.from = at,
            "ends" => return log.reign.until = Some(at),
            "follows" => {
                let until = words.ms("until");
                return log.synced.push(Reign { from: at, until });
            }
            "leaves" => {
                let (server, key) = (log.server.clone(), words.next().to_owned());
                return self.witness.left.push(Left { server, key });
            }
            _ => {}
        }
        let lock = words.after("of").unwrap_or("shop").to_owned();
        let mode = match kind(words) {
            Kind::Read => Mode::Read,
            Kind::Write => Mode::Write,
            _ => Mode::Whole,
        };
        let (until, token) = (words.ms("until").unwrap_or(at + 300 * MS), words.count("token"));
        let by = words.after("by");
        let deed = match verb {
            "loses_counter" => Deed::CounterLost,
            "spoils" => Deed::Spoilt,
            _ => {
                let id = words.next().to_owned();
                match verb {
                    "grants" => Deed::Granted { id, mode, until, token },
                    "counts" => Deed::Counted { id, count: words.number() as u32 },
                    "renews" => Deed::Renewed { id, until },
                    "releases" => Deed::Released { id },
                    "expires" => Deed::Expired { id },
                    "removes" => Deed::Removed { id, by: taker(by.unwrap_or("operator")) },
                    "pushes" => Deed::Pushed { id },
                    "pops" => Deed::Popped { id, why: Leave::Granted },
                    "gives_up" => Deed::Popped { id, why: Leave::GaveUp },
                    "drops" => Deed::Popped { id, why: Leave::Dropped },
                    _ => panic!("no server {verb}"),
                }
            }
        };
        self.log(who).effects.push(Effect { at, server_ms: None, lock, deed });
    }
}

fn taker(word: &str) -> Taker {
    match word {
        "force" => Taker::Force,
        "operator" => Taker::Operator,
        "eviction" => Taker::Eviction,
        "restart" => Taker::Restart,
        _ => panic!("{word} takes nothing"),
    }
}

fn code(check: Check) -> String {
    let name = check.to_string();
    name.split(' ').next().unwrap().to_owned()
}

fn length(nanos: Nanos) -> String {
    let part = format!("{:06}", nanos % MS);
    let part = part.trim_end_matches('0');
    if part.is_empty() { format!("{}", nanos / MS) } else { format!("{}.{part}", nanos / MS) }
}

fn findings(verdict: &Verdict) -> Vec<String> {
    let short = |class: judge::Class| class.to_string()[..2].to_owned();
    let finding = |finding: &judge::Finding| {
        let rating = match finding.rating {
            Rating::Violation => "broken".to_owned(),
            Rating::Beyond(class) => format!("beyond {}", short(class)),
            Rating::Within(class) => format!("within {}", short(class)),
        };
        format!(
            "{} {rating} at {} for {}",
            code(finding.check),
            length(finding.at),
            length(finding.length)
        )
    };
    verdict.findings.iter().map(finding).collect()
}

/// What the judge finds in the story.
pub(crate) fn found(text: &str) -> Vec<String> {
    let verdict = Story::told(text).judged();
    println!("{verdict}");
    findings(&verdict)
}

/// The same, without a witness.
pub(crate) fn found_blindly(text: &str) -> Vec<String> {
    let verdict = judge(&Story::told(text).history, None, &bounds());
    println!("{verdict}");
    findings(&verdict)
}

/// The same, with other bounds.
pub(crate) fn found_with(text: &str, change: impl FnOnce(&mut Bounds)) -> Vec<String> {
    let (story, mut bounds) = (Story::told(text), bounds());
    change(&mut bounds);
    findings(&judge(&story.history, Some(&story.witness), &bounds))
}

pub(crate) const NOTHING: [&str; 0] = [];
