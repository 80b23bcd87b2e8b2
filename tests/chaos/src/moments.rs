//! When effects took place, where the server has not said it: its answer comes after what it answers.

use std::collections::BTreeMap;

use judge::{Answer, Call, Deed, History, Log, Nanos, What};

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
            latest = self.of(&effect.deed).map_or(latest, |answered| answered.min(latest));
            if let Some(since) = vague.get(&effect.at) {
                let since = (*since).max(log.reign.from);
                effect.at = effect.at.min(latest.max(since)).max(log.reign.from);
                // When a lease ended says the lease.
                if !matches!(effect.deed, Deed::Expired { .. }) {
                    off = off.max(effect.at - since);
                }
            }
        }
        log.effects.sort_by_key(|effect| effect.at);
        off
    }
}
