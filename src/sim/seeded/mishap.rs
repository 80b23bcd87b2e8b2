//! [`Mishap`]: something that goes wrong, and how it is drawn.

use std::time::Duration;

use fastrand::Rng;
use redis_in_process::Refusal;

use super::{
    super::ms,
    link::{Rest, Weather},
    options::{Fault, Options, spread},
};

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
        /// Whether its master knew that it was behind.
        gone: bool,
    },
    /// The replica hears nothing, or is not there.
    Unreplicated {
        server: usize,
        gone: bool,
        lasts: Duration,
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
    /// So many times, every so often.
    Evict {
        server: usize,
        key: String,
        times: u32,
        every: Duration,
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
    /// The futures of its callers are dropped.
    EndRuntime {
        client: usize,
    },
}

impl What {
    /// Whether it costs no hold that is renewed.
    pub(super) fn is_harmless(&self) -> bool {
        match self {
            Self::Weather { weather, .. } => {
                let lose_message = weather.lose_message;
                *weather == Weather { lose_message, ..Weather::default() }
            }
            Self::Refuse { why, .. } => *why == Refusal::OutOfMemory,
            Self::Gap { .. } | Self::Deaf { .. } | Self::ForgetScripts { .. } => true,
            Self::EndRuntime { .. } | Self::Unreplicated { .. } => true,
            _ => false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Data {
    None,
    All,
    Old(Duration),
}

pub(super) fn mishap(fault: Fault, options: &Options, rng: &mut Rng) -> Mishap {
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
            let (lasts, behind) = (spread(rng, 1_000), spread(rng, 1_000));
            What::FailOver { server, lasts, behind, gone: rng.bool() }
        }
        Fault::StepClock => {
            let by = spread(rng, 60_000).as_millis() as i64;
            What::StepClock { server, by_ms: if rng.bool() { by } else { -by } }
        }
        Fault::Refuse => {
            let why = *rng
                .choice(&[
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
            let (times, every) = match options.crowd {
                true => (rng.u32(1..50), ms(rng.u64(1..10))),
                false => (1, ms(0)),
            };
            What::Evict { server, key, times, every }
        }
        Fault::Flush => What::Flush { server },
        Fault::Block => What::Block { lasts: spread(rng, 8_000) },
        Fault::Kill => What::Kill { client },
        Fault::Close => What::Close { client },
        Fault::EndRuntime => What::EndRuntime { client },
        Fault::Unreplicated => What::Unreplicated { server, gone: rng.bool(), lasts },
        Fault::Full => What::Refuse { server, why: Refusal::OutOfMemory, lasts },
    };
    Mishap { at, what }
}
