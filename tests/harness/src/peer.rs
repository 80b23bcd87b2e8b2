//! A process that takes locks for a test, in Rust or in Java. `tests/peers/README.md` describes its protocol.

mod answer;
mod args;
mod process;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::sync::oneshot;

pub use answer::{Answer, Hello, PeerError};
pub use args::{Lang, PeerArgs};
use process::Process;

use crate::wait::PATIENCE;

/// The first start of a peer may have to build it, and to fetch what it is built from.
const START_PATIENCE: Duration = Duration::from_secs(600);

/// A running peer. Clones share the process; it is killed when the last one goes.
///
/// The tasks that read and write for it live in the tokio runtime it was started in.
#[derive(Debug, Clone)]
pub struct Peer {
    lang: Lang,
    hello: Hello,
    process: Arc<Process>,
}

impl Peer {
    /// Starts a peer and waits for its first answer.
    ///
    /// # Errors
    /// [`PeerError::Unavailable`] when it cannot be built here, [`PeerError::Gone`] when it dies.
    pub async fn spawn(lang: Lang, args: &PeerArgs) -> Result<Self, PeerError> {
        if lang == Lang::Java && java_is_unwanted() {
            return Err(PeerError::Unavailable("NO_JAVA=1".into()));
        }
        let launcher = args.launcher.clone().unwrap_or_else(default_launcher);
        let process = Process::start(&launcher, lang, args);
        let hello =
            Pending::new(&process, lang, json!({ "op": "hello" })).within(START_PATIENCE).await;
        match hello {
            Ok(hello) => {
                let hello = serde_json::from_value(hello.value)
                    .expect("a hello as tests/peers/README.md has it");
                Ok(Self { lang, hello, process })
            }
            Err(PeerError::Gone(_)) => Err(process.obituary().await),
            Err(refused) => Err(refused),
        }
    }

    /// Its language.
    pub fn lang(&self) -> Lang {
        self.lang
    }

    /// How it introduced itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The id of its client, as holders carry it.
    pub fn client(&self) -> &str {
        &self.hello.client
    }

    /// Sends a request, without its `id`, for later.
    pub fn start(&self, request: Value) -> Pending {
        Pending::new(&self.process, self.lang, request)
    }

    /// Sends a request, without its `id`, and waits for the answer.
    ///
    /// # Errors
    /// What the peer answers, or that it is gone.
    pub async fn call(&self, request: Value) -> Result<Answer, PeerError> {
        self.start(request).answer().await
    }

    /// Whether its process runs and understands us.
    pub fn is_alive(&self) -> bool {
        self.process.is_alive()
    }

    /// Kills it (SIGKILL) and waits until it is dead. What it held stays on the server.
    pub async fn kill(&self) {
        self.process.kill().await;
    }

    /// Stops it where it stands (SIGSTOP).
    pub fn pause(&self) {
        self.process.signal(Signal::SIGSTOP);
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(&self) {
        self.process.signal(Signal::SIGCONT);
    }

    /// Ends its input, which it takes as a crash, and waits for its end.
    pub async fn eof(&self) {
        self.process.end_input();
        self.process.ended().await;
    }

    /// Asks it to close its client, and waits for its end.
    ///
    /// # Errors
    /// What the peer answers.
    pub async fn close(&self) -> Result<Answer, PeerError> {
        let answer = self.call(json!({ "op": "close" })).await;
        self.process.ended().await;
        answer
    }

    /// The last lines it wrote to its log.
    pub fn log(&self) -> String {
        self.process.log()
    }
}

/// A request the peer has not been waited for yet.
#[derive(Debug)]
pub struct Pending {
    lang: Lang,
    request: String,
    process: Arc<Process>,
    reply: oneshot::Receiver<Result<Answer, PeerError>>,
    limit: Duration,
}

impl Pending {
    fn new(process: &Arc<Process>, lang: Lang, request: Value) -> Self {
        let (request, reply) = process.send(request);
        Self { lang, request, process: Arc::clone(process), reply, limit: PATIENCE }
    }

    /// Whether there is no answer yet.
    pub fn is_pending(&self) -> bool {
        self.reply.is_empty() && !self.reply.is_terminated()
    }

    /// Waits for the answer, [`PATIENCE`] at most.
    ///
    /// # Errors
    /// What the peer answers, or that it is gone.
    ///
    /// # Panics
    /// When there is none in time.
    pub async fn answer(self) -> Result<Answer, PeerError> {
        let limit = self.limit;
        self.within(limit).await
    }

    /// Waits for the answer, `limit` at most.
    ///
    /// # Errors
    /// What the peer answers, or that it is gone.
    ///
    /// # Panics
    /// When there is none in time.
    pub async fn within(self, limit: Duration) -> Result<Answer, PeerError> {
        let Self { lang, request, process, reply, .. } = self;
        match tokio::time::timeout(limit, reply).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(PeerError::Gone(process.log())),
            Err(_) => panic!(
                "the {lang} peer has not answered {request} in {limit:?}; its log:\n{}",
                process.log()
            ),
        }
    }

    /// Waits for the answer to be `true` (or a token), which it has to be; [`PATIENCE`] at most.
    ///
    /// # Panics
    /// When it is anything else, or not in time.
    pub async fn granted(self) -> Answer {
        let limit = self.limit;
        self.granted_within(limit).await
    }

    /// Waits for the answer to be `true` (or a token), which it has to be; `limit` at most.
    ///
    /// # Panics
    /// When it is anything else, or not in time.
    pub async fn granted_within(self, limit: Duration) -> Answer {
        let question = format!("{} peer: {}", self.lang, self.request);
        match self.within(limit).await {
            Ok(answer) if answer.is_granted() => answer,
            Ok(answer) => panic!("{question}: refused with {}", answer.value),
            Err(error) => panic!("{question}: {error}"),
        }
    }

    /// Is to be answered so much later than others.
    pub fn longer_by(mut self, time: Duration) -> Self {
        self.limit = PATIENCE + time;
        self
    }
}

/// Starts a peer, or says aloud that the test is skipped because there is none in this language.
///
/// # Panics
/// When there is none and `REQUIRE_JAVA=1`, or it dies.
pub async fn peer_or_skip(test: &str, lang: Lang, args: &PeerArgs) -> Option<Peer> {
    match Peer::spawn(lang, args).await {
        Ok(peer) => Some(peer),
        Err(PeerError::Unavailable(why)) => {
            skip_or_panic(&format!("{test}: {lang}"), &why);
            None
        }
        Err(error) => panic!("{test}: {lang}: {error}"),
    }
}

/// The same for a Java peer.
///
/// # Panics
/// As [`peer_or_skip`].
pub async fn java_or_skip(test: &str, args: &PeerArgs) -> Option<Peer> {
    peer_or_skip(test, Lang::Java, args).await
}

/// Prints the line `SKIPPED test: why`, past the capture of the test harness, so that skips can be counted.
///
/// # Panics
/// When [`java_is_required`].
pub fn skip_or_panic(test: &str, why: &str) {
    assert!(!java_is_required(), "{test}: REQUIRE_JAVA=1, but {why}");
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}

/// Whether a skip is a failure: `REQUIRE_JAVA=1`.
pub fn java_is_required() -> bool {
    std::env::var("REQUIRE_JAVA").is_ok_and(|value| value == "1")
}

/// Whether no JVM is to be started, though there may be one: `NO_JAVA=1`.
fn java_is_unwanted() -> bool {
    std::env::var("NO_JAVA").is_ok_and(|value| value == "1")
}

/// Now, in microseconds since the epoch: the clock of [`Answer::at`].
pub fn epoch_micros() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock of this century");
    since.as_micros().try_into().expect("a clock of this age")
}

fn default_launcher() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../peers/run")
}

#[cfg(test)]
mod tests;
