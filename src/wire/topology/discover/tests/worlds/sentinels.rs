//! [`Truth`]: two deployments of sentinels whose masters have the same name, as Redis has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use fastrand::Rng;
use tokio::time::Instant;

use crate::wire::deployment::Address;

/// The client's own deployment, and the other one.
pub(super) const OWN: usize = 0;
pub(super) const OTHER: usize = 1;

/// The servers of each deployment, of which one is the master.
const SERVERS: u16 = 3;

pub(super) struct Truth {
    /// At the address of each place there is one sentinel.
    pub(super) sentinels: Vec<Sentinel>,
    /// Where each is, or was.
    pub(super) places: BTreeMap<char, usize>,
    /// The ports of the masters.
    pub(super) masters: [u16; 2],
    /// Who has answered the client since it asked, and what it said.
    pub(super) heard: Vec<(usize, Sentinel)>,
    /// Nothing is wrong, and from then on the client follows the master.
    pub(super) due: Option<Instant>,
    begun: Instant,
    /// What has happened, and when.
    pub(super) lines: Vec<String>,
}

/// One sentinel.
#[derive(Clone)]
pub(super) struct Sentinel {
    pub(super) id: char,
    pub(super) of: usize,
    /// Those that it lists.
    pub(super) peers: BTreeSet<char>,
    pub(super) epoch: u64,
    pub(super) master: u16,
    /// It leads a failover to this one.
    pub(super) heir: Option<u16>,
    /// Whether it hears nothing of its peers.
    pub(super) is_cut_off: bool,
    /// For how many seconds it does so, because it connects again.
    connects: u8,
    /// Whether the client hears nothing of it.
    pub(super) is_silent: bool,
    pub(super) delay: Duration,
}

impl Truth {
    pub(super) fn new(sizes: [usize; 2]) -> Self {
        let mut truth = Self {
            sentinels: Vec::new(),
            places: BTreeMap::new(),
            masters: [1, 1],
            heard: Vec::new(),
            due: None,
            begun: Instant::now(),
            lines: Vec::new(),
        };
        for of in [OWN, OTHER] {
            for _ in 0..sizes[of] {
                let new = truth.another(of, truth.sentinels.len());
                truth.sentinels.push(new);
            }
        }
        (0..2).for_each(|second| truth.tell_each_other(second));
        truth
    }

    /// One with an empty state.
    fn another(&mut self, of: usize, place: usize) -> Sentinel {
        let id = char::from(b'A' + self.places.len() as u8);
        self.places.insert(id, place);
        Sentinel {
            id,
            of,
            peers: BTreeSet::new(),
            epoch: 0,
            master: self.masters[of],
            heir: None,
            is_cut_off: false,
            connects: 0,
            is_silent: false,
            delay: Duration::from_millis(1),
        }
    }

    pub(super) fn say(&mut self, what: impl fmt::Display) {
        let at = self.begun.elapsed().as_secs_f64();
        self.lines.push(format!("{at:8.2} s  {what}"));
    }

    pub(super) fn members(&self, of: usize) -> Vec<usize> {
        (0..self.sentinels.len()).filter(|at| self.sentinels[*at].of == of).collect()
    }

    /// Each tells the others of itself, every two seconds.
    pub(super) fn tell_each_other(&mut self, second: usize) {
        for one in &mut self.sentinels {
            one.connects = one.connects.saturating_sub(1);
        }
        for from in (second % 2..self.sentinels.len()).step_by(2) {
            let speaker = self.sentinels[from].clone();
            for hearer in &mut self.sentinels {
                let are_peers = hearer.id != speaker.id && hearer.of == speaker.of;
                let is_connected = !hearer.is_cut_off && hearer.connects == 0;
                if !are_peers || speaker.is_cut_off || !is_connected {
                    continue;
                }
                hearer.peers.insert(speaker.id);
                if speaker.epoch > hearer.epoch {
                    hearer.epoch = speaker.epoch;
                    hearer.master = speaker.heir.unwrap_or(speaker.master);
                }
            }
        }
    }

    /// Whether its deployment knows its master without it.
    pub(super) fn is_spare(&self, at: usize) -> bool {
        let one = &self.sentinels[at];
        let others = self.sentinels.iter().filter(|other| other.of == one.of && other.id != one.id);
        let last = others.clone().map(|other| other.epoch).max();
        let knows = |other: &Sentinel| other.heir.is_none() && other.master == self.masters[one.of];
        one.heir.is_none() && others.filter(|other| Some(other.epoch) == last).all(knows)
    }

    /// How many ids are listed by sentinels of both deployments, or theirs.
    pub(super) fn listed_by_both(&self) -> usize {
        let ids = |of| -> BTreeSet<_> {
            self.sentinels.iter().filter(|one| one.of == of).flat_map(Sentinel::ids).collect()
        };
        ids(OWN).intersection(&ids(OTHER)).count()
    }

    /// They do so, or it is done to them.
    pub(super) fn at_each(
        &mut self,
        places: &[usize],
        what: &str,
        mut change: impl FnMut(&mut Sentinel),
    ) {
        places.iter().for_each(|at| change(&mut self.sentinels[*at]));
        let names: Vec<_> =
            places.iter().map(|at| format!("{}@{at}", self.sentinels[*at].id)).collect();
        self.say(format!("{}: {what}", names.join(" ")));
    }

    /// It forgets its peers. One that leads a failover would give up.
    pub(super) fn reset(&mut self, at: usize) {
        if self.sentinels[at].heir.is_none() {
            self.at_each(&[at], "is reset", |one| {
                one.peers.clear();
                one.connects = 2;
            });
        }
    }

    /// It watches the master of that deployment now. It keeps its id.
    pub(super) fn move_to(&mut self, at: usize, of: usize) {
        let master = self.masters[of];
        self.at_each(&[at], "is moved to the other deployment", |one| {
            (one.of, one.epoch, one.master) = (of, 0, master);
            one.peers.clear();
        });
    }

    /// At that place there is one with an empty state now.
    pub(super) fn replace(&mut self, at: usize, of: usize) {
        let (new, old) = (self.another(of, at), &self.sentinels[at]);
        let Sentinel { id, delay, is_silent, .. } = *old;
        self.sentinels[at] = Sentinel { delay, is_silent, ..new };
        self.at_each(&[at], &format!("is there in place of {id}"), |_| ());
    }

    /// Begins a failover, if most of the sentinels hear each other. Returns its leader.
    pub(super) fn begin_failover(&mut self, of: usize, rng: &mut Rng) -> Option<usize> {
        let members = self.members(of);
        let is_led = members.iter().any(|at| self.sentinels[*at].heir.is_some());
        let voters: Vec<_> =
            members.iter().copied().filter(|at| !self.sentinels[*at].is_cut_off).collect();
        let leader = *rng.choice(&voters)?;
        let known = members.len().max(1 + self.sentinels[leader].peers.len());
        if is_led || 2 * voters.len() <= known {
            return None;
        }
        let epoch = members.iter().map(|at| self.sentinels[*at].epoch).max()?;
        let heir = 1 + (self.masters[of] - 1 + rng.u16(1..SERVERS)) % SERVERS;
        self.masters[of] = heir;
        self.at_each(&[leader], &format!("makes {} the master", server(of, heir)), |one| {
            (one.epoch, one.heir) = (epoch + 1, Some(heir));
        });
        Some(leader)
    }

    pub(super) fn end_failover(&mut self, leader: usize) {
        let leader = &mut self.sentinels[leader];
        leader.master = leader.heir.take().unwrap_or(leader.master);
    }
}

impl Sentinel {
    /// Its own id, and those that it lists.
    pub(super) fn ids(&self) -> BTreeSet<char> {
        self.peers.iter().copied().chain([self.id]).collect()
    }
}

impl fmt::Display for Sentinel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peers: String = self.peers.iter().collect();
        let replaces = if self.heir.is_some() { "replaces " } else { "" };
        write!(f, "{}({peers}) {replaces}{}{}", self.id, host(self.of), self.master)
    }
}

pub(super) fn server(of: usize, port: u16) -> Address {
    Address::new(host(of), port)
}

/// The host of the servers of a deployment.
pub(super) fn host(of: usize) -> &'static str {
    ["own", "other"][of]
}
