//! [`Plan`]: all of a run, drawn from its seed. A part can be left out, and the rest stays.

use std::time::Duration;

use fastrand::Rng;
use redis_in_process::Refusal;

use super::{
    kind::Kind,
    link::{Rest, Weather},
    options::{Fault, Options, ms, spread},
};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) options: Options,
    pub(super) tasks: Vec<TaskPlan>,
    pub(super) mishaps: Vec<Mishap>,
}

/// What one task of a client does.
#[derive(Clone, Debug)]
pub(super) struct TaskPlan {
    pub(super) client: usize,
    pub(super) operations: Vec<Operation>,
}

/// One acquisition and what follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) pause: Duration,
    pub(super) kind: Kind,
    pub(super) name: usize,
    pub(super) server: usize,
    /// `None`: as long as it takes.
    pub(super) wait: Option<Duration>,
    pub(super) lease: Option<Duration>,
    /// After so long its future is dropped.
    pub(super) cut: Option<Duration>,
    /// Polled once, and then not for so long.
    pub(super) unpolled: Option<Duration>,
    pub(super) hold: Duration,
    /// Goes on holding it after it is lost.
    pub(super) asleep: bool,
    pub(super) again: Option<Kind>,
    pub(super) end: End,
    pub(super) ask: Option<Question>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Unlock,
    Drop,
    /// The future of the release is dropped after so long.
    CutUnlock(Duration),
    Panic,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    IsLocked,
    Inspect,
    Remaining,
    Check,
    Force,
}

/// Something that goes wrong at a moment.
#[derive(Clone, Debug)]
pub(super) struct Mishap {
    pub(super) at: Duration,
    pub(super) what: What,
}

#[derive(Clone, Debug)]
pub(super) enum What {
    Weather {
        client: usize,
        server: usize,
        weather: Weather,
        lasts: Duration,
    },
    Break {
        client: usize,
        server: usize,
        rest: Rest,
    },
    Cut {
        client: usize,
        server: usize,
        rest: Rest,
        lasts: Duration,
    },
    Freeze {
        client: usize,
        server: usize,
        requests: bool,
        replies: bool,
        lasts: Duration,
    },
    Gap {
        client: usize,
        server: usize,
    },
    Deaf {
        client: usize,
        server: usize,
    },
    /// With no data, or with that of so long ago.
    Restart {
        server: usize,
        lasts: Duration,
        data: Data,
    },
    /// Another server, which is behind by so much, takes its place.
    FailOver {
        server: usize,
        lasts: Duration,
        behind: Duration,
    },
    StepClock {
        server: usize,
        by_ms: i64,
    },
    Refuse {
        server: usize,
        why: Refusal,
        lasts: Duration,
    },
    ForgetScripts {
        server: usize,
    },
    Evict {
        server: usize,
        key: String,
    },
    Flush {
        server: usize,
    },
    /// Nobody is polled.
    Block {
        lasts: Duration,
    },
    /// The process is gone.
    Kill {
        client: usize,
    },
    Close {
        client: usize,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    None,
    All,
    Old(Duration),
}

impl Plan {
    pub(super) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let options = Options::draw(&mut rng);
        let mut tasks = Vec::new();
        for client in 0..options.clients {
            for _ in 0..rng.usize(1..=options.tasks) {
                let count = rng.usize(1..=options.operations);
                let operations = (0..count).map(|_| operation(&options, &mut rng)).collect();
                tasks.push(TaskPlan { client, operations });
            }
        }
        let mut mishaps: Vec<_> = options
            .faults
            .iter()
            .flat_map(|&fault| {
                let count = rng.usize(1..=fault.most());
                (0..count).map(|_| mishap(fault, &options, &mut rng)).collect::<Vec<_>>()
            })
            .collect();
        mishaps.sort_by_key(|mishap| mishap.at);
        Self { seed, options, tasks, mishaps }
    }

    /// How many parts it has that can be left out.
    pub(super) fn size(&self) -> usize {
        let operations: usize = self.tasks.iter().map(|task| task.operations.len()).sum();
        operations + self.tasks.len() + self.mishaps.len()
    }
}

fn operation(options: &Options, rng: &mut Rng) -> Operation {
    let kind = *rng.choice(&options.kinds).expect("one at least");
    let traffic = options.traffic.as_millis() as u64;
    let maybe = |rng: &mut Rng, of: u32| rng.u32(0..of) == 0;
    let longest_lease = options.lease.as_millis() as u64;
    let longest = if maybe(rng, 5) { 8_000 } else { 200 };
    let wait = maybe(rng, 2).then(|| if maybe(rng, 3) { ms(0) } else { spread(rng, 6_000) });
    let lease = (options.leases && maybe(rng, 3)).then(|| ms(20) + spread(rng, longest_lease));
    Operation {
        pause: match options.hurried {
            true => spread(rng, traffic / 4),
            false => ms(rng.u64(0..traffic / 3)),
        },
        kind,
        name: rng.usize(0..options.names),
        server: rng.usize(0..options.servers),
        wait,
        lease,
        cut: (options.cuts && maybe(rng, 4)).then(|| spread(rng, 2_000)),
        unpolled: (options.unpolled && maybe(rng, 6)).then(|| spread(rng, 6_000)),
        hold: spread(rng, longest),
        asleep: maybe(rng, 6),
        again: (options.owners && maybe(rng, 3)).then(|| match kind {
            Kind::Write | Kind::Read => *rng.choice(&[Kind::Write, Kind::Read]).unwrap(),
            kind => kind,
        }),
        end: match rng.u32(0..8) {
            0 => End::Drop,
            1 if options.cuts => End::CutUnlock(spread(rng, 200)),
            2 => End::Panic,
            _ => End::Unlock,
        },
        ask: maybe(rng, 8).then(|| {
            let most = if options.force { 5 } else { 4 };
            [
                Question::IsLocked,
                Question::Inspect,
                Question::Remaining,
                Question::Check,
                Question::Force,
            ][rng.usize(0..most)]
        }),
    }
}

fn mishap(fault: Fault, options: &Options, rng: &mut Rng) -> Mishap {
    let traffic = options.traffic.as_millis() as u64;
    let at = ms(rng.u64(0..traffic));
    let (client, server) = (rng.usize(0..options.clients), rng.usize(0..options.servers));
    let lasts = spread(rng, traffic);
    let rest = |rng: &mut Rng| match rng.bool() {
        true => Rest::Lost,
        false => Rest::Runs(spread(rng, 3 * options.command_timeout.as_millis() as u64)),
    };
    let rate = |rng: &mut Rng| [10, 50, 200, 400][rng.usize(0..4)];
    let weather = |weather| What::Weather { client, server, weather, lasts };
    let what = match fault {
        Fault::Slow => {
            let slow = spread(rng, 2 * options.command_timeout.as_millis() as u64);
            weather(Weather { slow, ..Weather::default() })
        }
        Fault::LoseRequests => weather(Weather { lose_request: rate(rng), ..Weather::default() }),
        Fault::LoseReplies => weather(Weather { lose_reply: rate(rng), ..Weather::default() }),
        Fault::Late => {
            let late_by = spread(rng, 3 * options.command_timeout.as_millis() as u64);
            weather(Weather { late: rate(rng), late_by, ..Weather::default() })
        }
        Fault::LoseMessages => weather(Weather { lose_message: 500, ..Weather::default() }),
        Fault::Break => What::Break { client, server, rest: rest(rng) },
        Fault::Cut => What::Cut { client, server, rest: rest(rng), lasts },
        Fault::Freeze => {
            let (requests, replies) =
                *rng.choice(&[(true, true), (true, false), (false, true)]).unwrap();
            What::Freeze { client, server, requests, replies, lasts }
        }
        Fault::Gap => What::Gap { client, server },
        Fault::Deaf => What::Deaf { client, server },
        Fault::Restart => What::Restart { server, lasts: spread(rng, 2_000), data: Data::All },
        Fault::LoseData => {
            let old = Data::Old(spread(rng, 3_000));
            let data = *rng.choice(&[Data::None, old]).unwrap();
            What::Restart { server, lasts: spread(rng, 2_000), data }
        }
        Fault::FailOver => {
            What::FailOver { server, lasts: spread(rng, 1_000), behind: spread(rng, 1_000) }
        }
        Fault::StepClock => {
            let by = spread(rng, 60_000).as_millis() as i64;
            What::StepClock { server, by_ms: if rng.bool() { by } else { -by } }
        }
        Fault::Refuse => {
            let why = *rng
                .choice(&[
                    Refusal::OutOfMemory,
                    Refusal::Misconfigured,
                    Refusal::ReadOnly,
                    Refusal::Busy,
                    Refusal::Loading,
                    Refusal::NoReplicas,
                    Refusal::MasterDown,
                ])
                .unwrap();
            What::Refuse { server, why, lasts }
        }
        Fault::ForgetScripts => What::ForgetScripts { server },
        Fault::Evict => {
            let kind = *rng.choice(&options.kinds).unwrap();
            let key = kind.name(rng.usize(0..options.names));
            What::Evict { server, key }
        }
        Fault::Flush => What::Flush { server },
        Fault::Block => What::Block { lasts: spread(rng, 8_000) },
        Fault::Kill => What::Kill { client },
        Fault::Close => What::Close { client },
    };
    Mishap { at, what }
}
