//! What the machine adds: how late its timers are, and when nothing on it ran at all.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use judge::{MS, Nanos};

use crate::aof::Piece;
use crate::clock::now;

const BEAT: Duration = Duration::from_millis(2);
/// A stop of all is at least so long.
const STOP: Nanos = 50 * MS;

/// From when on, and up to when.
pub(crate) type Stretch = (Nanos, Nanos);

/// A thread beside all others, which sees how late a timer may be on this machine.
#[derive(Debug)]
pub(crate) struct Watch {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Stretch>>,
}

impl Watch {
    pub(crate) fn start() -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = over.clone();
        let thread = thread::spawn(move || {
            let mut late = Vec::new();
            while !ends.load(Ordering::Relaxed) {
                let due = now() + BEAT.as_nanos() as u64;
                thread::sleep(BEAT);
                let woken = now();
                if woken > due + MS {
                    late.push((due, woken));
                }
            }
            late
        });
        Self { over, thread }
    }

    /// When a timer was due that was late, and when it rang.
    pub(crate) fn stop(self) -> Vec<Stretch> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch")
    }
}

/// What is known of the machine during a round.
#[derive(Debug)]
pub(crate) struct Machine {
    /// When nothing ran: neither the watch, nor the reader of the logs, which goes before all others.
    pub(crate) stops: Vec<Stretch>,
    /// How late a timer was at most, and how long something was in a file before it was seen, stops apart.
    pub(crate) lateness: Nanos,
    pub(crate) lag: Nanos,
}

impl Machine {
    pub(crate) fn of(late: &[Stretch], pieces: &[Vec<Piece>]) -> Self {
        let unseen: Vec<Stretch> =
            pieces.iter().flatten().map(|piece| (piece.since, piece.at)).collect();
        let mut stops: Vec<Stretch> = Vec::new();
        for timer in late.iter().filter(|it| length(**it) >= STOP) {
            let both = unseen.iter().filter_map(|unseen| common(*timer, *unseen));
            stops.extend(both.filter(|both| length(*both) >= STOP).max_by_key(|it| length(*it)));
        }
        let rest = |whole: &Stretch| {
            let stopped = stops.iter().filter_map(|stop| common(*whole, *stop));
            length(*whole) - stopped.map(length).sum::<Nanos>()
        };
        let lateness = late.iter().map(rest).max().unwrap_or(0);
        let lag = unseen.iter().map(rest).max().unwrap_or(0);
        Self { stops, lateness, lag }
    }
}

fn length((from, to): Stretch) -> Nanos {
    to - from
}

fn common(one: Stretch, other: Stretch) -> Option<Stretch> {
    let common = (one.0.max(other.0), one.1.min(other.1));
    (common.0 < common.1).then_some(common)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aof::What;

    fn pieces(seen: &[Stretch]) -> Vec<Vec<Piece>> {
        let piece = |(since, at): &Stretch| Piece {
            at: at * MS,
            since: since * MS,
            what: What::Bytes(Vec::new()),
        };
        vec![seen.iter().map(piece).collect()]
    }

    fn late(spans: &[Stretch]) -> Vec<Stretch> {
        spans.iter().map(|(from, to)| (from * MS, to * MS)).collect()
    }

    #[test]
    fn a_stop_is_where_nothing_ran() {
        let machine = Machine::of(&late(&[(100, 300)]), &pieces(&[(90, 92), (101, 305)]));
        assert_eq!(machine.stops, late(&[(101, 300)]));
        assert_eq!((machine.lateness, machine.lag), (MS, 5 * MS));
    }

    #[test]
    fn what_one_of_both_missed_counts() {
        let machine = Machine::of(&late(&[(100, 300), (400, 420)]), &pieces(&[(290, 390)]));
        assert_eq!(machine.stops, []);
        assert_eq!((machine.lateness, machine.lag), (200 * MS, 100 * MS));
    }
}
