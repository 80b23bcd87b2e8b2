//! The child process of a peer and its three pipes.

use std::collections::{HashMap, VecDeque};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Mutex as AsyncMutex, mpsc, oneshot};
use tokio::time::timeout;

use super::answer::{Answer, Line, PeerError};
use super::args::{Lang, PeerArgs};
use crate::wait::{PATIENCE, eventually, glimpse};

/// The exit status of a launcher that cannot build its peer here.
const UNAVAILABLE: i32 = 3;
const LOG_LINES: usize = 100;

type Reply = Result<Answer, PeerError>;

#[derive(Debug)]
pub(super) struct Process {
    pid: Pid,
    child: AsyncMutex<Child>,
    input: Mutex<Option<mpsc::UnboundedSender<String>>>,
    next_id: AtomicU64,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// `None` once the output has ended: nobody will answer any more.
    pending: Mutex<Option<HashMap<u64, oneshot::Sender<Reply>>>>,
    log: Mutex<VecDeque<String>>,
}

impl Process {
    /// The launcher `exec`s, so the child is the peer itself.
    pub(super) fn start(launcher: &Path, lang: Lang, args: &PeerArgs) -> Arc<Self> {
        let mut child = Command::new(launcher)
            .envs(args.clock.as_ref().map(|clock| ("PEER_CLOCK", clock)))
            .envs(args.optimized.then_some(("PEER_PROFILE", "release")))
            .envs(args.hands_nothing_on.then_some(("PASS_ON", "off")))
            .arg(lang.to_string())
            .args(&args.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{} cannot be started: {error}", launcher.display()));
        let pid =
            child.id().and_then(|id| id.try_into().ok()).map(Pid::from_raw).expect("a process id");
        let shared =
            Arc::new(Shared { pending: Mutex::new(Some(HashMap::new())), log: Mutex::default() });
        let (input, lines) = mpsc::unbounded_channel();
        tokio::spawn(write_requests(child.stdin.take().expect("a pipe"), lines));
        tokio::spawn(read_answers(child.stdout.take().expect("a pipe"), Arc::clone(&shared)));
        tokio::spawn(read_log(child.stderr.take().expect("a pipe"), Arc::clone(&shared)));
        Arc::new(Self {
            pid,
            child: AsyncMutex::new(child),
            input: Mutex::new(Some(input)),
            next_id: AtomicU64::new(1),
            shared,
        })
    }

    /// Gives the request an id and sends it; the line sent, and where the answer will be.
    pub(super) fn send(&self, mut request: Value) -> (String, oneshot::Receiver<Reply>) {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        request["id"] = id.into();
        let (sender, receiver) = oneshot::channel();
        let line = request.to_string();
        // When nobody reads or answers any more the sender is dropped, which says so.
        if let Some(pending) = self.shared.pending().as_mut() {
            pending.insert(id, sender);
        }
        if let Some(input) = self.input.lock().expect("the input").as_ref() {
            let _ = input.send(line.clone() + "\n");
        }
        (line, receiver)
    }

    pub(super) fn is_alive(&self) -> bool {
        self.shared.pending().is_some()
    }

    pub(super) fn signal(&self, signal: Signal) {
        kill(self.pid, signal).unwrap_or_else(|error| panic!("{signal} to the peer: {error}"));
    }

    pub(super) async fn kill(&self) {
        let _ = self.child.lock().await.start_kill();
        self.ended().await;
    }

    pub(super) fn end_input(&self) {
        self.input.lock().expect("the input").take();
    }

    /// Waits for the end of the process and of its output; its exit status, when it has one.
    pub(super) async fn ended(&self) -> Option<i32> {
        let mut child = self.child.lock().await;
        let status = timeout(PATIENCE, child.wait())
            .await
            .unwrap_or_else(|_| panic!("the peer does not end"));
        eventually(PATIENCE, "the end of a dead peer's output", || {
            (!self.is_alive()).then_some(())
        })
        .await;
        status.expect("a status").code()
    }

    /// Why a process that ended without an answer did.
    pub(super) async fn obituary(&self) -> PeerError {
        let status = self.ended().await;
        // The last words may still be in the pipe.
        let last = glimpse(Duration::from_secs(1), || self.shared.log().back().cloned()).await;
        match (status, last) {
            (Some(UNAVAILABLE), why) => PeerError::Unavailable(why.unwrap_or_default()),
            (status, _) => PeerError::Gone(format!("exit status {status:?}\n{}", self.log())),
        }
    }

    pub(super) fn log(&self) -> String {
        self.shared.log().iter().map(|line| format!("  {line}\n")).collect()
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Option<HashMap<u64, oneshot::Sender<Reply>>>> {
        self.pending.lock().expect("the pending requests")
    }

    fn log(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.log.lock().expect("the log")
    }

    fn remember(&self, line: String) {
        let mut log = self.log();
        log.push_back(line);
        if log.len() > LOG_LINES {
            log.pop_front();
        }
    }
}

async fn write_requests(mut pipe: ChildStdin, mut lines: mpsc::UnboundedReceiver<String>) {
    while let Some(line) = lines.recv().await {
        if pipe.write_all(line.as_bytes()).await.is_err() || pipe.flush().await.is_err() {
            return;
        }
    }
}

async fn read_answers(pipe: ChildStdout, shared: Arc<Shared>) {
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(answer) = serde_json::from_str::<Line>(&line) else {
            shared.remember(format!("(not an answer, on its standard output) {line}"));
            break;
        };
        let asked = shared.pending().as_mut().and_then(|pending| pending.remove(&answer.id));
        if let Some(asked) = asked {
            let _ = asked.send(answer.into());
        }
    }
    shared.pending().take();
}

async fn read_log(pipe: ChildStderr, shared: Arc<Shared>) {
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        shared.remember(line);
    }
}
