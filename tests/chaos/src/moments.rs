//! When effects took place, where the server has not said it: its answer comes after what it answers.

use std::collections::BTreeMap;

use judge::{Answer, Call, Deed, History, Log, Nanos, What};

/// For how long after a server has become a master it may have written what it had before.
const RISE: Nanos = 50 * judge::MS;

/// When grants and releases were answered, by holder id. Redisson's ids are used again, and tell nothing.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    grants: BTreeMap<String, Nanos>,
    releases: BTreeMap<String, Nanos>,
}

impl Answered {
    pub(crate) fn read(history: &History) -> Self {
        let mut answered = Self::default();
        let mut redisson = Vec::new();
        // By operation: the guard of an acquisition or of a release.
        let mut of: BTreeMap<(&str, u64), u64> = BTreeMap::new();
        let mut ids: BTreeMap<(&str, u64), &String> = BTreeMap::new();
        for event in &history.events {
            let process = event.process.as_str();
            match &event.what {
                What::Start { redisson: true, .. } => redisson.push(process),
                What::Invoke { op, call: Call::Acquire { guard, .. } | Call::Unlock { guard } } => {
                    of.insert((process, *op), *guard);
                }
                What::Answer { op, answer } if !redisson.contains(&process) => {
                    let Some(guard) = of.get(&(process, *op)) else { continue };
                    match answer {
                        Answer::Granted { holds, .. } => {
                            for hold in holds {
                                ids.insert((process, *guard), &hold.id);
                                answered.grants.entry(hold.id.clone()).or_insert(event.at);
                            }
                        }
                        Answer::Done => {
                            if let Some(id) = ids.get(&(process, *guard)) {
                                answered.releases.insert((*id).clone(), event.at);
                            }
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        answered
    }

    fn of(&self, deed: &Deed) -> Option<Nanos> {
        match deed {
            Deed::Granted { id, .. } => self.grants.get(id).copied(),
            Deed::Released { id } => self.releases.get(id).copied(),
            _ => None,
        }
    }

    /// Moves what a master did before the answers that followed, but not to where it had not happened yet. `vague`: the
    /// moments that are not known, each with the earliest that it may be. How far the last of them may be off.
    pub(crate) fn sharpen(&self, log: &mut Log, vague: &BTreeMap<Nanos, Nanos>) -> Nanos {
        let (mut latest, mut off) = (Nanos::MAX, 0);
        for effect in log.effects.iter_mut().rev() {
            if effect.at < log.reign.from {
                break;
            }
            if let Some(since) = vague.get(&effect.at) {
                // The last that came from the master before is seen a little late. Clients follow later.
                if *since < log.reign.from && effect.at <= log.reign.from + RISE {
                    effect.at = log.reign.from.saturating_sub(1);
                    continue;
                }
                let since = (*since).max(log.reign.from);
                // An answer from before that came from another master.
                let answered = self.of(&effect.deed).filter(|answered| *answered >= since);
                latest = latest.min(answered.unwrap_or(latest));
                effect.at = effect.at.min(latest.max(since)).max(log.reign.from);
                // When a lease ended says the lease.
                if !matches!(effect.deed, Deed::Expired { .. }) {
                    off = off.max(effect.at - since);
                }
            }
            latest = latest.min(effect.at);
        }
        log.effects.sort_by_key(|effect| effect.at);
        off
    }
}

#[cfg(test)]
mod tests {
    use judge::{Effect, Reign};

    use super::*;

    /// An end by its lease, seen at 200, and a release at 300 that was answered at 150; when these are said to have been.
    fn sharpened(vague: &[(Nanos, Nanos)]) -> Vec<Nanos> {
        let answered = Answered { releases: [("b".into(), 150)].into(), ..Answered::default() };
        let effect = |at, deed| Effect { at, server_ms: None, lock: "shop".into(), deed };
        let mut log = Log {
            server: String::new(),
            node: String::new(),
            reign: Reign { from: 0, until: None },
            synced: Vec::new(),
            effects: vec![
                effect(200, Deed::Expired { id: "a".into() }),
                effect(300, Deed::Released { id: "b".into() }),
            ],
        };
        answered.sharpen(&mut log, &vague.iter().copied().collect());
        log.effects.iter().map(|effect| effect.at).collect()
    }

    #[test]
    fn what_was_seen_when_a_master_began_came_from_the_one_before() {
        let from = 1_000 * judge::MS;
        let seen = |at: Nanos, since: Nanos| {
            let effect = |at, deed| Effect { at, server_ms: None, lock: "shop".into(), deed };
            let mut log = Log {
                server: String::new(),
                node: String::new(),
                reign: Reign { from, until: None },
                synced: Vec::new(),
                effects: vec![effect(at, Deed::Counted { id: "a".into(), count: 2 })],
            };
            Answered::default().sharpen(&mut log, &[(at, since)].into());
            log.effects[0].at
        };
        assert_eq!(seen(from + 10 * judge::MS, from - 5), from - 1);
        assert_eq!(seen(from + 51 * judge::MS, from - 5), from + 51 * judge::MS);
        assert_eq!(seen(from + 10 * judge::MS, from + 5), from + 10 * judge::MS);
    }

    #[test]
    fn what_is_answered_has_happened() {
        assert_eq!(sharpened(&[(200, 100), (300, 100)]), [150, 150]);
    }

    #[test]
    fn what_a_server_has_told_stays_whatever_another_has_answered() {
        assert_eq!(sharpened(&[(200, 100)]), [200, 300]);
        assert_eq!(sharpened(&[(200, 100), (300, 160)]), [200, 300]);
    }
}
