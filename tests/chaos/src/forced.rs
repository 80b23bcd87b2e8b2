//! Which writers were put out by force, and which let go: the commands of both are the same, so what users did decides.

use std::collections::{BTreeMap, BTreeSet};

use judge::{Answer, Call, Deed, History, Kind, Log, Nanos, Taker, What};

/// A forced unlock of a writer's lock that may have freed it.
#[derive(Debug)]
struct Force {
    from: Nanos,
    to: Nanos,
    /// Its answer was that it did.
    did: bool,
}

/// What became of the guards of one holder id.
#[derive(Debug, Default)]
struct Guards {
    alive: BTreeSet<(String, u64)>,
    /// When the last of them was given back.
    given_back: Nanos,
    /// Whether a release was answered that the hold was gone already.
    found_gone: bool,
}

/// How likely a writer was put out by force, where both can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Case {
    /// The server has told who called.
    Known,
    /// Its user had not begun to let go.
    Certain,
    /// Its user was told that the hold was gone.
    Likely,
    /// Its user had let go, or nobody had it.
    Unlikely,
}

/// What the history says of forced unlocks and of releases.
#[derive(Debug, Default)]
pub(crate) struct Forced {
    forces: BTreeMap<String, Vec<Force>>,
    holders: BTreeMap<String, Guards>,
}

impl Forced {
    /// `on_its_way`: how long after it was asked for a forced unlock may still be done, where its answer is unknown.
    pub(crate) fn read(history: &History, on_its_way: Nanos) -> Self {
        let mut forced = Self::default();
        let mut asked: BTreeMap<(&str, u64), (&String, Nanos)> = BTreeMap::new();
        let mut acquires: BTreeMap<(&str, u64), u64> = BTreeMap::new();
        let mut releases: BTreeMap<(&str, u64), u64> = BTreeMap::new();
        let mut ids: BTreeMap<(&str, u64), &String> = BTreeMap::new();
        for event in &history.events {
            let (at, process) = (event.at, event.process.as_str());
            match &event.what {
                What::Invoke { op, call: Call::Force { lock } } if lock.kind == Kind::Write => {
                    asked.insert((process, *op), (&lock.name, at));
                }
                What::Invoke { op, call: Call::Acquire { guard, .. } } => {
                    acquires.insert((process, *op), *guard);
                }
                What::Invoke { op, call: Call::Unlock { guard } } => {
                    releases.insert((process, *op), *guard);
                    forced.gives_back(&ids, (process, *guard), at);
                }
                What::Drop { guard } => forced.gives_back(&ids, (process, *guard), at),
                What::Answer { op, answer: Answer::Granted { holds, .. } } => {
                    let Some(guard) = acquires.get(&(process, *op)) else { continue };
                    for hold in holds {
                        ids.insert((process, *guard), &hold.id);
                        let guards = forced.holders.entry(hold.id.clone()).or_default();
                        guards.alive.insert((process.to_owned(), *guard));
                    }
                }
                What::Answer { op, answer: Answer::NotHeld { .. } } => {
                    let guard = releases.get(&(process, *op));
                    if let Some(id) = guard.and_then(|guard| ids.get(&(process, *guard))) {
                        forced.holders.entry((*id).clone()).or_default().found_gone = true;
                    }
                }
                What::Answer { op, answer } => {
                    let Some((lock, from)) = asked.remove(&(process, *op)) else { continue };
                    let (to, did) = match answer {
                        Answer::Freed { freed: false } => continue,
                        Answer::Freed { freed: true } => (at, true),
                        _ => (at.max(from + on_its_way), false),
                    };
                    forced.forces.entry(lock.clone()).or_default().push(Force { from, to, did });
                }
                _ => {}
            }
        }
        for (lock, from) in asked.into_values() {
            let force = Force { from, to: from + on_its_way, did: false };
            forced.forces.entry(lock.clone()).or_default().push(force);
        }
        forced
    }

    fn gives_back(&mut self, ids: &BTreeMap<(&str, u64), &String>, guard: (&str, u64), at: Nanos) {
        let Some(guards) = ids.get(&guard).and_then(|id| self.holders.get_mut(*id)) else { return };
        guards.alive.remove(&(guard.0.to_owned(), guard.1));
        guards.given_back = guards.given_back.max(at);
    }

    fn case(&self, id: &str, at: Nanos) -> Case {
        match self.holders.get(id) {
            Some(guards) if !guards.alive.is_empty() || guards.given_back > at => Case::Certain,
            Some(guards) if guards.found_gone => Case::Likely,
            _ => Case::Unlikely,
        }
    }

    /// Calls those removals releases which were. `called`: the moments of each log of which it is known who called.
    /// `error`: how late something may have been seen in the log.
    pub(crate) fn settle(&self, logs: &mut [Log], called: &[BTreeSet<Nanos>], error: Nanos) {
        // By lock: log and effect of each removal, when it was, and how likely by force.
        let mut removals: BTreeMap<String, Vec<(usize, usize, Nanos, Case)>> = BTreeMap::new();
        for (number, log) in logs.iter().enumerate() {
            for (index, effect) in log.effects.iter().enumerate() {
                let Deed::Removed { id, by: Taker::Force } = &effect.deed else { continue };
                if id.ends_with(":write") {
                    let case = match called[number].contains(&effect.at) {
                        true => Case::Known,
                        false => self.case(id, effect.at),
                    };
                    let removal = (number, index, effect.at, case);
                    removals.entry(effect.lock.clone()).or_default().push(removal);
                }
            }
        }
        for (lock, removals) in removals {
            let times = removals.iter().map(|(_, _, at, case)| (*at, *case)).collect::<Vec<_>>();
            let forces = self.forces.get(&lock).map_or(&[][..], Vec::as_slice);
            let by_force = by_force(&times, forces, error);
            for ((log, index, ..), by_force) in removals.into_iter().zip(by_force) {
                let deed = &mut logs[log].effects[index].deed;
                if let Deed::Removed { id, .. } = deed
                    && !by_force
                {
                    *deed = Deed::Released { id: std::mem::take(id) };
                }
            }
        }
    }
}

/// Which of the removals were by force. A forced unlock that did something has one of them, the likeliest that is left.
fn by_force(removals: &[(Nanos, Case)], forces: &[Force], error: Nanos) -> Vec<bool> {
    let mut chosen = vec![false; removals.len()];
    let within =
        |force: &Force, at: Nanos| force.from <= at && at <= force.to.saturating_add(error);
    let mut sure: Vec<_> = forces.iter().filter(|force| force.did).collect();
    sure.sort_by_key(|force| force.to);
    let mut open = vec![true; sure.len()];
    for case in [Case::Known, Case::Certain, Case::Likely, Case::Unlikely] {
        // Those first that can be nobody else's.
        for (force, open) in sure.iter().zip(&mut open).filter(|(_, open)| **open) {
            let free = (0..removals.len()).filter(|at| !chosen[*at] && removals[*at].1 == case);
            if let Some(at) = free.into_iter().find(|at| within(force, removals[*at].0)) {
                (chosen[at], *open) = (true, false);
            }
        }
    }
    for (at, (when, case)) in removals.iter().enumerate() {
        let unsure = forces.iter().any(|force| !force.did && within(force, *when));
        chosen[at] |= *case == Case::Known || unsure && *case != Case::Unlikely;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn force(from: Nanos, to: Nanos) -> Force {
        Force { from, to, did: true }
    }

    #[test]
    fn a_release_beside_a_forced_unlock_is_none() {
        let (own, forced) = ((10, Case::Unlikely), (12, Case::Certain));
        assert_eq!(by_force(&[own, forced], &[force(9, 13)], 0), [false, true]);
        assert_eq!(by_force(&[own], &[force(11, 13)], 0), [false], "it came before it");
        assert_eq!(by_force(&[own], &[force(9, 13)], 0), [true], "there is no other");
    }

    #[test]
    fn what_the_server_has_told_is_not_guessed() {
        let (told, own) = ((10, Case::Known), (11, Case::Unlikely));
        assert_eq!(by_force(&[told], &[], 0), [true]);
        assert_eq!(by_force(&[told, own], &[force(9, 13)], 0), [true, false]);
    }

    #[test]
    fn each_forced_unlock_has_one_removal() {
        let both = [(10, Case::Certain), (20, Case::Certain)];
        assert_eq!(by_force(&both, &[force(5, 25)], 0), [true, false]);
        assert_eq!(by_force(&both, &[force(5, 25), force(6, 12)], 0), [true, true]);
    }

    #[test]
    fn one_of_unknown_result_explains_only_what_nobody_did() {
        let unknown = Force { from: 5, to: 25, did: false };
        let removals = [(10, Case::Certain), (15, Case::Likely), (20, Case::Unlikely)];
        assert_eq!(by_force(&removals, &[unknown], 0), [true, true, false]);
        assert_eq!(by_force(&[(30, Case::Certain)], &[force(5, 25)], 5), [true], "seen late");
        assert_eq!(by_force(&[(31, Case::Certain)], &[force(5, 25)], 5), [false]);
    }
}
