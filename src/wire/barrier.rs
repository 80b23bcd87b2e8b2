//! [`pass`]: the server's refusal of a command, over a driver that answers the command at once and drops
//! what the server says of it, as fred does with SUBSCRIBE and UNSUBSCRIBE.
//!
//! A PING is written right behind such commands, before anything is read. If they are done, only the PING is
//! answered. If one is refused, the PING gets the refusal, and its own answer is left for the next command.
//! So each PING has a mark, which its answer repeats, and a refusal is told only when the answers are in step
//! again.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::time::sleep;

use super::{
    answers::{Answer, Failure, FailureKind},
    script::Reply,
};
use crate::backoff::Backoff;

/// How many PINGs are sent to bring the answers in step, and the pauses between them. A driver drops an answer
/// that comes while no command waits for it.
const MOST_PINGS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Completes when the commands are done, or one is refused. `ping` sends a PING with this mark, and returns what
/// is taken for its answer. Its first call writes the commands before the PING.
pub(super) async fn pass<F: Future<Output = Answer>>(
    mut ping: impl FnMut(String) -> F,
) -> Result<(), Failure> {
    let mark = next_mark();
    let told = match ping(mark.clone()).await {
        Ok(reply) if repeats(&reply, &mark) => return Ok(()),
        Err(error) if error.cannot_save() => return Ok(()),
        Err(error) if error.is_of_connection() => return Err(error),
        // Of these commands, or of others before them that were given up.
        Err(error) => error,
        // Nobody knows what was said of them.
        Ok(_) => Failure::new(FailureKind::Gone, "the answer to another command came"),
    };
    let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
    for _ in 0..MOST_PINGS {
        let mark = next_mark();
        match ping(mark.clone()).await {
            Ok(reply) if repeats(&reply, &mark) => break,
            Err(error) if error.cannot_save() => break,
            Err(error) if error.is_of_connection() => return Err(error),
            _ => sleep(backoff.next()).await,
        }
    }
    Err(told)
}

/// Whether it confirms one channel, and is the answer to that command.
pub(super) fn confirmed(answer: Answer, kind: &str, channel: &str) -> Result<(), Failure> {
    match answer? {
        Reply::Array(parts) if matches!(&parts[..], [Reply::Bytes(a), Reply::Bytes(b), _] if a == kind && b == channel) => {
            Ok(())
        }
        _ => Err(Failure::new(FailureKind::Gone, "the answer to another command came")),
    }
}

fn next_mark() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed).to_string()
}

/// Whether it is the answer to the PING with this mark. A connection with subscriptions answers by an array.
fn repeats(reply: &Reply, mark: &str) -> bool {
    match reply {
        Reply::Bytes(text) => text == mark,
        Reply::Array(parts) => matches!(&parts[..], [_, Reply::Bytes(text)] if text == mark),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
