//! Faults: which there are, and when they begin and end.

mod fault;
mod network;
mod process;
mod server;
mod topology;

use std::time::Duration;

use fastrand::Rng;
use judge::Fault as Class;
use tokio::time::{Instant, sleep_until};

use crate::options::Topology;
use crate::world::World;
use fault::{Family, Fault, On, Target};

/// How long it is looked whether all servers are well.
const GLANCE: Duration = Duration::from_millis(5);
/// How long they may take to be so when all faults have ended.
const RECOVERY: Duration = Duration::from_secs(25);

/// One that lasts.
struct Lasting {
    fault: Fault,
    target: Target,
    name: String,
    until: Instant,
}

fn all() -> impl Iterator<Item = Fault> {
    let families = [process::FAULTS, network::FAULTS, server::FAULTS, topology::FAULTS];
    families.into_iter().flatten().copied()
}

pub(crate) fn knows(name: &str) -> bool {
    all().any(|fault| fault.is(name))
}

pub(crate) fn names() -> String {
    let names: Vec<_> = all().map(|fault| fault.name).collect();
    names.join(", ")
}

/// The names of the faults of a round: those that were asked for, or each with a chance of a half.
pub(crate) fn chosen(topology: Topology, asked: &[String], seed: u64) -> Vec<String> {
    let mut rng = Rng::with_seed(seed ^ 0x6661_756c);
    let mut names: Vec<String> = all()
        .filter(|fault| fault.fits(topology))
        .filter(|fault| {
            let by_chance = rng.bool();
            if asked.is_empty() { by_chance } else { asked.iter().any(|name| fault.is(name)) }
        })
        .map(|fault| fault.name.to_owned())
        .collect();
    names.sort_unstable();
    names
}

impl Fault {
    fn is(&self, name: &str) -> bool {
        self.name == name || format!("{:?}", self.family).to_lowercase() == name
    }

    fn fits(&self, topology: Topology) -> bool {
        let alone = topology == Topology::Single;
        match (self.family, self.on) {
            (Family::Network, _) => matches!(topology, Topology::Single | Topology::Replicated),
            (_, On::Alone) => alone,
            (_, On::Heirs) => matches!(topology, Topology::Sentinel | Topology::Cluster),
            (_, On::Member | On::Master) => true,
        }
    }

    /// Whether it may cost data.
    fn is_big(&self) -> bool {
        self.class != Class::Delay
    }

    fn length(&self, rng: &mut Rng) -> Option<Duration> {
        let longest = self.longest?;
        let exponent = rng.f64() * (longest.as_millis() as f64).ln();
        Some(Duration::from_micros((exponent.exp() * 1000.0) as u64))
    }

    async fn begin(
        &self,
        target: Target,
        length: Option<Duration>,
        world: &mut World,
        rng: &mut Rng,
    ) {
        match (self.family, target) {
            (Family::Process, _) => process::begin(self.name, target, world).await,
            (Family::Network, Target::Member(member)) => {
                network::begin(self.name, member, world, rng);
            }
            (Family::Server, Target::Server(node)) => {
                server::begin(self.name, node, length.unwrap_or_default(), world, rng);
            }
            (Family::Topology, Target::Server(node)) => topology::begin(self.name, node, world),
            _ => unreachable!("{} on {target}", self.name),
        }
    }

    async fn end(&self, target: Target, world: &mut World) {
        match (self.family, target) {
            (Family::Process, _) => process::end(self.name, target, world).await,
            (Family::Network, Target::Member(member)) => network::end(member, world),
            (Family::Server, Target::Server(node)) => server::end(self.name, node, world),
            (Family::Topology, Target::Server(node)) => topology::end(self.name, node, world),
            _ => unreachable!("{} on {target}", self.name),
        }
    }
}

/// Begins and ends faults for so long; at its end all are ended. How many there were of each.
pub(crate) async fn rage(world: &mut World, time: Duration, rng: &mut Rng) -> Vec<(String, usize)> {
    let over = Instant::now() + time;
    let pace = world.options.pace_ms;
    let known: Vec<Fault> =
        all().filter(|fault| world.options.faults.iter().any(|name| name == fault.name)).collect();
    let mut counts: Vec<(String, usize)> =
        known.iter().map(|fault| (fault.name.to_owned(), 0)).collect();
    let mut lasting: Vec<Lasting> = Vec::new();
    let mut next = Instant::now();
    while !known.is_empty() {
        let first_end = lasting.iter().map(|one| one.until).min();
        let wake = first_end.map_or(next, |end| end.min(next)).min(over);
        sleep_until(wake).await;
        let now = Instant::now();
        if now >= over {
            break;
        }
        end_where(&mut lasting, world, |one| one.until <= now).await;
        if now < next {
            continue;
        }
        next = now + Duration::from_millis(rng.u64(pace / 2..=pace * 3 / 2));
        let which = rng.usize(0..known.len());
        let fault = known[which];
        let is_second = fault.is_big() && lasting.iter().any(|one| one.fault.is_big());
        let target = target_of(fault, world, &lasting, rng).await;
        let Some(target) = target.filter(|_| !is_second) else {
            continue;
        };
        counts[which].1 += 1;
        let length = fault.length(rng);
        let name = world.journal.begin(fault.name, fault.class, &target.to_string());
        fault.begin(target, length, world, rng).await;
        match length {
            Some(length) => {
                lasting.push(Lasting { fault, target, name, until: Instant::now() + length });
            }
            None => world.journal.heal(name),
        }
    }
    end_where(&mut lasting, world, |_| true).await;
    if !world.stage.settled(RECOVERY).await {
        eprintln!("the servers do not all know each other {RECOVERY:?} after the last fault");
    }
    counts
}

/// One that is well.
async fn target_of(
    fault: Fault,
    world: &World,
    lasting: &[Lasting],
    rng: &mut Rng,
) -> Option<Target> {
    let targets: Vec<Target> = match fault.on {
        On::Member => (0..world.members.len())
            .filter(|member| world.members[*member].is_alive())
            .map(Target::Member)
            .collect(),
        // What the servers say while one of them is not well is not to be relied on.
        _ if lasting.iter().any(|one| matches!(one.target, Target::Server(_))) => Vec::new(),
        _ if !world.stage.settled(GLANCE).await => Vec::new(),
        _ => world.stage.masters().into_iter().map(Target::Server).collect(),
    };
    let well: Vec<_> = targets
        .into_iter()
        .filter(|target| lasting.iter().all(|one| one.target != *target))
        .collect();
    (!well.is_empty()).then(|| well[rng.usize(0..well.len())])
}

async fn end_where(
    lasting: &mut Vec<Lasting>,
    world: &mut World,
    is_due: impl Fn(&Lasting) -> bool,
) {
    for one in std::mem::take(lasting) {
        if is_due(&one) {
            one.fault.end(one.target, world).await;
            world.journal.heal(one.name);
        } else {
            lasting.push(one);
        }
    }
}
