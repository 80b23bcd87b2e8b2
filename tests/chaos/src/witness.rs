//! The witness of a round: what each server did while it was a master.

use std::collections::BTreeMap;

use judge::{Answer, Call, History, Kind, Left, Log, Nanos, Reign, What, Witness};

use crate::aof::{Chapter, Model, Names, Piece, chapters};
use crate::clock::Wall;

/// What is known of a server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) label: String,
    pub(crate) node: String,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) reigns: Vec<Reign>,
    pub(crate) synced: Vec<Reign>,
}

pub(crate) fn testify(
    servers: &[Server],
    history: &History,
    wall: Wall,
    locks: impl IntoIterator<Item = String>,
    left: Vec<Left>,
) -> Witness {
    let names = Names::new(locks, forced(history));
    let mut logs = Vec::new();
    for server in servers {
        let chapters = chapters(&server.pieces, Model::new(&names, wall));
        for reign in &server.reigns {
            logs.extend(logs_of(server, reign, &chapters));
        }
    }
    logs.sort_by_key(|log| log.reign.from);
    Witness { logs, left }
}

/// One for each chapter of the server that its reign has a part of.
fn logs_of(server: &Server, reign: &Reign, chapters: &[Chapter]) -> Vec<Log> {
    let mut logs = Vec::new();
    for (number, chapter) in chapters.iter().enumerate() {
        let next = chapters.get(number + 1).map(|next| next.from);
        let until = [reign.until, next].into_iter().flatten().min();
        let from = reign.from.max(chapter.live);
        if until.is_some_and(|until| until <= from) {
            continue;
        }
        let within = |at: Nanos| until.is_none_or(|until| at <= until);
        logs.push(Log {
            server: server.label.clone(),
            node: server.node.clone(),
            reign: Reign { from, until },
            synced: server.synced.clone(),
            effects: chapter.effects.iter().filter(|it| within(it.at)).cloned().collect(),
        });
    }
    logs
}

/// When writers may have been put out by force, by lock.
fn forced(history: &History) -> BTreeMap<String, Vec<(Nanos, Nanos)>> {
    let mut under_way = BTreeMap::new();
    let mut forced: BTreeMap<String, Vec<(Nanos, Nanos)>> = BTreeMap::new();
    for event in &history.events {
        match &event.what {
            // A release of a writer looks like a forced one; that of others does not.
            What::Invoke { op, call: Call::Force { lock } } if lock.kind == Kind::Write => {
                under_way.insert((&event.process, *op), (&lock.name, event.at));
            }
            What::Answer { op, answer } => {
                if let Some((lock, from)) = under_way.remove(&(&event.process, *op))
                    && *answer != (Answer::Freed { freed: false })
                {
                    forced.entry(lock.clone()).or_default().push((from, event.at));
                }
            }
            _ => {}
        }
    }
    for (lock, from) in under_way.into_values() {
        forced.entry(lock.clone()).or_default().push((from, Nanos::MAX));
    }
    forced
}
