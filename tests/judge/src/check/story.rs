//! The events that a finding is concluded from.

use crate::{
    check::Court,
    history::Nanos,
    run::{Guard, Op, Outcome},
    verdict::Line,
};

pub(super) fn line(at: Nanos, who: &str, what: impl Into<String>) -> Line {
    Line { at, who: who.to_owned(), what: what.into() }
}

/// An operation, from its invocation to its answer.
pub(super) fn operation(op: &Op<'_>) -> Vec<Line> {
    let number = op.number;
    let mut story = vec![line(op.invoked, op.process, format!("#{number} {:?}", op.call))];
    if let Some(over) = op.over {
        let outcome = match op.outcome {
            Outcome::Answered(answer) => format!("{answer:?}"),
            outcome => format!("{outcome:?}"),
        };
        story.push(line(over, op.process, format!("#{number} {outcome}")));
    }
    story
}

impl Court<'_, '_> {
    /// A guard: what its user saw, and what the servers did.
    pub(super) fn guard_story(&self, guard: &Guard<'_>) -> Vec<Line> {
        let (who, number) = (guard.process, guard.number);
        let mut story = vec![
            line(guard.invoked, who, format!("asks for guard {number}")),
            line(guard.granted, who, format!("has guard {number}, id {}", guard.id())),
        ];
        if let Some((at, why)) = guard.lost {
            story.push(line(at, who, format!("is told that guard {number} is lost: {why:?}")));
        }
        if let Some((at, _)) = guard.given_back {
            story.push(line(at, who, format!("gives guard {number} back")));
        }
        if let Some(at) = guard.died {
            story.push(line(at, who, "dies"));
        }
        let believed = guard.belief();
        for sleep in &self.run.process(who).sleeps {
            if sleep.overlap(believed).is_some() {
                story.push(line(sleep.from, who, "sleeps"));
                story.push(line(sleep.to, who, "is awake"));
            }
        }
        let Some(servers) = self.servers else { return story };
        for hold in &guard.holds {
            let Some(place) = guard.locks.get(hold.place) else { continue };
            let Some(lock) = servers.lock((&place.server, &place.name)) else { continue };
            for tenure in lock.all_of(&hold.id) {
                let server = format!("server {}", place.server);
                let (id, until) = (tenure.id, tenure.until as f64 / 1e9);
                story.push(line(tenure.span.from, &server, format!("grants to {id}")));
                let end = format!(
                    "no longer holds for {id}: {:?}, lease until {until:.6} s",
                    tenure.cause
                );
                story.push(line(tenure.span.to, &server, end));
            }
        }
        story
    }
}
