//! When each server was a master, by its own log.

use std::fs;
use std::path::Path;

use judge::{Nanos, Reign};

use crate::clock::Wall;

/// What a server says when it becomes a master, or ceases to be one.
const RISES: [&str; 2] = ["MASTER MODE enabled", "Failover election won: I'm the new master"];
const FALLS: [&str; 3] =
    ["Before turning into a replica", "Reconfiguring myself as a replica", "Connecting to MASTER"];

/// Of a server that began as a master, or as a replica. The log has the time of day, in UTC.
pub(crate) fn read(directory: &Path, begins_as_master: bool, wall: Wall, now: Nanos) -> Vec<Reign> {
    let text = fs::read_to_string(directory.join("redis.log")).unwrap_or_default();
    let mut reigns = Vec::new();
    let mut since = begins_as_master.then_some(0);
    for line in text.lines() {
        let Some(at) = moment(line, wall, now) else { continue };
        let says = |words: &[&str]| words.iter().any(|words| line.contains(words));
        if says(&RISES) {
            since.get_or_insert(at);
        } else if says(&FALLS)
            && let Some(from) = since.take()
        {
            reigns.push(Reign { from, until: Some(at) });
        }
    }
    reigns.extend(since.map(|from| Reign { from, until: None }));
    reigns
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
