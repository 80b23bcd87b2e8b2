//! `run`: a command under a lock.
//!
//! ```text
//! run ----- holds the lock, and ends the command when the lock is or may be lost
//!  |-- standby   ends the command when `run` is killed or stopped
//!  `-- command   leads a process group of its own
//! ```
//! The lock is released when nothing of the group is left.
//!
//! | file | content |
//! |---|---|
//! | [`holding`] | the lock: acquired, trusted until, released |
//! | [`group`] | the process group of the command |
//! | [`launch`] | the command is started when all else is ready |
//! | [`standby`], [`guardian`] | the standby process; what `run` knows of it |
//! | [`signals`] | the signals that `run` hands on |
//! | [`mod@supervise`] | the command, from its start to the end of its group |
//! | [`terminal`] | a command of a terminal reads from it |

mod group;
mod guardian;
mod holding;
pub(crate) mod launch;
pub(crate) mod signals;
pub(crate) mod standby;
mod supervise;
mod terminal;

use std::{convert::Infallible, future::pending};

use redisson_lock::Client;
use tokio::time::{Duration, sleep, timeout};

use self::{
    holding::Holding,
    signals::Signals,
    supervise::{Ended, supervise},
};
use crate::{
    args::{Kind, Run, Servers},
    connection::{config, connect},
    outcome::{CONFIG, Failure, LOST, NOT_GOT, Outcome, note},
    warnings,
};

/// A command could not be ended within less.
const LEAST_WATCHDOG: Duration = Duration::from_secs(1);

/// A wait that is longer is told.
const SILENT_WAIT: Duration = Duration::from_secs(1);

/// How long to wait for the end of the connections.
const CLOSING: Duration = Duration::from_secs(2);

pub(crate) async fn run(args: Run, servers: Servers) -> Result<Outcome, Failure> {
    let mut config = config(&servers)?;
    if let Some(watchdog) = args.watchdog {
        config = config.watchdog(watchdog);
    }
    if config.get_announce().is_none() {
        config = config.announce("redisson-lock run")?;
    }
    if args.lease.is_none() && config.get_watchdog() < LEAST_WATCHDOG {
        let text = "the watchdog timeout of the configuration is too short for `run`: 1 s or more is needed";
        return Err(Failure::new(CONFIG, text));
    }
    let mut signals = Signals::listen()?;
    let client = tokio::select! {
        biased;
        signal = signals.next() => return Ok(ended_by(signal, &args.name)),
        client = connect(&config) => client?,
    };
    let outcome = under_lock(&args, config.get_watchdog(), &client, &mut signals).await;
    warnings::closing();
    // What was acquired and is not wanted any more is released meanwhile.
    let _ = timeout(CLOSING, client.close()).await;
    outcome
}

fn ended_by(signal: signals::Signal, name: &str) -> Outcome {
    let text = format!("{signal} came before the lock {name:?} was got: nothing was started");
    Outcome::new(signals::code_of(signal)).with(text)
}

/// Says once, on stderr, that it waits, and for whom.
async fn tell_of_waiting(client: &Client, args: &Run) -> Infallible {
    sleep(SILENT_WAIT).await;
    let name = &args.name;
    let seen = match args.kind {
        Kind::Read | Kind::Write => client.read_write_lock(name).inspect().await,
        Kind::Plain => client.plain_lock(name).inspect().await,
        Kind::Lock | Kind::Fair | Kind::Fenced | Kind::Spin => client.lock(name).inspect().await,
    };
    let mut holders = seen.map(|lock| lock.holders).unwrap_or_default();
    // Replicas may have to confirm its own.
    holders.retain(|holder| !holder.ours);
    // A lock that is passed on may have none at this moment.
    let by = match &holders[..] {
        [] => String::new(),
        [first] => format!(", held by {}", first.id),
        [first, others @ ..] => format!(", held by {} and {} more", first.id, others.len()),
    };
    note(format!("waiting for the lock {name:?}{by}"), args.json);
    pending().await
}

async fn under_lock(
    args: &Run,
    watchdog: Duration,
    client: &Client,
    signals: &mut Signals,
) -> Result<Outcome, Failure> {
    let got = tokio::select! {
        biased;
        signal = signals.next() => return Ok(ended_by(signal, &args.name)),
        got = Holding::acquire(client, args, watchdog) => got?,
        never = tell_of_waiting(client, args) => match never {},
    };
    let Some(holding) = got else {
        let text = format!("the lock {:?} is held by another: nothing was started", args.name);
        return Ok(Outcome::new(NOT_GOT).with(text));
    };
    let ended = supervise(args, &holding, signals).await;
    let mut outcome = match ended {
        Ok(Ended::NotStarted(signal)) => {
            let released = match holding.release().await {
                Ok(()) => format!("the lock {:?} was released", args.name),
                Err(error) => format!("releasing the lock {:?} failed: {error}", args.name),
            };
            let text = format!(
                "{signal} came before the command was started: nothing was started, and {released}"
            );
            return Ok(Outcome::new(signals::code_of(signal)).with(text));
        }
        Ok(Ended::LostBefore(why)) => {
            let _ = holding.release().await;
            let text = format!("the lock {:?} was lost ({why}): nothing was started", args.name);
            return Ok(Outcome::new(LOST).with(text));
        }
        Ok(Ended::Lost(why)) => {
            // It may be held still, where only the trust was over.
            holding.abandon();
            let text = format!("the lock {:?} was lost ({why}): the command was ended", args.name);
            return Ok(Outcome::new(LOST).with(text));
        }
        Ok(Ended::Unkillable(why)) => {
            let text = format!(
                "the lock {:?} was lost ({why}): the command could not be killed, and works on",
                args.name
            );
            return Ok(Outcome::new(LOST).with(text));
        }
        Ok(Ended::Stopped) => {
            let text = format!(
                "run was stopped or too slow, and the lock {:?} could have been lost: the command was ended",
                args.name
            );
            Outcome::new(LOST).with(text)
        }
        Ok(Ended::Done { code, words }) => {
            words.into_iter().fold(Outcome::new(code), Outcome::with)
        }
        Err(failure) => {
            let _ = holding.release().await;
            return Err(failure);
        }
    };
    if let Err(error) = holding.release().await {
        outcome = outcome.with(format!("the command has ended, but releasing failed: {error}"));
    }
    Ok(outcome)
}
