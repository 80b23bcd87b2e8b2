//! [`Guardian`]: what `run` knows of its standby.

use std::{future::pending, io, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

use super::{
    group::{Group, Stat, stat},
    launch::program,
    standby::{KILLED, monotonic_ms},
};
use crate::outcome::Failure;

/// How long a standby may take to answer on a busy machine.
const ANSWERS: Duration = Duration::from_secs(20);

/// How long one line may take.
const WRITES: Duration = Duration::from_millis(200);

/// How often to try to start another standby, and the pause in between.
const AGAIN: u32 = 10;
const PAUSE: Duration = Duration::from_millis(500);

/// A change of the end of trust that the standby need not know, in ms.
const SAME: i64 = 20;

/// A running standby.
#[derive(Debug)]
pub(crate) struct Guardian {
    process: Process,
    lines: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
    until: i64,
}

/// Dropped before it was ready it is killed: it would end the command at the end of its pipe.
#[derive(Debug)]
struct Process {
    child: Child,
    is_ready: bool,
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_ready {
            let _ = self.child.start_kill();
        }
    }
}

/// Why a standby has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gone {
    /// It has ended the command.
    HasKilled,
    /// It was killed.
    Died,
}

impl Guardian {
    /// Starts it, and waits until it listens.
    ///
    /// With a group it knows that from its first moment on.
    pub(crate) async fn start(group: Option<Group>) -> Result<Self, Failure> {
        let start = async {
            let mut child = Command::new(program()?)
                .arg0("redisson-lock")
                .arg("__standby")
                .arg(std::process::id().to_string())
                .args(group.map(|group| group.id().to_string()))
                .process_group(0)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .spawn()?;
            let (lines, out) =
                child.stdin.take().zip(child.stdout.take()).ok_or(io::ErrorKind::Other)?;
            let answers = BufReader::new(out).lines();
            let process = Process { child, is_ready: false };
            let mut new = Self { process, lines, answers, until: 0 };
            new.expect("ready").await?;
            new.process.is_ready = true;
            Ok(new)
        };
        start.await.map_err(failed)
    }

    /// Tells it the group that it has to end, and waits until it knows.
    pub(crate) async fn watch_over(&mut self, group: Group) -> Result<(), Failure> {
        let tell = async {
            self.write(&format!("group {}\n", group.id())).await?;
            self.expect("known").await
        };
        tell.await.map_err(failed)
    }

    async fn expect(&mut self, word: &str) -> io::Result<()> {
        let line = timeout(ANSWERS, self.answers.next_line()).await;
        match line.map_err(|_| io::ErrorKind::TimedOut)?? {
            Some(line) if line == word => Ok(()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Tells it until when the command may run, if that has changed.
    pub(crate) async fn until(&mut self, until: Instant) {
        let until = monotonic_ms() + (until - Instant::now()).as_millis() as i64;
        if (until - self.until).abs() > SAME
            && self.write(&format!("until {until}\n")).await.is_ok()
        {
            self.until = until;
        }
    }

    async fn write(&mut self, line: &str) -> io::Result<()> {
        // A line is written whole or not at all: it is shorter than what a pipe takes at once.
        timeout(WRITES, self.lines.write_all(line.as_bytes()))
            .await
            .map_err(|_| io::ErrorKind::TimedOut)?
    }

    /// Whether it has ended the command, or is about to.
    async fn has_killed(&mut self) -> bool {
        let asked = self.write("asked\n").await;
        if asked.is_ok() && self.expect("no").await.is_ok() {
            return false;
        }
        self.gone().await == Gone::HasKilled
    }

    /// Waits for its end.
    async fn gone(&mut self) -> Gone {
        match self.process.child.wait().await {
            Ok(status) if status.code() == Some(KILLED) => Gone::HasKilled,
            _ => Gone::Died,
        }
    }

    /// One that is stopped ends nothing.
    fn kill_if_stopped(&mut self) {
        let seen = self.process.child.id().map(|id| stat(id as i32));
        if seen.is_some_and(|stat| stat.is_ok_and(Stat::is_stopped)) {
            // If it has ended meanwhile, that is noticed, too.
            let _ = self.process.child.start_kill();
        }
    }

    /// Ends it. The command has ended.
    pub(crate) async fn dismiss(mut self) {
        let _ = self.write("done\n").await;
        drop(self.lines);
        if timeout(WRITES, self.process.child.wait()).await.is_err() {
            // It may be stopped.
            let _ = self.process.child.start_kill();
        }
    }
}

/// The standby of a running command, which is replaced when it dies.
#[derive(Debug)]
pub(crate) struct Watched {
    group: Group,
    now: Option<Guardian>,
    next: Option<JoinHandle<Result<Guardian, Failure>>>,
    /// Whether it was seen to have ended the command.
    has_killed: bool,
}

/// What became of a standby.
#[derive(Debug)]
pub(crate) enum Change {
    /// It has ended the command.
    HasKilled,
    Died,
    Replaced,
    /// It died, and there is no other one.
    Failed(Failure),
}

impl Watched {
    pub(crate) fn new(group: Group, standby: Guardian) -> Self {
        Self { group, now: Some(standby), next: None, has_killed: false }
    }

    /// Waits for the next change. May be dropped at any time.
    pub(crate) async fn changed(&mut self) -> Change {
        if let Some(standby) = &mut self.now {
            let gone = standby.gone().await;
            self.now = None;
            if gone == Gone::HasKilled {
                self.has_killed = true;
                return Change::HasKilled;
            }
            self.next = Some(tokio::spawn(start_again(self.group)));
            return Change::Died;
        }
        let Some(next) = &mut self.next else { return pending().await };
        let started = next.await;
        self.next = None;
        match started {
            Ok(Ok(standby)) => {
                self.now = Some(standby);
                Change::Replaced
            }
            Ok(Err(failure)) => Change::Failed(failure),
            Err(error) => Change::Failed(Failure::internal(error.to_string())),
        }
    }

    /// Whether it has ended the command. Asks for this long at most.
    pub(crate) async fn has_killed(&mut self, most: Duration) -> bool {
        let Some(standby) = &mut self.now else { return self.has_killed };
        timeout(most, standby.has_killed()).await.unwrap_or(false)
    }

    /// See [`Guardian::until`]. Has a stopped one replaced.
    pub(crate) async fn until(&mut self, until: Instant) {
        if let Some(standby) = &mut self.now {
            standby.kill_if_stopped();
            standby.until(until).await;
        }
    }

    /// Ends it. The command has ended.
    pub(crate) async fn dismiss(mut self) {
        if let Some(next) = self.next.take() {
            // With its task ends a standby that is not ready.
            next.abort();
        }
        if let Some(standby) = self.now.take() {
            standby.dismiss().await;
        }
    }
}

/// Starts another one, and tries again for a while: what killed the last may be short of memory.
async fn start_again(group: Group) -> Result<Guardian, Failure> {
    for _ in 0..AGAIN {
        match Guardian::start(Some(group)).await {
            Ok(standby) => return Ok(standby),
            Err(_) => sleep(PAUSE).await,
        }
    }
    Guardian::start(Some(group)).await
}

fn failed(error: io::Error) -> Failure {
    Failure::internal(format!("the standby process cannot be started: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_standby_that_was_never_ready_is_killed_when_it_is_dropped() {
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let group = Group::led_by(child.id().unwrap() as i32);
        let is_there = || stat(group.id()).is_ok_and(|stat| !stat.has_ended());
        assert!(is_there());
        drop(Process { child, is_ready: false });
        while is_there() {
            sleep(Duration::from_millis(5)).await;
        }
    }
}
