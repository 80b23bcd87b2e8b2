//! What a client announces about itself: a hash of its own on the server, with a TTL. No lock
//! depends on it.
//!
//! | field | value |
//! |---|---|
//! | `app`, `host`, `pid`, `version`, `library` | who the client is; `library` is this crate's version |
//! | `since`, `seen` | when it connected, and when it last wrote; server time in ms |
//! | `hold:<number>:<lock>` | one hold: since when, server time in ms, and after a space the note |
//! | `revision` | changes with each write |

use bytes::Bytes;

use super::replies::unexpected;
use crate::{
    owner::client_of,
    wire::{Arg, Invocation, Reply, Script, WireError},
};

static WRITE: Script = script!("announcement/write");
static WITHDRAW: Script = script!("announcement/withdraw");
static READ: Script = script!("announcement/read");

/// One write: everything, or a change of the revision `from`.
#[derive(Debug, Default)]
pub(crate) struct Change {
    /// `None`: what is there is replaced.
    pub(crate) from: Option<u64>,
    pub(crate) to: u64,
    pub(crate) removed: Vec<String>,
    pub(crate) set: Vec<(String, String)>,
}

/// Writes an announcement. `ttl` and `not_after` are in ms. The reply is read by
/// [`done`](super::done): `false` if the announcement has another revision, or is gone.
pub(crate) fn write(key: &Bytes, not_after: u64, ttl: u64, change: Change) -> Invocation {
    let Change { from, to, removed, set } = change;
    let mut args = Vec::with_capacity(6 + removed.len() + 2 * set.len());
    args.extend([key.into(), not_after.into(), ttl.into()]);
    args.push(from.map_or_else(|| "".into(), Arg::from));
    args.extend([to.into(), Arg::from(removed.len() as u64)]);
    let text = |text: String| Arg::Bytes(text.into());
    args.extend(removed.into_iter().map(text));
    args.extend(set.into_iter().flat_map(|(field, value)| [text(field), text(value)]));
    Invocation { script: &WRITE, keys: 1, args }
}

/// Removes an announcement.
pub(crate) fn withdraw(key: &Bytes) -> Invocation {
    Invocation { script: &WITHDRAW, keys: 1, args: vec![key.into()] }
}

/// The field of a hold. `None`: this is no holder id.
pub(crate) fn field(holder: &str, lock: &str) -> Option<String> {
    let (_, number) = client_of(holder)?;
    Some(format!("hold:{number}:{lock}"))
}

/// The value of that field.
pub(crate) fn hold(since: u64, note: Option<&str>) -> String {
    match note {
        Some(note) => format!("{since} {note}"),
        None => since.to_string(),
    }
}

/// Reads some announcements: their keys, and the field of a hold in each. The keys of one call
/// must share a slot.
pub(crate) fn read(asked: &[(String, String)]) -> Invocation {
    let text = |text: &String| Arg::Bytes(text.clone().into());
    let keys = asked.iter().map(|(key, _)| text(key));
    let args = keys.chain(asked.iter().map(|(_, field)| text(field))).collect();
    Invocation { script: &READ, keys: asked.len(), args }
}

/// What was read of a client and one of its holds. Times are in ms, those of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Announcement {
    pub(crate) now: u64,
    pub(crate) app: String,
    pub(crate) host: Option<String>,
    pub(crate) pid: Option<u32>,
    pub(crate) version: Option<String>,
    pub(crate) library: Option<String>,
    pub(crate) since: u64,
    pub(crate) seen: u64,
    /// Since when it holds the lock, and its note.
    pub(crate) hold: Option<(u64, Option<String>)>,
}

/// Reads the reply to [`read`]. `None` for a client that announces nothing.
pub(crate) fn announced(reply: &Reply) -> Result<Vec<Option<Announcement>>, WireError> {
    let Reply::Array(parts) = reply else { return Err(unexpected(reply)) };
    let Some((now, found)) = parts.split_first() else { return Err(unexpected(reply)) };
    let now = now.as_int().and_then(|now| u64::try_from(now).ok());
    let now = now.ok_or_else(|| unexpected(reply))?;
    let one = |values: &Reply| {
        let Reply::Array(values) = values else { return Err(unexpected(reply)) };
        let text = |at: usize| values.get(at).and_then(Reply::as_text);
        let number = |at: usize| text(at).and_then(|text| text.parse::<u64>().ok());
        let Some(app) = text(0) else { return Ok(None) };
        let hold = text(7).and_then(|hold| {
            let (since, note) = match hold.split_once(' ') {
                Some((since, note)) => (since, Some(note.to_owned())),
                None => (&*hold, None),
            };
            Some((since.parse().ok()?, note))
        });
        Ok(Some(Announcement {
            now,
            app,
            host: text(1),
            pid: number(2).and_then(|pid| pid.try_into().ok()),
            version: text(3),
            library: text(4),
            since: number(5).unwrap_or(now),
            seen: number(6).unwrap_or(now),
            hold,
        }))
    };
    found.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";

    #[test]
    fn a_field_names_the_hold_and_the_lock() {
        assert_eq!(field(ID, "order:42").unwrap(), "hold:17:order:42");
        let writer = format!("{ID}:write");
        assert_eq!(field(&writer, "{a}b").unwrap(), "hold:17:write:{a}b");
        assert!(field("mode", "l").is_none());
    }

    #[test]
    fn what_is_missing_or_written_by_others_is_left_out() {
        let text = |text: &str| Reply::Bytes(text.to_owned().into());
        let none = || Reply::Array(vec![Reply::Nil; 8]);
        let mut known = vec![text("orders"), Reply::Nil, text("x"), Reply::Nil, Reply::Nil];
        known.extend([text("90"), text("95"), text("92 a note of several words")]);
        let reply = Reply::Array(vec![Reply::Int(100), none(), Reply::Array(known)]);
        let found = announced(&reply).unwrap();
        let [None, Some(one)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((&*one.app, &one.host, one.pid), ("orders", &None, None));
        assert_eq!((one.now, one.since, one.seen), (100, 90, 95));
        assert_eq!(one.hold, Some((92, Some("a note of several words".into()))));
        assert!(announced(&Reply::Int(1)).is_err() && announced(&Reply::Array(vec![])).is_err());
    }
}
