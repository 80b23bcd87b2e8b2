use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use super::*;

/// What a server says, one after the other: `None` is the answer to the latest PING.
struct Said(Mutex<VecDeque<Option<Answer>>>, AtomicU32);

impl Said {
    fn new(said: impl IntoIterator<Item = Option<Answer>>) -> Self {
        Self(Mutex::new(said.into_iter().collect()), AtomicU32::new(0))
    }

    async fn next(&self, mark: String) -> Answer {
        self.1.fetch_add(1, Ordering::Relaxed);
        let next = self.0.lock().unwrap().pop_front().expect("no more PINGs");
        next.unwrap_or(Ok(Reply::Bytes(mark.into())))
    }

    async fn pass(&self) -> Result<(), Failure> {
        pass(|mark| self.next(mark)).await
    }

    fn pings(&self) -> u32 {
        self.1.load(Ordering::Relaxed)
    }
}

fn refusal(text: &'static str) -> Option<Answer> {
    Some(Err(Failure::refused(text)))
}

fn stale() -> Option<Answer> {
    Some(Ok(Reply::Array(vec![Reply::Bytes("pong".into()), Reply::Bytes("another".into())])))
}

#[tokio::test(start_paused = true)]
async fn what_is_done_is_told_by_the_answer_to_its_own_ping() {
    let said = Said::new([None]);
    said.pass().await.unwrap();
    assert_eq!(said.pings(), 1);
}

/// Redis that cannot save refuses PING, and subscribes all the same.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_save_has_done_it() {
    Said::new([refusal("MISCONF no disk")]).pass().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_when_the_answers_are_in_step_again() {
    let said = Said::new([refusal("NOPERM no"), stale(), refusal("NOPERM no"), stale(), None]);
    let told = said.pass().await.unwrap_err();
    assert_eq!((told.kind, &*told.text), (FailureKind::Refused, "NOPERM no"));
    assert_eq!(said.pings(), 5);
}

/// What was sent before was refused, and given up by its caller.
#[tokio::test(start_paused = true)]
async fn the_answer_to_another_command_confirms_nothing() {
    let said = Said::new([stale(), stale(), None]);
    assert_eq!(said.pass().await.unwrap_err().kind, FailureKind::Gone);
    assert_eq!(said.pings(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_meanwhile_is_told() {
    let said = Said::new([refusal("NOPERM no"), Some(Err(Failure::timed_out()))]);
    assert_eq!(said.pass().await.unwrap_err().kind, FailureKind::TimedOut);
}

/// A user may have no right to PING.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_each_ping_is_not_asked_for_ever() {
    let said = Said::new((0..=MOST_PINGS).map(|_| refusal("NOPERM no")));
    assert_eq!(said.pass().await.unwrap_err().kind, FailureKind::Refused);
    assert_eq!(said.pings(), 1 + MOST_PINGS);
}

#[test]
fn a_confirmation_names_its_channel() {
    let answer = |kind: &str, channel: &str| {
        let parts = [kind, channel].map(|part| Reply::Bytes(part.to_owned().into()));
        Ok(Reply::Array([&parts[..], &[Reply::Int(1)]].concat()))
    };
    let told = |answer| confirmed(answer, "ssubscribe", "a");
    told(answer("ssubscribe", "a")).unwrap();
    for other in [answer("ssubscribe", "b"), answer("pong", "a"), Ok(Reply::Nil)] {
        assert_eq!(told(other).unwrap_err().kind, FailureKind::Gone);
    }
    assert_eq!(told(Err(Failure::refused("no"))).unwrap_err().kind, FailureKind::Refused);
}
