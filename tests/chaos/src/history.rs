//! The history of a round, put together from those of its processes.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use judge::{Event, History, Nanos, What};

use crate::journal::Journal;

/// Joins what the processes wrote into this directory, and what was done to them.
pub(crate) fn collect(directory: &Path, journal: &Journal) -> Result<History, String> {
    let mut events = journal.events.clone();
    for entry in fs::read_dir(directory).map_err(|error| error.to_string())?.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        // The last line of a process that was killed may not be whole.
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let history = History::from_lines(whole);
        let own = history.map_err(|why| format!("{}: {why}", path.display()))?.events;
        if let Ok(sign) = fs::read(path.with_extension("alive")) {
            let ended = |process: &str| {
                let end = |event: &&Event| event.process == process && event.what == What::End;
                journal.events.iter().find(end).map(|event| event.at)
            };
            let process = own.first().map(|event| event.process.clone()).unwrap_or_default();
            events.extend(last_sleep(&process, &sign, ended(&process)));
        }
        events.extend(own);
    }
    events.sort_by_key(|event| event.at);
    Ok(History { events: join_sleeps(events) })
}

/// What a process did not write that did not run any more when it was killed.
fn last_sleep(process: &str, sign: &[u8], ended: Option<Nanos>) -> Option<Event> {
    let signed = Nanos::from_le_bytes(sign.try_into().ok()?);
    let slept = ended?.saturating_sub(signed) > SILENCE;
    slept.then(|| Event { at: signed + 1, process: process.to_owned(), what: What::Pause })
}

/// How long a process that runs leaves no sign of life at most.
const SILENCE: Nanos = 20 * judge::MS;

/// A process that wakes does many things at once, and its users see some of them before others.
const DROWSY: Nanos = 20 * judge::MS;

/// A process may have been stopped while its runtime did not run, and the other way round: one sleep for both.
fn join_sleeps(events: Vec<Event>) -> Vec<Event> {
    let mut sleeps: BTreeMap<String, Vec<(Nanos, Nanos)>> = BTreeMap::new();
    let mut open: BTreeMap<String, (Nanos, usize)> = BTreeMap::new();
    let mut ends: BTreeMap<String, Nanos> = BTreeMap::new();
    let mut others = Vec::new();
    for event in events {
        match event.what {
            What::Pause => open.entry(event.process).or_insert((event.at, 0)).1 += 1,
            What::Resume => {
                if let Some((since, depth)) = open.get_mut(&event.process) {
                    *depth -= 1;
                    if *depth == 0 {
                        let since = *since;
                        open.remove(&event.process);
                        sleeps.entry(event.process).or_default().push((since, event.at));
                    }
                }
            }
            _ => {
                if event.what == What::End {
                    ends.insert(event.process.clone(), event.at);
                }
                others.push(event);
            }
        }
    }
    for (process, (since, _)) in open {
        // It died in its sleep.
        if let Some(end) = ends.get(&process) {
            sleeps.entry(process).or_default().push((since, *end - 1));
        }
    }
    for (process, sleeps) in sleeps {
        let end = ends.get(&process).copied().unwrap_or(Nanos::MAX);
        let mut joined: Vec<(Nanos, Nanos)> = Vec::new();
        for (from, to) in sleeps {
            let to = to.saturating_add(DROWSY).min(end.saturating_sub(1)).max(from);
            match joined.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        for (from, to) in joined {
            others.push(Event { at: from, process: process.clone(), what: What::Pause });
            others.push(Event { at: to, process: process.clone(), what: What::Resume });
        }
    }
    others.sort_by_key(|event| event.at);
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_did_not_run_when_it_was_killed_slept() {
        let sign = |at: u64| (at * judge::MS).to_le_bytes();
        let ended = Some(1_000 * judge::MS);
        assert_eq!(last_sleep("a", &sign(990), ended), None);
        let slept = last_sleep("a", &sign(700), ended).unwrap();
        assert_eq!((slept.at, slept.what.clone()), (700 * judge::MS + 1, What::Pause));
        let end = Event { at: 1_000 * judge::MS, process: "a".into(), what: What::End };
        let joined = join_sleeps(vec![slept, end]);
        let whats: Vec<_> = joined.iter().map(|event| (event.at, event.what.clone())).collect();
        let woken = 1_000 * judge::MS - 1;
        assert_eq!(
            whats,
            [(700 * judge::MS + 1, What::Pause), (woken, What::Resume), (woken + 1, What::End)]
        );
        assert_eq!(last_sleep("a", &sign(700), None), None, "it is alive");
        assert_eq!(last_sleep("a", &[1], ended), None, "it has not begun");
    }
}
