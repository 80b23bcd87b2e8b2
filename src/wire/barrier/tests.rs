use std::collections::VecDeque;

use futures::FutureExt;

use super::*;

mod late;

const WITHIN: Duration = Duration::from_secs(3);

/// What a server says, one after the other: `None` is the answer to the latest PING.
struct Said(VecDeque<Option<Answer>>);

impl Said {
    fn new(said: impl IntoIterator<Item = Option<Answer>>) -> Self {
        Self(said.into_iter().collect())
    }

    async fn pass(&mut self, barrier: &Barrier) -> Result<(), Failure> {
        let ping = |mark: String| {
            let next = self.0.pop_front().expect("no more PINGs");
            std::future::ready(next.unwrap_or(Ok(Reply::Bytes(mark.into()))))
        };
        barrier.pass(WITHIN, ping).await
    }

    /// On a new connection. All of it is heard.
    async fn kind(mut self) -> Result<(), FailureKind> {
        let told = self.pass(&Barrier::new()).await;
        assert!(self.0.is_empty(), "{} are not asked for", self.0.len());
        told.map_err(|error| error.kind)
    }
}

fn refusal(text: &'static str) -> Option<Answer> {
    Some(Err(Failure::refused(text)))
}

fn no() -> Option<Answer> {
    refusal("NOPERM no")
}

fn cannot_save() -> Option<Answer> {
    refusal("MISCONF no disk")
}

fn stale() -> Option<Answer> {
    Some(Ok(Reply::Array(vec![Reply::Bytes("pong".into()), Reply::Bytes("another".into())])))
}

#[tokio::test(start_paused = true)]
async fn what_is_done_is_told_by_the_answer_to_its_own_ping() {
    Said::new([None]).kind().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_told_when_the_answers_are_in_step_again() {
    let told = Said::new([no(), stale(), no(), None]).kind().await;
    assert_eq!(told, Err(FailureKind::Refused));
}

/// What was sent before was refused, and given up by its caller.
#[tokio::test(start_paused = true)]
async fn the_answer_to_another_command_confirms_nothing() {
    assert_eq!(Said::new([stale(), stale(), None]).kind().await, Err(FailureKind::TimedOut));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_told_and_its_answers_are_not_in_step() {
    let broken = || Some(Err(Failure::timed_out()));
    for (said, told) in [
        (vec![broken()], FailureKind::TimedOut),
        (vec![no(), broken()], FailureKind::Refused),
        (vec![Some(Err(Failure::new(FailureKind::Full, "full")))], FailureKind::Full),
    ] {
        let barrier = Barrier::new();
        assert_eq!(Said::new(said).pass(&barrier).await.unwrap_err().kind, told);
        let next = Said::new([no(), None]).pass(&barrier).await;
        assert_eq!(next.unwrap_err().kind, FailureKind::TimedOut, "it may be an old one");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_a_number_nor_nothing_is_the_answer_to_a_ping() {
    for other in [Reply::Int(1), Reply::Nil, Reply::Array(Vec::new())] {
        let told = Said::new([Some(Ok(other)), None]).kind().await;
        assert_eq!(told, Err(FailureKind::TimedOut));
    }
}

/// Its answer, too, would go to another command.
#[tokio::test(start_paused = true)]
async fn commands_with_answers_of_their_own_are_sent_when_the_answers_are_in_step() {
    let barrier = Barrier::new();
    let sent = std::cell::Cell::new(0);
    let command = async || {
        sent.set(sent.get() + 1);
        Ok(())
    };
    let no_ping = |_: String| std::future::pending();
    barrier.in_step(WITHIN, no_ping, command()).await.unwrap();

    assert!(barrier.pass(WITHIN, no_ping).now_or_never().is_none(), "given up meanwhile");
    let broken = |_: String| std::future::ready(Err(Failure::gone()));
    let told = barrier.in_step(WITHIN, broken, command()).await;
    assert_eq!((told.unwrap_err().kind, sent.get()), (FailureKind::TimedOut, 1));

    let mut said = Said::new([stale(), None]);
    let ping = |mark: String| {
        let next = said.0.pop_front().expect("no more PINGs");
        std::future::ready(next.unwrap_or(Ok(Reply::Bytes(mark.into()))))
    };
    barrier.in_step(WITHIN, ping, command()).await.unwrap();
    assert!(said.0.is_empty() && sent.get() == 2);

    for told in [unclear(), Failure::refused("NOPERM no")] {
        let barrier = Barrier::new();
        barrier.in_step(WITHIN, no_ping, async { Err::<(), _>(told) }).await.unwrap_err();
        let refused = Said::new([no(), None]).pass(&barrier).await;
        assert_eq!(refused.unwrap_err().kind, FailureKind::TimedOut, "it may be another's");
    }
}

/// It may be a future that nobody polls.
#[tokio::test(start_paused = true)]
async fn an_exchange_without_an_end_is_not_waited_for_for_ever() {
    let barrier = Barrier::new();
    let never = |_: String| std::future::pending();
    let mut unpolled = std::pin::pin!(barrier.pass(WITHIN, never));
    assert!(futures::poll!(&mut unpolled).is_pending());
    assert_eq!(barrier.pass(WITHIN, never).await.unwrap_err().kind, FailureKind::TimedOut);
    let told = barrier.in_step(WITHIN, never, async { Ok(()) }).await;
    assert_eq!(told.unwrap_err().kind, FailureKind::TimedOut);
}

/// A user may have no right to PING.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_each_ping_is_not_asked_for_ever() {
    let told = Said::new((0..=MOST_PINGS).map(|_| no())).kind().await;
    assert_eq!(told, Err(FailureKind::Refused));
}

/// It has answered another PING, so it has marks, and the answer to its last one is still to come.
#[tokio::test(start_paused = true)]
async fn a_server_with_marks_is_believed_when_its_last_mark_has_come() {
    let barrier = Barrier::new();
    for (said, told) in [
        (vec![no(), stale(), stale(), stale()], FailureKind::Refused),
        (vec![no(), stale(), None], FailureKind::TimedOut),
        (vec![no(), None], FailureKind::Refused),
    ] {
        assert_eq!(Said::new(said).pass(&barrier).await.unwrap_err().kind, told);
    }
}

/// These are the answers to the end of subscriptions that have moved away.
#[tokio::test(start_paused = true)]
async fn a_redirection_is_no_answer_to_a_ping() {
    let barrier = Barrier::new();
    let moved = || Some(Err(Failure::new(FailureKind::Redirected, "MOVED 1 h:1")));
    let told = Said::new([moved(), moved(), moved(), moved()]).pass(&barrier).await;
    assert_eq!(told.unwrap_err().kind, FailureKind::Redirected);
    let next = Said::new([no(), None]).pass(&barrier).await;
    assert_eq!(next.unwrap_err().kind, FailureKind::TimedOut, "more of them may come");
}

/// Redis that cannot save refuses PING, and subscribes all the same.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_save_is_believed_if_the_answers_are_in_step() {
    Said::new([cannot_save()]).kind().await.unwrap();
    // Its answers have no marks: each of them may be left from before.
    let refused = || [no()].into_iter().chain((0..MOST_PINGS).map(|_| cannot_save()));
    assert_eq!(Said::new(refused()).kind().await, Err(FailureKind::Refused));

    let barrier = Barrier::new();
    let never = |_: String| std::future::pending();
    assert!(barrier.pass(WITHIN, never).now_or_never().is_none(), "given up meanwhile");
    let mut left = Said::new((0..=MOST_PINGS).map(|_| cannot_save()));
    assert_eq!(left.pass(&barrier).await.unwrap_err().kind, FailureKind::TimedOut);
    Said::new([cannot_save()]).pass(&barrier).await.unwrap();
}

/// The refusal may be that of the one before.
#[tokio::test(start_paused = true)]
async fn after_one_that_was_given_up_a_refusal_is_nobodys() {
    let barrier = Barrier::new();
    let never = |_: String| std::future::pending();
    assert!(barrier.pass(WITHIN, never).now_or_never().is_none(), "given up meanwhile");
    let mut left = Said::new([no(), stale(), None, None]);
    assert_eq!(left.pass(&barrier).await.unwrap_err().kind, FailureKind::TimedOut);
    left.pass(&barrier).await.unwrap();
}

/// Also where a command may take less than the pauses.
#[tokio::test(start_paused = true)]
async fn to_get_in_step_takes_no_longer_than_a_command_may_or_a_second() {
    for (within, each, most) in [
        (WITHIN, WITHIN * 2 / 3, WITHIN),
        (Duration::from_millis(10), Duration::from_millis(300), LEAST),
        (Duration::from_millis(10), Duration::ZERO, LEAST / 2),
    ] {
        let (begun, barrier) = (tokio::time::Instant::now(), Barrier::new());
        let mut asked = 0;
        let slow = |_: String| {
            asked += 1;
            let pause = if asked == 1 { Duration::ZERO } else { each };
            async move {
                sleep(pause).await;
                Err(Failure::refused("NOPERM no"))
            }
        };
        let told = barrier.pass(within, slow).await;
        assert_eq!(told.unwrap_err().kind, FailureKind::Refused);
        let took = begun.elapsed();
        assert!(took <= most, "{took:?}");
        assert_eq!(barrier.0.lock().await.in_step, each.is_zero(), "after {asked} PINGs");
    }
}

/// Another's answers would be taken for its own.
#[tokio::test(start_paused = true)]
async fn one_exchange_waits_for_the_other() {
    let barrier = Barrier::new();
    let slow = |mark: String| async move {
        sleep(Duration::from_secs(1)).await;
        Ok(Reply::Bytes(mark.into()))
    };
    let begun = tokio::time::Instant::now();
    let (one, other) = tokio::join!(barrier.pass(WITHIN, slow), barrier.pass(WITHIN, slow));
    assert!(one.and(other).is_ok() && begun.elapsed() >= Duration::from_secs(2));
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
        assert_eq!(told(other).unwrap_err().kind, FailureKind::TimedOut);
    }
    assert_eq!(told(Err(Failure::refused("no"))).unwrap_err().kind, FailureKind::Refused);
}
