//! When each transaction of an append-only file took place, and who asked for it: as the server says, which tells each
//! command that it carries out.

use judge::{MS, Nanos};

use super::commands::{Command, Transactions};
use super::tail::{Mark, Piece, What};
use crate::clock::Wall;
use crate::monitor::Line;

/// How late the clock of the file's reader may be behind that of the server.
const CLOCKS: Nanos = 5 * MS;
/// How much later than the begin of a script, by which leases count, a command of it may be carried out.
const SCRIPT_MS: u64 = 2_000;

/// What a server did to its data, or what was done to them.
#[derive(Debug)]
pub(crate) enum Step {
    Commands(Vec<Command>),
    Mark(Mark),
}

#[derive(Debug)]
pub(crate) struct Item {
    /// When it took place: at the latest, and at the earliest.
    pub(crate) at: Nanos,
    pub(crate) since: Nanos,
    pub(crate) step: Step,
    /// The call of the script that did it: what follows its text.
    pub(crate) caller: Option<Vec<String>>,
}

impl Item {
    pub(crate) fn is_exact(&self) -> bool {
        self.at == self.since
    }
}

/// All that one server wrote, each with the moment at which it took place, as far as lines tell it.
pub(crate) fn items(pieces: &[Piece], lines: &[Line], wall: Wall) -> Vec<Item> {
    let mut items = cut(pieces);
    let mut matched = Lines { lines, wall, next: 0, called: None };
    let mut is_replay = false;
    for item in &mut items {
        match &item.step {
            Step::Mark(mark) => {
                is_replay = *mark == Mark::Replaced;
                matched.skip_to(item.at);
            }
            Step::Commands(commands) if !is_replay => {
                if let Some((at, caller)) = matched.find(commands, item.at) {
                    (item.at, item.since, item.caller) = (at, at, caller);
                }
            }
            Step::Commands(_) => {}
        }
    }
    // What no line tells, happened between those that lines tell.
    let mut earliest = 0;
    for item in &mut items {
        if !item.is_exact() {
            item.since = earliest.min(item.at);
        }
        earliest = earliest.max(item.since);
    }
    let mut latest = Nanos::MAX;
    for item in items.iter_mut().rev() {
        if item.is_exact() {
            latest = latest.min(item.at);
        } else {
            item.at = item.at.min(latest.saturating_sub(1)).max(item.since);
            // The same moment would call it exact.
            item.since = item.since.min(item.at.saturating_sub(1));
        }
    }
    items
}

fn cut(pieces: &[Piece]) -> Vec<Item> {
    let mut reader = Transactions::default();
    let mut items = Vec::new();
    for piece in pieces {
        let (at, since) = (piece.at, piece.since);
        match &piece.what {
            What::Bytes(bytes) => reader.feed(bytes),
            What::Mark(mark) => {
                if *mark != Mark::Live {
                    reader.forget();
                }
                items.push(Item { at, since: at, step: Step::Mark(*mark), caller: None });
            }
        }
        while let Some(commands) = reader.next() {
            let since = since.min(at.saturating_sub(1));
            items.push(Item { at, since, step: Step::Commands(commands), caller: None });
        }
    }
    items
}

/// The lines of one server, up to where they have been used.
struct Lines<'a> {
    lines: &'a [Line],
    wall: Wall,
    next: usize,
    called: Option<usize>,
}

impl Lines<'_> {
    fn at(&self, line: usize) -> Nanos {
        self.wall.moment_of_micros(self.lines[line].micros)
    }

    fn skip_to(&mut self, at: Nanos) {
        while self.next < self.lines.len() && self.at(self.next) < at {
            self.next += 1;
        }
        self.called = None;
    }

    /// The moment of these commands, which were seen at another, and the call that made them.
    fn find(&mut self, commands: &[Command], seen: Nanos) -> Option<(Nanos, Option<Vec<String>>)> {
        // The server itself deletes what is over, and no line tells that.
        let wanted = commands.iter().find(|it| it[0] != "DEL" && it[0] != "UNLINK")?;
        let (mut called, mut line) = (self.called, self.next);
        while line < self.lines.len() && self.at(line) <= seen.saturating_add(CLOCKS) {
            let words = &self.lines[line].words;
            if words[0].starts_with("eval") {
                called = Some(line);
            } else if is_same(wanted, &self.lines[line]) {
                let caller = called.map(|at| self.lines[at].words[2..].to_vec());
                (self.called, self.next) = (called, line + 1);
                return Some((self.at(line), caller));
            }
            line += 1;
        }
        None
    }
}

/// Whether the line tells the command, which the server may have written otherwise.
fn is_same(command: &Command, line: &Line) -> bool {
    let words = &line.words;
    match command[0].as_str() {
        // What it sets is the sum of the server's clock and the lease.
        "PEXPIREAT" if words[0] == "pexpire" => {
            let number = |text: &String| text.parse::<u64>().unwrap_or(0);
            let (Some(until), Some(lease)) = (command.get(2), words.get(2)) else { return false };
            let began = number(until).saturating_sub(number(lease));
            let is_then = began <= words_ms(line) && words_ms(line) <= began + SCRIPT_MS;
            words[1] == command[1] && is_then
        }
        name if words[0].eq_ignore_ascii_case(name) => match words[0].as_str() {
            "set" => words.get(1..3) == command.get(1..3),
            _ => words[1..] == command[1..],
        },
        _ => false,
    }
}

fn words_ms(line: &Line) -> u64 {
    line.micros / 1_000
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(at: u64, since: u64, text: &str) -> Piece {
        let words: Vec<_> = text.split(' ').collect();
        let body: String =
            words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let what = What::Bytes(format!("*{}\r\n{body}", words.len()).into_bytes());
        Piece { at: at * MS, since: since * MS, what }
    }

    fn line(at: u64, text: &str) -> Line {
        Line { micros: at * 1_000, words: text.split(' ').map(str::to_owned).collect() }
    }

    /// Earliest and latest moment of each, and who called.
    fn told(pieces: &[Piece], lines: &[Line]) -> Vec<(u64, u64, String)> {
        let items = items(pieces, lines, Wall::in_step());
        let caller =
            |item: &Item| item.caller.as_ref().map(|words| words.join(" ")).unwrap_or_default();
        items
            .iter()
            .map(|item| (item.since.div_ceil(MS), item.at.div_ceil(MS), caller(item)))
            .collect()
    }

    #[test]
    fn what_is_seen_late_was_when_the_server_says() {
        let pieces = [
            bytes(400, 90, "hset shop a:1 1"),
            bytes(400, 90, "PEXPIREAT shop 1100"),
            bytes(400, 90, "del shop"),
        ];
        let lines = [
            line(100, "evalsha  1 shop a:1"),
            line(100, "hset shop a:1 1"),
            line(100, "pexpire shop 1000"),
            line(210, "evalsha  1 shop"),
            line(211, "del shop"),
            line(300, "evalsha  1 shop"),
            line(300, "del shop"),
        ];
        let all = [(100, 100, "1 shop a:1"), (100, 100, "1 shop a:1"), (211, 211, "1 shop")];
        assert_eq!(told(&pieces, &lines), all.map(|(since, at, who)| (since, at, who.to_owned())));
    }

    #[test]
    fn what_no_line_tells_was_between_those_that_lines_tell() {
        let pieces = [
            bytes(100, 100, "hset shop a:1 1"),
            bytes(300, 290, "DEL shop"),
            bytes(300, 290, "hset shop b:1 1"),
            bytes(500, 490, "hdel shop b:1"),
        ];
        let lines = [line(90, "hset shop a:1 1"), line(250, "hset shop b:1 1")];
        let spans: Vec<_> =
            told(&pieces, &lines).into_iter().map(|(since, at, _)| (since, at)).collect();
        assert_eq!(spans, [(90, 90), (90, 250), (250, 250), (250, 500)]);
    }

    #[test]
    fn a_line_of_another_time_is_not_taken() {
        // It was not done yet when this was seen.
        assert_eq!(
            told(&[bytes(100, 90, "hdel shop a:1")], &[line(200, "hdel shop a:1")])[0].1,
            100
        );
        // Another renewal.
        let renewal = [bytes(100, 90, "PEXPIREAT shop 5000")];
        assert_eq!(told(&renewal, &[line(95, "pexpire shop 1000")])[0].1, 100);
        // A server that is dead carries out nothing.
        let torn = Piece { at: 50 * MS, since: 50 * MS, what: What::Mark(Mark::Torn) };
        let pieces = [torn, bytes(100, 90, "hdel shop a:1")];
        assert_eq!(told(&pieces, &[line(40, "hdel shop a:1")])[1].1, 100);
    }
}
