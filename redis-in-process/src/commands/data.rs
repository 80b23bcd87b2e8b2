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
    /// Whether what this server does not have is an error, and not a panic.
    pub(crate) lenient: bool,
    /// What was executed since it was asked last, if somebody wants to know.
    pub(crate) executed: Option<Vec<Executed>>,
}

/// A command that was executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// The name and the arguments.
    pub words: Vec<Vec<u8>>,
    /// Whether a script has called it.
    pub by_script: bool,
}

impl Data {
    /// What Redis has and this server does not. A simulation must not take it for something that
    /// nobody has.
    pub(crate) fn missing(&self, what: std::fmt::Arguments<'_>) -> Refused {
        assert!(self.lenient, "the server in process has no {what}");
        format!("ERR the server in process has no {what}").into()
    }

    pub(crate) fn record(&mut self, words: &[Vec<u8>], by_script: bool) {
        if let Some(executed) = &mut self.executed {
            executed.push(Executed { words: words.to_vec(), by_script });
        }
    }
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

/// The answer to an option that this server does not have.
pub(super) fn not_there(data: &Data, command: &str, option: &[u8]) -> Refused {
    data.missing(format_args!("{command} with {}", String::from_utf8_lossy(option)))
}

/// The places of a list that a range of LRANGE or ZRANGE means.
pub(super) fn range(start: i64, stop: i64, length: usize) -> std::ops::Range<usize> {
    let length = length as i64;
    let from_end = |place: i64| if place < 0 { place.saturating_add(length) } else { place };
    let (start, stop) = (from_end(start).max(0), from_end(stop).min(length - 1));
    if start > stop { 0..0 } else { start as usize..stop as usize + 1 }
}
