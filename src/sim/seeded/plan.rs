//! [`Plan`]: all of a run, drawn from its seed. A part can be left out, and the rest stays.

use std::time::Duration;

use fastrand::Rng;

use super::{
    super::ms,
    cluster::master_of,
    kind::Kind,
    mishap::{Mishap, mishap},
    options::{Options, spread},
};

#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) options: Options,
    pub(super) bursts: Vec<Burst>,
}

/// For a while things go wrong. Then all is healed.
#[derive(Clone, Debug)]
pub(super) struct Burst {
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
    pub(super) overlap: Option<Overlap>,
    /// It is such a re-entry.
    pub(super) inner: bool,
    /// No replica is to confirm it.
    pub(super) unconfirmed: bool,
    pub(super) end: End,
    pub(super) ask: Option<Question>,
}

/// The guard is given back while its owner enters its hold again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overlap {
    /// The re-entry begins so long after the grant.
    pub(super) begins: Duration,
    /// The guard is given back so long after that.
    pub(super) ends: Duration,
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

impl Plan {
    pub(super) fn draw(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let options = Options::draw(&mut rng);
        let bursts =
            (0..options.bursts).map(|burst| Burst::draw(&options, burst, &mut rng)).collect();
        Self { seed, options, bursts }
    }

    pub(super) fn mishaps(&self) -> impl Iterator<Item = &Mishap> {
        self.bursts.iter().flat_map(|burst| &burst.mishaps)
    }

    /// How many parts it has that can be left out.
    pub(super) fn size(&self) -> usize {
        let sizes = self.bursts.iter().map(|Burst { tasks, mishaps }| {
            let operations: usize = tasks.iter().map(|task| task.operations.len()).sum();
            operations + tasks.len() + mishaps.len()
        });
        sizes.sum()
    }
}

impl Burst {
    fn draw(options: &Options, number: usize, rng: &mut Rng) -> Self {
        let mut tasks = Vec::new();
        for client in 0..options.clients {
            for _ in 0..rng.usize(1..=options.tasks) {
                let count = rng.usize(1..=options.operations);
                let operations = (0..count).map(|_| operation(client, options, rng)).collect();
                tasks.push(TaskPlan { client, operations });
            }
        }
        let is_last = number + 1 == options.bursts;
        let faults = options.faults.iter().filter(|fault| is_last || !fault.ends_client());
        let mut mishaps: Vec<_> = faults
            .flat_map(|&fault| {
                let count = rng.usize(1..=fault.most());
                (0..count).map(|_| mishap(fault, options, rng)).collect::<Vec<_>>()
            })
            .collect();
        mishaps.sort_by_key(|mishap| mishap.at);
        Self { tasks, mishaps }
    }
}

fn operation(client: usize, options: &Options, rng: &mut Rng) -> Operation {
    let kind = *rng.choice(&options.kinds).expect("one at least");
    let traffic = options.traffic.as_millis() as u64;
    let maybe = |rng: &mut Rng, of: u32| rng.u32(0..of) == 0;
    let longest_lease = options.lease.as_millis() as u64;
    let longest = match options.crowd {
        true => 4,
        false if maybe(rng, 5) => 8_000,
        false => 200,
    };
    // Where nothing else goes wrong, whatever expires should have been renewed.
    let lingering = if options.faults.is_empty() { 3 } else { 10 };
    let wait = maybe(rng, 2).then(|| if maybe(rng, 3) { ms(0) } else { spread(rng, 6_000) });
    // Servers of a majority may take a quarter of it, also where replicas are asked.
    let shortest = if kind == Kind::Majority { ms(100) } else { ms(20) };
    let lease = (options.leases && maybe(rng, 3))
        .then(|| (ms(20) + spread(rng, longest_lease)).max(shortest));
    let name = if options.apart { client } else { rng.usize(0..options.names) };
    let server = rng.usize(0..options.servers);
    Operation {
        pause: match options.hurried {
            _ if rng.u32(0..2) < options.restless => Duration::ZERO,
            _ if options.crowd => spread(rng, 20),
            true => spread(rng, traffic / 4),
            false => ms(rng.u64(0..traffic / 3)),
        },
        kind,
        name,
        server: if options.cluster { master_of(&kind.name(name), options.servers) } else { server },
        wait,
        lease,
        cut: (options.cuts && maybe(rng, 4)).then(|| spread(rng, 2_000)),
        unpolled: (options.unpolled && maybe(rng, 6)).then(|| spread(rng, 20_000)),
        // Some leases are over just when their holder is done.
        hold: match lease {
            Some(lease) if lease < ms(8_000) && maybe(rng, 3) => {
                lease.mul_f64(0.9 + rng.f64() / 10.0)
            }
            None if options.lingers && options.watchdog < ms(8_000) && maybe(rng, lingering) => {
                options.watchdog.mul_f64(1.0 + rng.f64())
            }
            _ => spread(rng, longest),
        },
        asleep: maybe(rng, 6),
        again: (options.owners && maybe(rng, 2)).then(|| match kind {
            Kind::Write | Kind::Read => *rng.choice(&[Kind::Write, Kind::Read]).unwrap(),
            kind => kind,
        }),
        // Some re-entries are under way just when the lease is over.
        overlap: (options.owners && options.overlaps && maybe(rng, 2)).then(|| Overlap {
            begins: match lease {
                Some(lease) if lease < ms(8_000) && maybe(rng, 2) => {
                    lease.mul_f64(0.99).saturating_sub(spread(rng, 20))
                }
                _ => spread(rng, longest),
            },
            ends: spread(rng, 20),
        }),
        inner: false,
        // A fenced lock has no handle of another policy here, and several locks have none.
        unconfirmed: maybe(rng, 4) && !matches!(kind, Kind::Fenced | Kind::All | Kind::Majority),
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
