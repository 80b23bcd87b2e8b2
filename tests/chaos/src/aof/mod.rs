//! The witness: what the servers write into their append-only files. When it took place, they say themselves.

mod commands;
mod deeds;
mod items;
mod model;
mod state;
mod tail;
#[cfg(test)]
mod tests;

pub(crate) use model::{Model, Names};
#[cfg(test)]
pub(crate) use tail::What;
pub(crate) use tail::{Mark, Piece, Tail};

use std::collections::{BTreeMap, BTreeSet};

use items::Step;
use judge::{Deed, Effect, Nanos};

use crate::clock::Wall;
use crate::monitor::Line;

/// What one server did from one state of its data on, without a break.
#[derive(Debug, Default)]
pub(crate) struct Chapter {
    /// When it began: by a new set of data.
    pub(crate) from: Nanos,
    /// Since when the server itself changes them.
    pub(crate) live: Nanos,
    pub(crate) effects: Vec<Effect>,
    /// The moments that are not known exactly, each with the earliest that it may have been.
    pub(crate) vague: BTreeMap<Nanos, Nanos>,
    /// The moments of which it is known who called.
    pub(crate) called: BTreeSet<Nanos>,
}

/// Reads all that one server wrote.
pub(crate) fn chapters(
    pieces: &[Piece],
    lines: &[Line],
    wall: Wall,
    mut model: Model<'_>,
) -> Vec<Chapter> {
    let mut chapters = vec![Chapter::default()];
    let mut is_old = false;
    for item in items::items(pieces, lines, wall) {
        let at = item.at;
        let last = chapters.last_mut().expect("there is one from the start");
        match &item.step {
            Step::Mark(Mark::Torn | Mark::Started) => {}
            Step::Mark(Mark::Emptied) => {
                last.effects.extend(model.wipe(at, judge::Taker::Restart));
            }
            // Another state, which others made.
            Step::Mark(mark @ (Mark::Replaced | Mark::Resynced)) => {
                is_old = *mark == Mark::Replaced;
                model.forget();
                chapters.push(Chapter { from: at, live: at, ..Chapter::default() });
            }
            Step::Mark(Mark::Live) => {
                is_old = false;
                last.live = at + 1;
                last.effects.extend(model.found(at));
            }
            Step::Commands(commands) => {
                let effects = model.apply(commands, at, item.caller.as_deref());
                if is_old || effects.is_empty() {
                    continue;
                }
                if item.caller.is_some() {
                    last.called.insert(at);
                }
                if !item.is_exact() {
                    last.vague.insert(at, item.since);
                }
                last.effects.extend(effects);
            }
        }
    }
    chapters.iter_mut().for_each(|chapter| after_grants(&mut chapter.effects));
    // What is known only later of a moment before.
    for chapter in &mut chapters {
        chapter.effects.sort_by_key(|effect| effect.at);
    }
    chapters
}

/// A reader may have outlived its lease before the grant to it has reached a replica.
fn after_grants(effects: &mut [Effect]) {
    let mut granted: BTreeMap<(String, String), Nanos> = BTreeMap::new();
    for effect in effects {
        match &effect.deed {
            Deed::Granted { id, .. } => {
                granted.insert((effect.lock.clone(), id.clone()), effect.at);
            }
            Deed::Renewed { id, .. } => {
                let since = granted.get(&(effect.lock.clone(), id.clone()));
                effect.at = effect.at.max(since.copied().unwrap_or(0));
            }
            _ => {}
        }
    }
}
