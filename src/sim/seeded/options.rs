//! [`Options`]: what a run is like. Each fault is on with a probability of one half.

use std::time::Duration;

use fastrand::Rng;

use super::{super::ms, kind::Kind};
use crate::Replicas;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Slow,
    LoseRequests,
    LoseReplies,
    Late,
    LoseMessages,
    Break,
    Cut,
    Freeze,
    Gap,
    Deaf,
    Restart,
    LoseData,
    FailOver,
    StepClock,
    Refuse,
    /// No memory is left. It refuses what may need more: no renewal and no release.
    Full,
    ForgetScripts,
    Evict,
    Flush,
    Block,
    Kill,
    Close,
    /// The callers' futures are dropped, all at once.
    EndRuntime,
    /// The replica hears nothing.
    Unreplicated,
}

impl Fault {
    const EACH: [Self; 24] = [
        Self::Slow,
        Self::LoseRequests,
        Self::LoseReplies,
        Self::Late,
        Self::LoseMessages,
        Self::Break,
        Self::Cut,
        Self::Freeze,
        Self::Gap,
        Self::Deaf,
        Self::Restart,
        Self::LoseData,
        Self::FailOver,
        Self::StepClock,
        Self::Refuse,
        Self::Full,
        Self::ForgetScripts,
        Self::Evict,
        Self::Flush,
        Self::Block,
        Self::Kill,
        Self::Close,
        Self::EndRuntime,
        Self::Unreplicated,
    ];

    /// How often it happens at most in a run.
    pub(super) fn most(self) -> usize {
        match self {
            Self::Kill | Self::Flush | Self::Close | Self::EndRuntime => 1,
            Self::LoseData | Self::FailOver | Self::StepClock | Self::Block => 2,
            _ => 5,
        }
    }

    /// Whether it ends a client, which takes part in no later burst.
    pub(super) fn ends_client(self) -> bool {
        matches!(self, Self::Kill | Self::Close)
    }

    /// Whether it costs no hold that is renewed.
    pub(super) fn is_harmless(self) -> bool {
        matches!(
            self,
            Self::LoseMessages
                | Self::Gap
                | Self::Deaf
                | Self::ForgetScripts
                | Self::Full
                | Self::EndRuntime
                | Self::Unreplicated
        )
    }

    /// Whether whoever it concerns is told of it at once.
    pub(super) fn is_noticed(self) -> bool {
        matches!(self, Self::Gap | Self::ForgetScripts | Self::EndRuntime | Self::Unreplicated)
    }

    /// Whether it may take from a server what it has granted.
    fn takes_state(self) -> bool {
        matches!(
            self,
            Self::LoseData | Self::FailOver | Self::StepClock | Self::Evict | Self::Flush
        )
    }
}

#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) clients: usize,
    /// Of each client, at most.
    pub(super) tasks: usize,
    pub(super) operations: usize,
    pub(super) servers: usize,
    /// The servers are masters of one cluster.
    pub(super) cluster: bool,
    pub(super) names: usize,
    pub(super) kinds: Vec<Kind>,
    pub(super) faults: Vec<Fault>,
    pub(super) watchdog: Duration,
    pub(super) command_timeout: Duration,
    pub(super) retry_timeout: Duration,
    pub(super) fair_wait: Duration,
    pub(super) reuse_holds: bool,
    /// How many replicas each client asks to confirm its holds.
    pub(super) replicas: Vec<Replicas>,
    /// How often things go wrong for a while, and are healed.
    pub(super) bursts: usize,
    /// All want the same lock, and hold it for a moment.
    pub(super) crowd: bool,
    /// Each client has a lock of its own. Nobody but its own tasks is ever in its way.
    pub(super) apart: bool,
    /// Some holds that are renewed last longer than a lease.
    pub(super) lingers: bool,
    pub(super) leases: bool,
    pub(super) owners: bool,
    /// Some owners give back a guard while they enter its hold again.
    pub(super) overlaps: bool,
    pub(super) cuts: bool,
    pub(super) unpolled: bool,
    pub(super) force: bool,
    /// Whether most pauses are short.
    pub(super) hurried: bool,
    /// Callers do not pause between their operations: never, each other time, or always.
    pub(super) restless: u32,
    /// The longest lease that callers ask for.
    pub(super) lease: Duration,
    /// How long things go wrong.
    pub(super) traffic: Duration,
}

impl Options {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let mut kinds: Vec<_> = Kind::EACH.into_iter().filter(|_| rng.u32(0..4) == 0).collect();
        if kinds.is_empty() {
            kinds.push(Kind::EACH[rng.usize(0..Kind::EACH.len())]);
        }
        let several = kinds.iter().any(|kind| matches!(kind, Kind::All | Kind::Majority));
        // What is taken away excuses much, so half of the runs take nothing.
        let takes_state = rng.bool();
        // In a calm no hold may be lost.
        let calm = rng.u32(0..6) == 0;
        let may = |fault: &Fault| match calm {
            true => fault.is_harmless(),
            false => takes_state || !fault.takes_state(),
        };
        // And in some runs nothing goes wrong but callers.
        let quiet = rng.u32(0..10) == 0;
        let mut faults: Vec<_> =
            Fault::EACH.into_iter().filter(|fault| rng.bool() && may(fault) && !quiet).collect();
        // In half of the calms each end of a connection is noticed, so that it may be felt for a moment only.
        if calm && !quiet && rng.bool() {
            faults.retain(|fault| fault.is_noticed());
            if !faults.contains(&Fault::Gap) {
                faults.push(Fault::Gap);
            }
        }
        let clients = rng.usize(2..=4);
        let asks_replicas = rng.u32(0..4) == 0;
        let cluster = !several && rng.u32(0..6) == 0;
        let crowd = rng.u32(0..8) == 0;
        let apart = rng.u32(0..5) == 0;
        Self {
            clients,
            tasks: rng.usize(1..=8),
            operations: rng.usize(1..=6),
            servers: match () {
                () if several => 3,
                () if cluster => 2,
                () => 1,
            },
            cluster,
            names: match () {
                () if apart => clients,
                () if cluster => 2,
                () if crowd => 1,
                () => rng.usize(1..=2),
            },
            kinds,
            replicas: (0..clients)
                .map(|_| match rng.u32(0..4) {
                    _ if !asks_replicas => Replicas::None,
                    0 => Replicas::None,
                    1 => Replicas::AtLeast(1),
                    2 => Replicas::OneOfAll,
                    _ => Replicas::All,
                })
                .collect(),
            bursts: if rng.u32(0..5) == 0 { rng.usize(2..=3) } else { 1 },
            crowd,
            apart,
            lingers: rng.u32(0..3) == 0 || quiet,
            faults,
            // A hold that nobody undoes is there for long, or is soon taken by the next.
            watchdog: ms(if rng.bool() { rng.u64(1_000..6_000) } else { rng.u64(15_000..60_000) }),
            command_timeout: ms(rng.u64(100..3_000)),
            retry_timeout: ms(rng.u64(500..10_000)),
            fair_wait: ms(rng.u64(1_000..10_000)),
            reuse_holds: rng.u32(0..4) > 0,
            leases: rng.bool(),
            owners: rng.bool(),
            overlaps: rng.bool(),
            cuts: rng.bool(),
            unpolled: rng.bool(),
            force: takes_state && !calm && rng.bool(),
            hurried: rng.bool(),
            restless: [0, 0, 1, 2][rng.usize(0..4)],
            lease: ms(if rng.bool() { 5_000 } else { 60_000 }),
            traffic: ms(rng.u64(1_000..20_000)),
        }
    }
}

/// Between 1 and `most`, as often below the root of it as above.
pub(super) fn spread(rng: &mut Rng, most: u64) -> Duration {
    let exponent = rng.f64() * (most as f64).ln();
    ms(exponent.exp() as u64)
}
