//! The witness of a round: what each server did while it was a master.

use judge::{Bounds, History, Left, Log, Nanos, Reign, Witness};

use crate::aof::{Chapter, Model, Names, Piece, chapters};
use crate::clock::Wall;
use crate::forced::Forced;
use crate::moments::Answered;
use crate::monitor::Line;

/// What is known of a server.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) label: String,
    pub(crate) node: String,
    pub(crate) pieces: Vec<Piece>,
    pub(crate) lines: Vec<Line>,
    pub(crate) reigns: Vec<Reign>,
    pub(crate) synced: Vec<Reign>,
}

/// What they did, and how far a moment of that may be off that no server has told. `bounds`: without that.
pub(crate) fn testify(
    servers: &[Server],
    history: &History,
    wall: Wall,
    locks: impl IntoIterator<Item = String>,
    left: Vec<Left>,
    bounds: &Bounds,
) -> (Witness, Nanos) {
    let names = Names::new(locks);
    let answered = Answered::read(history);
    let mut logs = Vec::new();
    let mut off = 0;
    for server in servers {
        let chapters = chapters(&server.pieces, &server.lines, wall, Model::new(&names, wall));
        for reign in &server.reigns {
            let of_reign = logs_of(server, reign, &chapters);
            for (chapter, mut log) in of_reign {
                off = off.max(answered.sharpen(&mut log, &chapter.vague));
                logs.push((log, chapter.called.clone()));
            }
        }
    }
    logs.sort_by_key(|(log, _)| log.reign.from);
    let (mut logs, called): (Vec<_>, Vec<_>) = logs.into_iter().unzip();
    let on_its_way = bounds.retry_timeout + bounds.command_timeout;
    Forced::read(history, on_its_way).settle(&mut logs, &called, bounds.clock_error + off);
    (Witness { logs, left }, off)
}

/// One for each chapter of the server that its reign has a part of.
fn logs_of<'c>(server: &Server, reign: &Reign, chapters: &'c [Chapter]) -> Vec<(&'c Chapter, Log)> {
    let mut logs = Vec::new();
    for (number, chapter) in chapters.iter().enumerate() {
        let next = chapters.get(number + 1).map(|next| next.from);
        let until = [reign.until, next].into_iter().flatten().min();
        let from = reign.from.max(chapter.live);
        if until.is_some_and(|until| until <= from) {
            continue;
        }
        let within = |at: Nanos| until.is_none_or(|until| at <= until);
        let log = Log {
            server: server.label.clone(),
            node: server.node.clone(),
            reign: Reign { from, until },
            synced: server.synced.clone(),
            effects: chapter.effects.iter().filter(|it| within(it.at)).cloned().collect(),
        };
        logs.push((chapter, log));
    }
    logs
}
