//! [`Barrier`]: what a server says of SUBSCRIBE, UNSUBSCRIBE and SUNSUBSCRIBE, over a driver that answers
//! these commands at once and drops the server's confirmation, as fred does.
//!
//! A PING is written right behind the commands, before anything is read. If they are done, only the answer to
//! the PING reaches a command. If one is refused, the PING gets the refusal, and the answer to the PING is left
//! for the next command. So each PING has a mark, which its answer repeats, and after a refusal further PINGs
//! bring the answers in step again: a driver drops what comes while no command waits for it. Other commands of the
//! connection would get each other's answers meanwhile: SSUBSCRIBE waits for its turn.
//!
//! A server that cannot save answers PING by an error, which has no mark. It is believed only if the answers
//! were in step before.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, sleep, timeout},
};

use super::{
    answers::{Answer, Failure, FailureKind},
    script::Reply,
};
use crate::backoff::Backoff;

/// How many PINGs are sent to bring the answers in step. A pause after each is as long as the slowest of them took, and
/// by this longer: what is late comes meanwhile, and is dropped. The last pause is by [`LONGEST_PAUSE`] longer.
const MOST_PINGS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The least time for that.
const LEAST: Duration = Duration::from_secs(1);

/// How many exchanges of the longest time an exchange waits for.
const MOST_BEFORE: u32 = 4;

/// The barrier of one connection.
pub(super) struct Barrier {
    /// Whether each answer is known to go to its own command. It may not after a refusal, and after an exchange
    /// that had no end.
    in_step: Mutex<bool>,
}

impl Barrier {
    pub(super) fn new() -> Self {
        Self { in_step: Mutex::new(true) }
    }

    /// Completes when the commands are done, when one is refused, or when nobody can know. `ping` sends a PING
    /// with this mark, and returns what is taken for its answer. Its first call writes the commands before the
    /// PING. To bring the answers in step takes no longer than `within`, or [`LEAST`]. Exchanges of one connection
    /// wait for each other, but not without a bound: one of them may not be polled.
    pub(super) async fn pass<F: Future<Output = Answer>>(
        &self,
        within: Duration,
        mut ping: impl FnMut(String) -> F,
    ) -> Result<(), Failure> {
        let mut in_step = self.turn(within).await?;
        let was_in_step = std::mem::replace(&mut *in_step, false);
        let mark = next_mark();
        let told = match ping(mark.clone()).await {
            Ok(reply) if repeats(&reply, &mark) => Ok(()),
            Err(error) if error.cannot_save() && was_in_step => Ok(()),
            Err(error) if is_no_answer(&error) => return Err(error),
            Err(error) if was_in_step => Err(error),
            // It may be about other commands, whose caller has gone.
            _ => Err(unclear()),
        };
        *in_step = told.is_ok() || get_in_step(within, ping).await;
        told
    }

    /// Sends commands that have answers of their own, when the answers are in step. It may be dropped meanwhile: a
    /// driver knows for which command an answer is, though nobody wants it any more.
    pub(super) async fn in_step<T, F: Future<Output = Answer>>(
        &self,
        within: Duration,
        ping: impl FnMut(String) -> F,
        commands: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let mut in_step = self.turn(within).await?;
        *in_step = *in_step || get_in_step(within, ping).await;
        if !*in_step {
            return Err(unclear());
        }
        commands.await
    }

    /// Waits for the exchanges before.
    async fn turn(&self, within: Duration) -> Result<MutexGuard<'_, bool>, Failure> {
        let turn = timeout(MOST_BEFORE * 2 * within.max(LEAST), self.in_step.lock()).await;
        turn.map_err(|_| Failure::timed_out())
    }
}

/// Returns whether the answers are in step now.
async fn get_in_step<F: Future<Output = Answer>>(
    within: Duration,
    mut ping: impl FnMut(String) -> F,
) -> bool {
    let pings = async {
        let mut backoff = Backoff::between(FIRST_PAUSE, LONGEST_PAUSE);
        let mut slowest = Duration::ZERO;
        for _ in 0..MOST_PINGS {
            let (mark, asked) = (next_mark(), Instant::now());
            match ping(mark.clone()).await {
                Ok(reply) if repeats(&reply, &mark) => return true,
                Err(error) if is_no_answer(&error) => return false,
                _ => {}
            }
            slowest = slowest.max(asked.elapsed());
            sleep(slowest + backoff.next()).await;
        }
        sleep(LONGEST_PAUSE).await;
        true
    };
    timeout(within.max(LEAST), pings).await == Ok(true)
}

/// Reads the answer to a command about one channel, of a driver that does not drop it.
pub(super) fn confirmed(answer: Answer, kind: &str, channel: &str) -> Result<(), Failure> {
    let confirms = |parts: &[Reply]| matches!(parts, [Reply::Bytes(a), Reply::Bytes(b), _] if a == kind && b == channel);
    match answer? {
        Reply::Array(parts) if confirms(&parts) => Ok(()),
        _ => Err(unclear()),
    }
}

/// Whether it is no answer of the server.
fn is_no_answer(error: &Failure) -> bool {
    error.is_of_connection() || error.kind == FailureKind::Full
}

/// The commands may be done.
fn unclear() -> Failure {
    Failure::new(FailureKind::TimedOut, "it is not known which command an answer is for")
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
