//! The command, from its start to the end of its process group.

use std::{
    env, future::pending, os::unix::process::ExitStatusExt, process::ExitStatus, time::Duration,
};

use redisson_lock::{Error, Loss};
use tokio::{
    process::Child,
    time::{Instant, interval, sleep_until, timeout},
};

use super::{
    group::Group,
    guardian::{Change, Guardian, Watched},
    holding::Holding,
    launch::Launch,
    signals::{Signal, Signals},
    terminal::Lent,
};
use crate::{args::Run, outcome::Failure};

/// How often the standby is told until when the lock is trusted.
const TELLING: Duration = Duration::from_millis(250);

/// How long a killed group is waited for when the lock is not held any more.
const KILLED: Duration = Duration::from_secs(10);

/// How long a command that was killed may take to be gone.
const REAPED: Duration = Duration::from_secs(2);

/// How long a standby may take to say whether it has killed the command.
const STANDBY_ENDS: Duration = Duration::from_secs(2);

/// So many times in a row the command has to be seen stopped.
const HALTED: u32 = 2;

/// How the command ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// A signal came after the lock was got, and before the command was started.
    NotStarted(Signal),
    /// The lock was lost before it was started.
    LostBefore(Loss),
    /// By itself, or by a signal, under its lock.
    Done { code: u8, words: Vec<String> },
    /// Because the lock was lost.
    Lost(Loss),
    /// It could not be killed, and works on after its lock was lost.
    Unkillable(Loss),
    /// By the standby, because `run` was stopped.
    Stopped,
}

/// What ends a command.
enum Cause {
    Exited(ExitStatus),
    Signal(Signal),
    /// Somebody has asked for the lock.
    Asked,
    Lost(Loss),
    /// The trust is about to end.
    NoRenewal,
    /// The standby has ended it.
    Stopped,
    /// The command was stopped, and would keep the lock for ever.
    Halted,
}

/// Runs the command. When it returns, nothing of its group is left, or the lock is lost.
pub(crate) async fn supervise(
    args: &Run,
    holding: &Holding,
    signals: &mut Signals,
) -> Result<Ended, Failure> {
    let grace = grace(args.grace);
    let mut standby = Guardian::start(None).await?;
    // A command that is a `run` itself has to be done before it is killed.
    let inner = grace.min(holding.last_grace()) / 2;
    let launch = Launch::prepare(args, holding, inner.as_millis())?;
    standby.watch_over(launch.group).await?;
    standby.until(trusted_until(holding)).await;
    if let Some(early) = ended_early(holding, signals).await {
        standby.dismiss().await;
        return Ok(early);
    }
    let lent = Lent::to(launch.group);
    let (mut child, group) = launch.go();
    let mut standby = Watched::new(group, standby);
    let mut words = Vec::new();
    let mut ticks = interval(TELLING);
    let mut halts = 0;
    let mut lost = Box::pin(holding.lost());
    let mut asked = Box::pin(holding.guard().asked_to_release());
    let cause = loop {
        tokio::select! {
            biased;
            exited = child.wait() => break Cause::Exited(
                exited.map_err(|error| Failure::internal(format!("waiting failed: {error}")))?,
            ),
            why = &mut lost => break Cause::Lost(why),
            () = sleep_until(holding.ends_at()) => if holding.ends_at() <= Instant::now() {
                break Cause::NoRenewal;
            },
            signal = signals.next() => break Cause::Signal(signal),
            () = &mut asked, if args.release_when_asked => break Cause::Asked,
            change = standby.changed() => match change {
                Change::HasKilled => break Cause::Stopped,
                Change::Died => {}
                Change::Replaced => {
                    words.push("the standby process died: there is a new one".to_owned());
                    standby.until(trusted_until(holding)).await;
                }
                Change::Failed(failure) => {
                    drop((lost, asked));
                    kill(group, &mut child, holding, &mut standby).await;
                    return Err(failure);
                }
            },
            _ = ticks.tick() => {
                standby.until(trusted_until(holding)).await;
                halts = if group.is_stopped() { halts + 1 } else { 0 };
                if halts == HALTED {
                    break Cause::Halted;
                }
            }
        }
    };
    drop((lost, asked));
    let cause = match cause {
        Cause::Exited(status) if is_killed(&status) && standby.has_killed(STANDBY_ENDS).await => {
            Cause::Stopped
        }
        // It is unknown whether the command ended before.
        Cause::Exited(_) if !holding.guard().is_held() => Cause::Lost(holding.lost().await),
        cause => cause,
    };
    let ended = end(cause, group, &mut child, holding, grace, &mut standby, signals).await;
    // It is not of the group any more, or has ended, or cannot be killed.
    let _ = child.start_kill();
    let status = timeout(REAPED, child.wait()).await.ok().and_then(Result::ok);
    drop(lent);
    standby.dismiss().await;
    Ok(match ended {
        End::By(cause) => by(cause, status, words),
        End::LostMeanwhile(why) => Ended::Lost(why),
        End::LivesOn(why) => Ended::Unkillable(why),
    })
}

/// Until when the standby need not do anything.
fn trusted_until(holding: &Holding) -> Instant {
    let trusted = holding.guard().remaining().saturating_sub(holding.standby_margin());
    Instant::now() + trusted
}

/// How long the command may take to end. Within another `run`, less than that has.
fn grace(wanted: Duration) -> Duration {
    let outer = env::var("REDISSON_LOCK_GRACE_MS").ok().and_then(|ms| ms.parse().ok());
    outer.map_or(wanted, |ms| wanted.min(Duration::from_millis(ms)))
}

/// Whether the command must not be started any more.
async fn ended_early(holding: &Holding, signals: &mut Signals) -> Option<Ended> {
    let checked = tokio::select! {
        biased;
        signal = signals.next() => return Some(Ended::NotStarted(signal)),
        checked = holding.guard().check() => checked,
    };
    match checked {
        Err(Error::NotHeld { why }) => Some(Ended::LostBefore(why)),
        // Without an answer the trust decides.
        _ if holding.ends_at() <= Instant::now() => Some(Ended::LostBefore(Loss::Expired)),
        _ => None,
    }
}

enum End {
    By(Cause),
    LostMeanwhile(Loss),
    /// It could not be killed, and the lock is lost.
    LivesOn(Loss),
}

/// Ends what is left of the group.
async fn end(
    cause: Cause,
    group: Group,
    child: &mut Child,
    holding: &Holding,
    grace: Duration,
    standby: &mut Watched,
    signals: &mut Signals,
) -> End {
    match cause {
        // The lock may be another's already.
        Cause::Lost(_) | Cause::Stopped => {
            if kill(group, child, holding, standby).await {
                return End::By(cause);
            }
            return End::LivesOn(holding.lost().await);
        }
        Cause::Exited(_) if !group.is_alive() => return End::By(cause),
        Cause::Signal(signal) => group.signal(signal),
        _ => group.signal(Signal::SIGTERM),
    }
    // The time that is left is known already where the trust is about to end.
    let is_short = matches!(cause, Cause::NoRenewal);
    let grace = if is_short { holding.last_grace() } else { grace };
    let mut ticks = interval(TELLING);
    let mut gently = Box::pin(group.ended_by(Instant::now() + grace));
    let mut is_reaped = false;
    let mut untrusted =
        Box::pin(async { if is_short { holding.lost().await } else { holding.untrusted().await } });
    let mut seen = None;
    let has_ended = loop {
        tokio::select! {
            biased;
            ended = &mut gently => break ended,
            _ = child.wait(), if !is_reaped => is_reaped = true,
            signal = signals.next() => group.signal(signal),
            change = standby.changed() => match change {
                Change::HasKilled => break true,
                Change::Replaced => standby.until(trusted_until(holding)).await,
                Change::Died | Change::Failed(_) => {}
            },
            why = &mut untrusted => {
                seen = Some(why);
                break false;
            }
            _ = ticks.tick() => standby.until(trusted_until(holding)).await,
        }
    };
    let is_stopped = has_ended
        && !matches!(cause, Cause::Exited(_))
        && child.try_wait().ok().flatten().as_ref().is_some_and(is_killed)
        && standby.has_killed(STANDBY_ENDS).await;
    if is_stopped {
        return End::By(Cause::Stopped);
    }
    let has_ended = has_ended || kill(group, child, holding, standby).await;
    if !has_ended || seen.is_none() && !holding.guard().is_held() {
        seen = Some(holding.lost().await);
    }
    match (seen, cause) {
        (Some(why), _) if !has_ended => End::LivesOn(why),
        // It has ended under its lock.
        (_, cause @ Cause::Exited(_)) | (None, cause) => End::By(cause),
        (Some(why), _) => End::LostMeanwhile(why),
    }
}

/// Kills the group. It is waited for as long as the lock is held, and for 10 s more. `false`: it lives.
async fn kill(group: Group, child: &mut Child, holding: &Holding, standby: &mut Watched) -> bool {
    // Where a system shows no processes, one that nobody waits for would seem to live.
    let reaping = async {
        let _ = child.wait().await;
        pending().await
    };
    let telling = async {
        let mut ticks = interval(TELLING);
        loop {
            tokio::select! {
                // One that died or was stopped is replaced.
                _ = standby.changed() => {}
                _ = ticks.tick() => {}
            }
            standby.until(trusted_until(holding)).await;
        }
    };
    let killing = async {
        loop {
            let is_held = holding.guard().is_held();
            let has_ended = group.kill(Instant::now() + KILLED).await;
            if has_ended || !is_held {
                return has_ended;
            }
        }
    };
    tokio::select! {
        biased;
        has_ended = killing => has_ended,
        never = reaping => never,
        never = telling => never,
    }
}

fn by(cause: Cause, status: Option<ExitStatus>, mut words: Vec<String>) -> Ended {
    match cause {
        Cause::Lost(why) => Ended::Lost(why),
        Cause::NoRenewal => Ended::Lost(Loss::Expired),
        Cause::Stopped => Ended::Stopped,
        Cause::Halted => {
            let text = "the command was stopped, and would have kept the lock: it was ended";
            Ended::Done { code: 128 + Signal::SIGTSTP as u8, words: vec![text.to_owned()] }
        }
        Cause::Exited(status) => Ended::Done { code: code(status), words },
        Cause::Signal(signal) => Ended::Done { code: code_after(signal, status), words },
        Cause::Asked => {
            words.push("somebody asked for the lock: the command was ended".to_owned());
            Ended::Done { code: code_after(Signal::SIGTERM, status), words }
        }
    }
}

fn is_killed(status: &ExitStatus) -> bool {
    status.signal() == Some(Signal::SIGKILL as i32)
}

/// The exit code of a command that was sent this signal.
fn code_after(signal: Signal, status: Option<ExitStatus>) -> u8 {
    status.filter(|status| !is_killed(status)).map_or(128 + signal as u8, code)
}

/// The exit code that shells give.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| code.try_into().ok()).unwrap_or(255)
}
