//! Who the holders are, as far as their clients announce it.

use std::time::{SystemTime, UNIX_EPOCH};

use redisson_lock::Announced;
use serde_json::{Value as Json, json};

use crate::duration::shown;

/// What is said of a holder that announces nothing: a Redisson, or a client of this crate without
/// `Config::announce`.
const UNKNOWN: &str = "unknown";

/// One holder, in a line.
pub(crate) fn told(announced: Option<&Announced>) -> String {
    let Some(it) = announced else { return UNKNOWN.to_owned() };
    let mut text = it.app.clone();
    if let Some(version) = &it.version {
        text.push_str(&format!(" {version}"));
    }
    if let Some(host) = &it.host {
        text.push_str(&format!(" on {host}"));
    }
    if let Some(pid) = it.pid {
        text.push_str(&format!(", process {pid}"));
    }
    if let Some(held) = it.held_for {
        text.push_str(&format!(", for {}", shown(held)));
    }
    if let Some(note) = &it.note {
        text.push_str(&format!(": {note}"));
    }
    text.push_str(&format!(" (seen {} ago)", shown(it.last_seen)));
    text
}

pub(crate) fn in_json(announced: Option<&Announced>) -> Json {
    let ms = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
    announced.map_or(Json::Null, |it| {
        json!({
            "app": it.app,
            "host": it.host,
            "pid": it.pid,
            "version": it.version,
            "library": it.library,
            "since_ms": ms(it.since),
            "last_seen_ms": it.last_seen.as_millis() as u64,
            "held_since_ms": it.held_since.map(ms),
            "held_for_ms": it.held_for.map(|held| held.as_millis() as u64),
            "note": it.note,
        })
    })
}
