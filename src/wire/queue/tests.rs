//! Which reply goes to which caller, and what callers without one are told.

use futures::FutureExt;

use super::*;
use crate::redis_error::RedisErrorKind;

const USUAL: Duration = Duration::from_secs(3);

fn queue(subscribes: bool) -> Queue {
    Queue::new(USUAL, subscribes)
}

/// A command that was written.
fn push(queue: &Queue, expected: Expected) -> oneshot::Receiver<Answer> {
    let answer = push_unwritten(queue, expected);
    queue.take(&mut Vec::new());
    answer
}

fn push_unwritten(queue: &Queue, expected: Expected) -> oneshot::Receiver<Answer> {
    let [answer] = queue.push(b"command", [expected], true).unwrap();
    answer
}

fn confirmation(kind: &'static str, channel: &str) -> Expected {
    Expected::Confirmation(kind, channel.to_owned())
}

/// As a server tells what became of a subscription, or sends a message.
fn told(kind: &'static str, channel: &'static str) -> Answer {
    Ok(Reply::Array(vec![
        Reply::Bytes(kind.into()),
        Reply::Bytes(channel.into()),
        Reply::Bytes("0".into()),
    ]))
}

fn redirected(text: &'static str) -> Answer {
    Err(Failure::new(FailureKind::Redirected, text))
}

/// For another slot than those of the channels here.
fn moved() -> Answer {
    redirected("MOVED 1 h:1")
}

/// A connection whose server has ended a subscription itself, just before it was to be ended.
fn queue_with_a_late_answer() -> Queue {
    let queue = queue(true);
    let mut ended = push(&queue, confirmation("sunsubscribe", "c"));
    assert!(queue.deliver(told("sunsubscribe", "c")).unwrap().is_none());
    assert_eq!(heard(&mut ended), Some(Ok(Reply::Nil)));
    queue
}

/// What the caller has been told so far.
fn heard(answer: &mut oneshot::Receiver<Answer>) -> Option<Answer> {
    answer.now_or_never().map(Result::unwrap)
}

#[tokio::test]
async fn replies_go_to_their_callers_in_order() {
    let queue = queue(false);
    let mut answers: Vec<_> = (0..3).map(|_| push(&queue, Expected::Reply)).collect();
    drop(answers.remove(1));
    for n in 0..3 {
        assert!(matches!(queue.deliver(Ok(Reply::Int(n))), Ok(None)));
    }
    assert_eq!(heard(&mut answers[0]), Some(Ok(Reply::Int(0))));
    assert_eq!(heard(&mut answers[1]), Some(Ok(Reply::Int(2))), "the caller between them is gone");
}

#[tokio::test]
async fn a_reply_that_nobody_asked_for_ends_the_connection() {
    assert!(queue(false).deliver(Ok(Reply::Int(1))).is_err());
    assert!(queue(true).deliver(Err(Failure::refused("ERR"))).is_err());
    // An array that looks like a message is a reply, where there are no messages.
    let queue = queue(false);
    let mut answer = push(&queue, Expected::Reply);
    assert!(matches!(queue.deliver(told("message", "c")), Ok(None)));
    assert_eq!(heard(&mut answer), Some(told("message", "c")));
}

#[tokio::test]
async fn messages_and_confirmations_shift_no_reply() {
    let queue = queue(true);
    let mut subscribed = push(&queue, confirmation("subscribe", "c"));
    let mut refused = push(&queue, confirmation("subscribe", "not allowed"));
    let mut ping = push(&queue, Expected::Reply);
    let message = queue.deliver(told("message", "other")).unwrap();
    assert!(matches!(message, Some(Heard::Message(channel)) if channel == "other"));
    assert!(queue.deliver(told("subscribe", "c")).unwrap().is_none());
    assert!(queue.deliver(Err(Failure::refused("NOPERM"))).unwrap().is_none());
    assert_eq!(heard(&mut ping), None);
    assert!(queue.deliver(Ok(Reply::Bytes("PONG".into()))).unwrap().is_none());
    assert_eq!(heard(&mut subscribed), Some(Ok(Reply::Nil)));
    assert_eq!(heard(&mut refused), Some(Err(Failure::refused("NOPERM"))));
    assert_eq!(heard(&mut ping), Some(Ok(Reply::Bytes("PONG".into()))));
}

/// redis-rs takes such an end for the reply to its oldest command, and fred tells nobody of it.
#[tokio::test]
async fn a_subscription_that_ends_with_its_slot_is_a_gap_and_shifts_no_reply() {
    let queue = queue(true);
    let gone = |queue: &Queue| {
        let heard = queue.deliver(told("sunsubscribe", "c")).unwrap();
        assert!(matches!(heard, Some(Heard::Dropped(1))));
    };
    gone(&queue);
    let mut other = push(&queue, confirmation("ssubscribe", "d"));
    gone(&queue);
    assert_eq!(heard(&mut other), None);
    assert!(queue.deliver(told("ssubscribe", "d")).unwrap().is_none());
    assert_eq!(heard(&mut other), Some(Ok(Reply::Nil)));

    // It ended just before it was to be ended. The answer to SUNSUBSCRIBE is late.
    let mut ended = push(&queue, confirmation("sunsubscribe", "c"));
    let mut ping = push(&queue, Expected::Reply);
    assert!(queue.deliver(told("sunsubscribe", "c")).unwrap().is_none());
    assert_eq!(heard(&mut ended), Some(Ok(Reply::Nil)));
    assert!(queue.deliver(moved()).unwrap().is_none());
    assert_eq!(heard(&mut ping), None);
    assert!(queue.deliver(Ok(Reply::Bytes("PONG".into()))).unwrap().is_none());
    assert_eq!(heard(&mut ping), Some(Ok(Reply::Bytes("PONG".into()))));
}

#[tokio::test]
async fn what_was_not_written_when_the_connection_ends_was_not_sent() {
    let queue = queue(false);
    let mut sent = push_unwritten(&queue, Expected::Reply);
    let mut buffer = Vec::new();
    queue.take(&mut buffer);
    assert_eq!(buffer, b"command");
    let mut unsent = push_unwritten(&queue, Expected::Reply);
    queue.close(Failure::gone());
    let kind = |answer: Option<Answer>| answer.unwrap().unwrap_err().kind;
    assert_eq!(kind(heard(&mut sent)), FailureKind::Gone);
    assert_eq!(kind(heard(&mut unsent)), FailureKind::NotSent);
    let later = queue.push(b"command", [Expected::Reply], true);
    assert_eq!(later.unwrap_err().kind, FailureKind::NotSent);
    buffer.clear();
    queue.take(&mut buffer);
    assert!(buffer.is_empty(), "what was not sent is not sent later");
}

/// A server that speaks first, and no Redis, is told as one that answers so. Its words may be valid, as `+OK` is.
#[tokio::test]
async fn why_a_connection_ended_is_told_for_what_was_not_sent_too() {
    let greeted = || queue(false).deliver(Ok(Reply::Int(1))).err().expect("nobody asked");
    for why in [Failure::foreign(FailureKind::Gone, "HTTP"), greeted()] {
        let queue = queue(false);
        let mut unsent = push_unwritten(&queue, Expected::Reply);
        queue.close(why);
        let later = queue.push(b"command", [Expected::Reply], true).unwrap_err();
        for failure in [heard(&mut unsent).unwrap().unwrap_err(), later] {
            assert_eq!(failure.kind, FailureKind::NotSent);
            assert_eq!(failure.error_kind(), RedisErrorKind::Protocol);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_command_times_out_in_its_time_and_its_late_reply_goes_to_nobody() {
    let queue = queue(false);
    assert_eq!(queue.expire(), None);
    let mut first = push(&queue, Expected::Reply);
    queue.watched.notified().now_or_never().expect("there is a command to look after");
    let [mut patient] = queue.push(b"command", [Expected::Reply], false).unwrap();
    tokio::time::sleep(USUAL / 2).await;
    let mut second = push(&queue, Expected::Reply);
    let next = queue.expire().unwrap();
    assert_eq!(next, Instant::now() + USUAL / 2);
    tokio::time::sleep_until(next).await;
    assert_eq!(queue.expire(), Some(next + USUAL / 2));
    assert_eq!(heard(&mut first), Some(Err(Failure::timed_out())));
    for n in 0..3 {
        assert!(matches!(queue.deliver(Ok(Reply::Int(n))), Ok(None)));
    }
    assert_eq!(heard(&mut patient), Some(Ok(Reply::Int(1))));
    assert_eq!(heard(&mut second), Some(Ok(Reply::Int(2))));
}

#[tokio::test]
async fn a_full_queue_takes_no_more_and_keeps_nobody_waiting() {
    let queue = queue(false);
    let answers: Vec<_> = (0..MOST_COMMANDS).map(|_| push(&queue, Expected::Reply)).collect();
    let full = queue.push(b"command", [Expected::Reply], true);
    assert_eq!(full.unwrap_err().kind, FailureKind::Full);
    drop(answers);
    let long = vec![0; MOST_BYTES + 1];
    let full = self::queue(false).push(&long, [Expected::Reply], true);
    assert_eq!(full.unwrap_err().kind, FailureKind::Full);
}

/// A server that has too many clients says so before it reads a command.
#[tokio::test]
async fn what_a_server_says_before_a_command_is_written_ends_the_connection() {
    let queue = queue(false);
    let mut unsent = push_unwritten(&queue, Expected::Reply);
    let why = queue.deliver(Err(Failure::refused("ERR max number of clients reached")));
    queue.close(why.err().unwrap());
    let told = heard(&mut unsent).unwrap().unwrap_err();
    assert_eq!(told.kind, FailureKind::NotSent);
    assert_eq!(told.error_kind(), RedisErrorKind::TooManyClients);
    assert_eq!(told.text, "ERR max number of clients reached");
}

#[tokio::test]
async fn a_server_that_refuses_the_connection_with_misconf_does_not_serve() {
    let queue = queue(false);
    let mut ping = push(&queue, Expected::Reply);
    let misconf = || Err(Failure::refused("MISCONF no more writes"));
    assert!(queue.deliver(misconf()).unwrap().is_none());
    assert!(heard(&mut ping).unwrap().unwrap_err().cannot_save());
    let queue = self::queue(false);
    let mut ping = push_unwritten(&queue, Expected::Reply);
    queue.close(queue.deliver(misconf()).err().unwrap());
    assert!(!heard(&mut ping).unwrap().unwrap_err().cannot_save());
}

/// A second answer to AUTH may repeat the password.
#[tokio::test]
async fn what_a_server_says_unasked_after_a_command_is_not_told() {
    let queue = queue(false);
    let mut answered = push(&queue, Expected::Reply);
    assert!(queue.deliver(Ok(Reply::Nil)).unwrap().is_none());
    assert_eq!(heard(&mut answered), Some(Ok(Reply::Nil)));
    let mut unsent = push_unwritten(&queue, Expected::Reply);
    let why = queue.deliver(Err(Failure::refused("ERR unknown command, with args: 'secret'")));
    queue.close(why.err().unwrap());
    let told = heard(&mut unsent).unwrap().unwrap_err();
    assert_eq!(told.error_kind(), RedisErrorKind::Protocol);
    assert_eq!(told.text, Failure::unasked().text);
}

/// The next subscription has not been written yet.
#[tokio::test]
async fn the_late_answer_to_a_sunsubscribe_is_not_for_a_subscription_that_was_not_written() {
    let queue = queue(true);
    let _ended = push(&queue, confirmation("sunsubscribe", "c"));
    assert!(queue.deliver(told("sunsubscribe", "c")).unwrap().is_none());
    let mut unsent = push_unwritten(&queue, confirmation("ssubscribe", "d"));
    assert!(queue.deliver(moved()).unwrap().is_none());
    assert_eq!(heard(&mut unsent), None);
}

#[tokio::test]
async fn a_reply_does_not_go_to_a_command_that_was_not_written() {
    let queue = queue(false);
    let mut unsent = push_unwritten(&queue, Expected::Reply);
    assert!(queue.deliver(Ok(Reply::Nil)).is_err(), "nobody can have asked for it");
    queue.close(Failure::gone());
    assert_eq!(heard(&mut unsent).unwrap().unwrap_err().kind, FailureKind::NotSent);
}

/// Its subscription ended just before it was to be ended, and nothing else waits.
#[tokio::test]
async fn the_late_answer_to_a_sunsubscribe_does_not_end_the_connection() {
    let queue = queue(true);
    let _ended = push(&queue, confirmation("sunsubscribe", "c"));
    assert!(queue.deliver(told("sunsubscribe", "c")).unwrap().is_none());
    assert!(queue.deliver(moved()).unwrap().is_none());
}

/// The slot of `d` is 11298.
#[tokio::test]
async fn the_late_answer_to_a_sunsubscribe_is_not_for_a_subscription_of_another_slot() {
    let queue = queue_with_a_late_answer();
    let mut refused = push(&queue, confirmation("ssubscribe", "d"));
    let mut ping = push(&queue, Expected::Reply);
    assert!(queue.deliver(moved()).unwrap().is_none());
    assert_eq!(heard(&mut refused), None);
    let own = || redirected("MOVED 11298 h:1");
    assert!(queue.deliver(own()).unwrap().is_none());
    assert_eq!(heard(&mut refused), Some(own()));
    assert!(queue.deliver(Ok(Reply::Bytes("PONG".into()))).unwrap().is_none());
    assert_eq!(heard(&mut ping), Some(Ok(Reply::Bytes("PONG".into()))));
}

/// It names no slot.
#[tokio::test]
async fn a_late_clusterdown_shifts_no_reply_and_does_not_end_the_connection() {
    let down = || redirected("CLUSTERDOWN Hash slot not served");
    let queue = queue_with_a_late_answer();
    assert!(queue.deliver(down()).unwrap().is_none(), "nothing else waits");
    let mut ping = push(&queue, Expected::Reply);
    assert!(queue.deliver(down()).unwrap().is_none());
    assert_eq!(heard(&mut ping), None);
    assert!(queue.deliver(Ok(Reply::Bytes("PONG".into()))).unwrap().is_none());
    assert_eq!(heard(&mut ping), Some(Ok(Reply::Bytes("PONG".into()))));
    let mut refused = push(&queue, confirmation("ssubscribe", "d"));
    assert!(queue.deliver(down()).unwrap().is_none());
    assert_eq!(heard(&mut refused), Some(down()), "that of a written one is its own");
    assert!(self::queue(false).deliver(down()).is_err(), "nothing was subscribed");
    assert!(self::queue(true).deliver(down()).is_err(), "nothing was written");
}
