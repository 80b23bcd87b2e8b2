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
        events.extend(history.map_err(|why| format!("{}: {why}", path.display()))?.events);
    }
    events.sort_by_key(|event| event.at);
    Ok(History { events: join_sleeps(events) })
}

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
