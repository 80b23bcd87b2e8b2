//! When each server was a master, or a replica that its master knew, by its own log.

use std::fs;
use std::path::Path;

use judge::{Nanos, Reign, SECOND};

use crate::clock::Wall;

/// What a server says when it becomes a master, or ceases to be one.
const RISES: [&str; 2] = ["MASTER MODE enabled", "Failover election won: I'm the new master"];
const FALLS: [&str; 3] =
    ["Before turning into a replica", "Reconfiguring myself as a replica", "Connecting to MASTER"];

/// What a replica says when its master knows of it, and when it does not any more.
const JOINS: [&str; 2] =
    ["MASTER <-> REPLICA sync: Finished with success", "Successful partial resynchronization"];
const LEAVES: [&str; 5] =
    ["Connection with master lost", "Connecting to MASTER", RISES[0], RISES[1], "is starting"];
/// How long it may take from there to where the master counts it.
const COUNTED: Nanos = 2 * SECOND;

/// When a server was a master, and when it was a replica that its master counted.
pub(crate) fn read(
    directory: &Path,
    begins_as_master: bool,
    wall: Wall,
    now: Nanos,
) -> (Vec<Reign>, Vec<Reign>) {
    let text = fs::read_to_string(directory.join("redis.log")).unwrap_or_default();
    let lines: Vec<(Nanos, &str)> =
        text.lines().filter_map(|line| Some((moment(line, wall, now)?, line))).collect();
    let reigns = between(&lines, begins_as_master.then_some(0), &RISES, &FALLS);
    let mut synced = between(&lines, None, &JOINS, &LEAVES);
    synced.iter_mut().for_each(|span| span.from += COUNTED);
    synced.retain(|span| span.until.is_none_or(|until| span.from < until));
    (reigns, synced)
}

/// The times from one of these words to one of those. The log has the time of day, in UTC.
fn between(
    lines: &[(Nanos, &str)],
    mut since: Option<Nanos>,
    begins: &[&str],
    ends: &[&str],
) -> Vec<Reign> {
    let mut spans = Vec::new();
    for (at, line) in lines {
        let says = |words: &[&str]| words.iter().any(|words| line.contains(words));
        if says(begins) {
            since.get_or_insert(*at);
        } else if says(ends)
            && let Some(from) = since.take()
        {
            spans.push(Reign { from, until: Some(*at) });
        }
    }
    spans.extend(since.map(|from| Reign { from, until: None }));
    spans
}

/// `123:M 22 Nov 2026 16:52:15.123 * MASTER MODE enabled`
fn moment(line: &str, wall: Wall, now: Nanos) -> Option<Nanos> {
    const DAY: u64 = 24 * 3_600_000;
    let time = line.split(' ').nth(4)?;
    let (time, ms) = time.split_once('.')?;
    let mut parts = time.split(':').map(|part| part.parse::<u64>());
    let (hours, minutes, seconds) = (parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?);
    let of_day = ((hours * 60 + minutes) * 60 + seconds) * 1_000 + ms.parse::<u64>().ok()?;
    let today = wall.epoch_ms(now);
    // The last such time of day that is not in the future.
    let day = today - today % DAY;
    let ms = if day + of_day > today { day - DAY + of_day } else { day + of_day };
    Some(wall.moment(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_became_a_master_and_a_replica_again() {
        let directory = tempfile::tempdir().unwrap();
        let said = [
            "10.000 # oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo",
            "10.001 * Connecting to MASTER 127.0.0.1:1",
            "10.500 * MASTER <-> REPLICA sync: Finished with success",
            "20.000 # Connection with master lost.",
            "20.100 * Connecting to MASTER 127.0.0.1:1",
            "21.000 * MASTER MODE enabled (user request from 'id=7')",
            "30.000 * Before turning into a replica, using my own master parameters",
            "30.001 * Connecting to MASTER 127.0.0.1:2",
            "30.200 * Successful partial resynchronization with master.",
        ];
        let text: Vec<_> =
            said.iter().map(|line| format!("1:M 01 Jan 1970 00:00:{line}\n")).collect();
        fs::write(directory.path().join("redis.log"), text.concat()).unwrap();
        let (reigns, synced) = read(directory.path(), false, Wall::in_step(), 60 * SECOND);
        let spans = |spans: Vec<Reign>| -> Vec<_> {
            let ms = |at: Nanos| at / judge::MS;
            spans.into_iter().map(|span| (ms(span.from), span.until.map(ms))).collect()
        };
        assert_eq!(spans(reigns), [(21_000, Some(30_000))]);
        assert_eq!(spans(synced), [(12_500, Some(20_000)), (32_200, None)]);
    }
}
