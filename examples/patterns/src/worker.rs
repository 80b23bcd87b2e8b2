//! [`Worker`]: another process of this program, which gets orders as lines of JSON and reports likewise.

use std::{path::Path, process::Stdio};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, Stdin, stdin},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use crate::error::Result;

/// A process. Dropping it kills the process.
#[derive(Debug)]
pub struct Worker {
    process: Child,
    orders: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    /// Starts `program` in this role.
    ///
    /// # Errors
    /// Those of starting it, and of writing to it.
    pub async fn start(program: &Path, role: &str, job: &impl Serialize) -> Result<Self> {
        let mut process = Command::new(program)
            .args(["worker", role])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut worker = Self {
            orders: process.stdin.take().ok_or("no pipe")?,
            reports: BufReader::new(process.stdout.take().ok_or("no pipe")?).lines(),
            process,
        };
        worker.order(job).await?;
        Ok(worker)
    }

    /// Writes a line to it.
    ///
    /// # Errors
    /// Those of the pipe.
    pub async fn order(&mut self, order: &impl Serialize) -> Result<()> {
        self.orders.write_all(format!("{}\n", serde_json::to_string(order)?).as_bytes()).await?;
        Ok(self.orders.flush().await?)
    }

    /// Waits for its next line.
    ///
    /// # Errors
    /// When it has ended, or writes something else.
    pub async fn report<T: DeserializeOwned>(&mut self) -> Result<T> {
        let line = self.reports.next_line().await?.ok_or("a worker has ended before its time")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Stops the process where it stands (SIGSTOP).
    ///
    /// # Errors
    /// When there is no such process.
    pub fn pause(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// When there is no such process.
    pub fn resume(&self) -> Result<()> {
        self.signal(Signal::SIGCONT)
    }

    /// Kills it (SIGKILL), and waits until it is dead.
    ///
    /// # Errors
    /// Those of the system.
    pub async fn kill(mut self) -> Result<()> {
        Ok(self.process.kill().await?)
    }

    /// Waits for its last report, and for its end.
    ///
    /// # Errors
    /// As those of [`Worker::report`] and [`Worker::end`].
    pub async fn finish<T: DeserializeOwned>(mut self) -> Result<T> {
        let report = self.report().await?;
        self.end().await?;
        Ok(report)
    }

    /// Ends its input, and waits for its end.
    ///
    /// # Errors
    /// When it ends with an error.
    pub async fn end(self) -> Result<()> {
        let Self { mut process, orders, .. } = self;
        drop(orders);
        let status = process.wait().await?;
        if status.success() { Ok(()) } else { Err(format!("a worker ended: {status}").into()) }
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.process.id().ok_or("a worker has ended before its time")?;
        Ok(kill(Pid::from_raw(id.try_into()?), signal)?)
    }
}

/// The orders of the process that started this one.
#[derive(Debug)]
pub struct Orders(Lines<BufReader<Stdin>>);

impl Orders {
    #[must_use]
    #[expect(clippy::new_without_default, reason = "there is one standard input")]
    pub fn new() -> Self {
        Self(BufReader::new(stdin()).lines())
    }

    /// The next order. `None`: there are no more.
    ///
    /// # Errors
    /// Those of the pipe, and of an order of another kind.
    pub async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        let line = self.0.next_line().await?;
        Ok(line.map(|line| serde_json::from_str(&line)).transpose()?)
    }

    /// The next order, which has to come.
    ///
    /// # Errors
    /// As [`Orders::next`], and when there is none.
    pub async fn expect<T: DeserializeOwned>(&mut self) -> Result<T> {
        Ok(self.next().await?.ok_or("an order was expected")?)
    }
}

/// Reports to the process that started this one.
///
/// # Errors
/// When it is no JSON.
pub fn report(report: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string(report)?);
    Ok(())
}
