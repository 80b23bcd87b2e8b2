//! The witness: what the servers write into their append-only files, with the moment at which it appears there.

mod commands;
mod deeds;
mod model;
mod state;
mod tail;
#[cfg(test)]
mod tests;

pub(crate) use model::{Model, Names};
#[cfg(test)]
pub(crate) use tail::What;
pub(crate) use tail::{Mark, Piece, Tail};

use commands::Transactions;
use judge::{Effect, Nanos};

/// What one server did from one state of its data on, without a break.
#[derive(Debug, Default)]
pub(crate) struct Chapter {
    /// When it began: by a new set of data.
    pub(crate) from: Nanos,
    /// Since when the server itself changes them.
    pub(crate) live: Nanos,
    pub(crate) effects: Vec<Effect>,
}

/// Reads all that one server wrote.
pub(crate) fn chapters(pieces: &[Piece], mut model: Model<'_>) -> Vec<Chapter> {
    let mut chapters = vec![Chapter::default()];
    let mut reader = Transactions::default();
    let mut is_old = false;
    for piece in pieces {
        match &piece.what {
            tail::What::Bytes(bytes) => reader.feed(bytes),
            tail::What::Mark(Mark::Torn) => reader.forget(),
            tail::What::Mark(Mark::Emptied) => {
                reader.forget();
                let effects = model.wipe(piece.at, judge::Taker::Restart);
                last(&mut chapters).extend(effects);
            }
            // Another state, which others made.
            tail::What::Mark(mark @ (Mark::Replaced | Mark::Resynced)) => {
                is_old = *mark == Mark::Replaced;
                reader.forget();
                model.forget();
                chapters.push(Chapter { from: piece.at, live: piece.at, effects: Vec::new() });
            }
            tail::What::Mark(Mark::Live) => {
                is_old = false;
                chapters.last_mut().expect("there is one from the start").live = piece.at + 1;
                last(&mut chapters).extend(model.found(piece.at));
            }
        }
        while let Some(commands) = reader.next() {
            let effects = model.apply(&commands, piece.at);
            if !is_old {
                last(&mut chapters).extend(effects);
            }
        }
    }
    // What is known only later of a moment before.
    for chapter in &mut chapters {
        chapter.effects.sort_by_key(|effect| effect.at);
    }
    chapters
}

fn last(chapters: &mut [Chapter]) -> &mut Vec<Effect> {
    &mut chapters.last_mut().expect("there is one from the start").effects
}
