//! What commands work on, and what they have in common.

use crate::keyspace::Keyspace;
use crate::pubsub::Pubsub;
use crate::refusal::Refusals;
use crate::reply::Refused;

pub(super) const SYNTAX: Refused = Refused::Borrowed("ERR syntax error");
pub(super) const OVERFLOW: Refused = Refused::Borrowed("ERR increment or decrement would overflow");

/// All that a command can see.
#[derive(Debug, Default)]
pub(crate) struct Data {
    /// Server time in µs.
    pub(crate) now: u64,
    pub(crate) keys: Keyspace,
    pub(crate) pubsub: Pubsub,
    pub(crate) refusals: Refusals,
    /// Whether the script that runs has written.
    pub(crate) script_has_written: bool,
}

pub(super) fn wrong_number(command: &str) -> Refused {
    format!("ERR wrong number of arguments for '{command}' command").into()
}

/// The server time in ms that lies so many ms ahead; `None` lies before the epoch.
pub(super) fn moment(data: &Data, command: &str, ms: i64) -> Result<Option<u64>, Refused> {
    let moment = data.keys.now().cast_signed().checked_add(ms);
    let invalid = || format!("ERR invalid expire time in '{command}' command").into();
    moment.map(|moment| u64::try_from(moment).ok()).ok_or_else(invalid)
}

/// What Redis has and this server has not is no reason to answer as if nobody had it.
pub(super) fn not_there(command: &str, option: &[u8]) -> ! {
    panic!("the server in process has no {command} with {}", String::from_utf8_lossy(option));
}

/// The places of a list that a range of LRANGE or ZRANGE means.
pub(super) fn range(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = length as i64;
    let from_end = |place: i64| if place < 0 { place.saturating_add(length) } else { place };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(length - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}
