//! The witness of a round: what each server did while it was a master.

use judge::{Bounds, History, Left, Log, Nanos, Reign, Witness};

use crate::aof::{Chapter, Model, Names, Piece, chapters};
use crate::clock::Wall;
use crate::forced::Forced;
use crate::moments::Answered;

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
    bounds: &Bounds,
) -> Witness {
    let names = Names::new(locks);
    let answered = Answered::read(history);
    let mut logs = Vec::new();
    for server in servers {
        let chapters = chapters(&server.pieces, Model::new(&names, wall));
        for reign in &server.reigns {
            let mut of_reign = logs_of(server, reign, &chapters);
            for log in &mut of_reign {
                answered.sharpen(log, &server.pieces);
            }
            logs.extend(of_reign);
        }
    }
    logs.sort_by_key(|log| log.reign.from);
    let on_its_way = bounds.retry_timeout + bounds.command_timeout;
    Forced::read(history, on_its_way).settle(&mut logs, bounds.clock_error);
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
