//! What tells two servers apart: after each script both have answered, kept and published the same.

use std::collections::BTreeMap;

use harness::redis::Value;

use super::Ms;
use super::invocation::Invocation;
use super::seen::{Outcome, Seen, spoken};

/// What the milliseconds that a real server takes come to on the virtual clock, at most.
const NOISE: f64 = 0.01;

/// What the server in process did otherwise, if anything.
pub(super) fn difference(
    call: &Invocation,
    now: Ms,
    real: &Outcome,
    ours: &Outcome,
) -> Option<String> {
    let is_same = told(&real.answer) == told(&ours.answer)
        && is_like(&real.seen, &ours.seen)
        && real.messages == ours.messages;
    (!is_same).then(|| {
        let [real_answer, our_answer] = [real, ours].map(|outcome| told(&outcome.answer));
        format!(
            "{} for {:?} {:?} at {now}\nthe real server: {real_answer} {:?} {:?}\nthe one in process: {our_answer} {:?} {:?}",
            call.script.text(),
            call.keys,
            call.args,
            real.seen,
            real.messages,
            ours.seen,
            ours.messages,
        )
    })
}

/// Of an error only the code: it tells the line, and before ours there stands one more.
fn told(answer: &Value) -> String {
    match answer {
        Value::ServerError(error) => error.code().into(),
        answer => spoken(answer),
    }
}

fn is_like(real: &BTreeMap<String, Seen>, ours: &BTreeMap<String, Seen>) -> bool {
    let is_near = |(one, other): ((&String, &f64), (&String, &f64))| {
        one.0 == other.0 && (one.1 - other.1).abs() < NOISE
    };
    let is_alike = |((key, real), (other, ours)): ((&String, &Seen), (&String, &Seen))| {
        let without_moments = |seen: &Seen| Seen { moments: BTreeMap::new(), ..seen.clone() };
        key == other
            && without_moments(real) == without_moments(ours)
            && real.moments.len() == ours.moments.len()
            && real.moments.iter().zip(&ours.moments).all(is_near)
    };
    real.len() == ours.len() && real.iter().zip(ours).all(is_alike)
}
