//! What is seen of a server: its keys, its messages, its answers.

use std::collections::BTreeMap;

use harness::redis::{Value, from_redis_value};

use super::Ms;
use super::invocation::{EPOCH_MS, REAL_MS_PER_MS};

/// A watched key, as the server showed it last.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Seen {
    /// When it expires; `None` is never.
    pub(crate) until: Option<Ms>,
    /// A string.
    pub(crate) text: String,
    /// The fields of a hash.
    pub(crate) fields: BTreeMap<String, String>,
    /// The items of a list.
    pub(crate) items: Vec<String>,
    /// The members of a sorted set, each with its score as a moment on the virtual clock.
    pub(crate) moments: BTreeMap<String, f64>,
}

/// A message that somebody published.
#[derive(Debug, PartialEq)]
pub(crate) struct Message {
    pub(crate) channel: String,
    pub(crate) text: String,
}

/// What came of a script call.
pub(super) struct Outcome {
    pub(super) answer: Value,
    /// The watched keys after it.
    pub(super) seen: BTreeMap<String, Seen>,
    pub(super) messages: Vec<Message>,
}

pub(super) fn saw(looked: Value, now: Ms) -> BTreeMap<String, Seen> {
    let looked: Vec<(String, i64, String, Value)> = from_redis_value(looked).expect("keys");
    let seen = looked.into_iter().map(|(key, ttl, sort, content)| {
        let until = virtual_ms(ttl).map(|time| now + time);
        let mut seen = Seen { until, ..Seen::default() };
        match sort.as_str() {
            "string" => seen.text = from_redis_value(content).expect("a string"),
            "hash" => seen.fields = from_redis_value(content).expect("fields and values"),
            "list" => seen.items = from_redis_value(content).expect("items"),
            _ => {
                let scores: BTreeMap<String, f64> = from_redis_value(content).expect("scores");
                let moment = |score: f64| (score - EPOCH_MS as f64) / REAL_MS_PER_MS as f64;
                seen.moments =
                    scores.into_iter().map(|(member, score)| (member, moment(score))).collect();
            }
        }
        (key, seen)
    });
    seen.collect()
}

/// A time that a script has answered; `None` when it is negative.
pub(crate) fn virtual_ms(answered: i64) -> Option<Ms> {
    u64::try_from(answered).ok().map(|real| real.div_ceil(REAL_MS_PER_MS))
}

/// An answer for a reader, in virtual time.
pub(super) fn spoken(answer: &Value) -> String {
    match answer {
        Value::Nil => "nil".into(),
        Value::Int(EPOCH_MS..) => "now".into(),
        Value::Int(ttl) if ttl.unsigned_abs() >= REAL_MS_PER_MS / 2 => {
            format!("{} ms", ttl.unsigned_abs().div_ceil(REAL_MS_PER_MS))
        }
        Value::Int(number) => number.to_string(),
        Value::Array(parts) => {
            format!("{{{}}}", parts.iter().map(spoken).collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}
