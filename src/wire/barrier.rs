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

/// How many PINGs are sent to bring the answers in step. A pause after each is as long as an answer takes, and by this
/// longer: what is late comes meanwhile, and is dropped. The last pause is by [`LONGEST_PAUSE`] longer.
const MOST_PINGS: u32 = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// The least time for that, beside the answers.
const LEAST: Duration = Duration::from_secs(1);

/// No exchange takes longer than so many times the time of a command, or [`LEAST`].
const LONGEST: u32 = 2 + 2 * MOST_PINGS;

/// The barrier of one connection.
pub(super) struct Barrier(Mutex<State>);

struct State {
    /// Whether each answer is known to go to its own command. It may not after a refusal, and after an exchange
    /// that had no end.
    in_step: bool,
    /// How long an answer takes: the last one that was known to be that to its own PING, or a slower one since.
    round_trip: Duration,
}

impl Barrier {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State { in_step: true, round_trip: Duration::ZERO }))
    }

    /// Completes when the commands are done, when one is refused, or when nobody can know. `ping` sends a PING
    /// with this mark, and returns what is taken for its answer. Its first call writes the commands before the
    /// PING. Exchanges of one connection wait for each other, but not without a bound: one of them may not be
    /// polled.
    pub(super) async fn pass<F: Future<Output = Answer>>(
        &self,
        within: Duration,
        mut ping: impl FnMut(String) -> F,
    ) -> Result<(), Failure> {
        let mut state = self.turn(within).await?;
        let was_in_step = std::mem::replace(&mut state.in_step, false);
        let (mark, asked) = (next_mark(), Instant::now());
        let answer = ping(mark.clone()).await;
        let took = asked.elapsed();
        let told = match answer {
            Ok(reply) if repeats(&reply, &mark) => Ok(()),
            Err(error) if error.cannot_save() && was_in_step => Ok(()),
            Err(error) if is_no_answer(&error) => return Err(error),
            Err(error) if was_in_step => Err(error),
            // It may be about other commands, whose caller has gone.
            _ => {
                state.get_in_step(within, took, ping).await;
                return Err(unclear());
            }
        };
        state.round_trip = took;
        match &told {
            Ok(()) => state.in_step = true,
            Err(_) => state.get_in_step(within, took, ping).await,
        }
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
        let mut state = self.turn(within).await?;
        if !state.in_step {
            state.get_in_step(within, Duration::ZERO, ping).await;
        }
        if !state.in_step {
            return Err(unclear());
        }
        let told = commands.await;
        // One of them may have had another's answer.
        state.in_step = told.is_ok();
        told
    }

    /// Waits for the exchanges before.
    async fn turn(&self, within: Duration) -> Result<MutexGuard<'_, State>, Failure> {
        let turn = timeout(LONGEST * within.max(LEAST), self.0.lock()).await;
        turn.map_err(|_| Failure::timed_out())
    }
}

impl State {
    /// Brings the answers in step, if they can be. `took`: how long an answer took just now.
    async fn get_in_step<F: Future<Output = Answer>>(
        &mut self,
        within: Duration,
        took: Duration,
        mut ping: impl FnMut(String) -> F,
    ) {
        let mut slowest = self.round_trip.max(took);
        let longest = within.max(LEAST) + 2 * MOST_PINGS * slowest;
        let pings = async {
            let (mut backoff, mut has_marks) =
                (Backoff::between(FIRST_PAUSE, LONGEST_PAUSE), false);
            for _ in 0..MOST_PINGS {
                let (mark, asked) = (next_mark(), Instant::now());
                match ping(mark.clone()).await {
                    Ok(reply) if repeats(&reply, &mark) => return true,
                    Ok(_) => has_marks = true,
                    // It is about a channel: no server redirects PING.
                    Err(error) if error.kind == FailureKind::Redirected => has_marks = true,
                    Err(error) if is_no_answer(&error) => return false,
                    Err(_) => {}
                }
                slowest = slowest.max(asked.elapsed());
                sleep(slowest + backoff.next()).await;
            }
            // A server that refuses each PING tells no mark. What has not come in all these pauses will not come.
            sleep(LONGEST_PAUSE).await;
            !has_marks
        };
        self.in_step = timeout(longest, pings).await == Ok(true);
        // The next try has time for such answers.
        self.round_trip = slowest;
    }
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
