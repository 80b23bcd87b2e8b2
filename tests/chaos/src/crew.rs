//! The processes that take locks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::{Lang, Peer, PeerArgs, PeerError, Pending};
use judge::{Place, Policy, What};
use serde::Serialize;
use serde_json::json;

use crate::clock::now;
use crate::journal::Journal;
use crate::options::Options;

/// How long a process may take to give back all it has, and to close.
const FAREWELL: Duration = Duration::from_secs(30);

/// One place in the crew. When its process is killed, another takes it.
#[derive(Debug)]
pub(crate) struct Member {
    lang: Lang,
    number: usize,
    args: PeerArgs,
    generation: usize,
    at_work: Option<AtWork>,
    pub(crate) is_paused: bool,
}

#[derive(Debug)]
struct AtWork {
    peer: Peer,
    traffic: Pending,
}

/// What a peer is told to do; `tests/peers/rust/src/traffic` reads it.
#[derive(Debug, Serialize)]
struct Plan<'a> {
    process: String,
    seed: u64,
    file: PathBuf,
    policy: Policy,
    workers: usize,
    places: Vec<&'a Place>,
    cut_percent: u8,
    owner_percent: u8,
    lease_percent: u8,
    drop_percent: u8,
    force_permille: u16,
    long_percent: u8,
    long_ms: u64,
    hold_ms: u64,
    lease_ms: u64,
    pause_ms: u64,
}

impl Member {
    pub(crate) fn new(lang: Lang, number: usize, args: PeerArgs) -> Self {
        Self { lang, number, args, generation: 0, at_work: None, is_paused: false }
    }

    /// The name of its present process.
    pub(crate) fn process(&self) -> String {
        format!("{}{}.{}", self.lang, self.number, self.generation)
    }

    pub(crate) fn is_alive(&self) -> bool {
        self.at_work.is_some()
    }

    /// Starts a process and its traffic.
    pub(crate) async fn start(
        &mut self,
        options: &Options,
        places: &[Place],
        directory: &Path,
    ) -> Result<(), PeerError> {
        self.generation += 1;
        let peer = Peer::spawn(self.lang, &self.args).await?;
        let process = self.process();
        let seed = options.seed.wrapping_add(1_000 * self.number as u64);
        let plan = Plan {
            seed: seed.wrapping_add(self.generation as u64),
            file: directory.join(format!("{process}.jsonl")),
            process,
            policy: options.replicas,
            workers: options.workers,
            places: places.iter().collect(),
            cut_percent: options.cut_percent,
            owner_percent: options.owner_percent,
            lease_percent: options.lease_percent,
            drop_percent: options.drop_percent,
            force_permille: options.force_permille,
            long_percent: options.long_percent,
            long_ms: 4 * options.watchdog_ms,
            hold_ms: options.hold_ms,
            lease_ms: options.lease_ms,
            pause_ms: options.pause_ms,
        };
        let traffic = peer.start(json!({ "op": "traffic", "plan": plan }));
        let traffic = traffic.longer_by(Duration::from_secs(options.seconds) + FAREWELL);
        self.at_work = Some(AtWork { peer, traffic });
        Ok(())
    }

    pub(crate) async fn kill(&mut self, journal: &mut Journal) {
        if let Some(AtWork { peer, .. }) = self.at_work.take() {
            peer.kill().await;
            journal.note(&self.process(), What::End);
        }
    }

    pub(crate) fn pause(&mut self, journal: &mut Journal) {
        if let Some(AtWork { peer, .. }) = &self.at_work {
            peer.pause();
            journal.note(&self.process(), What::Pause);
            self.is_paused = true;
        }
    }

    pub(crate) fn resume(&mut self, journal: &mut Journal) {
        if let Some(AtWork { peer, .. }) = self.at_work.as_ref().filter(|_| self.is_paused) {
            journal.note(&self.process(), What::Resume);
            peer.resume();
            self.is_paused = false;
        }
    }

    /// From now on each of its users wants each lock for a moment.
    pub(crate) async fn calm(&self) {
        self.tell("calm").await;
    }

    /// From now on its users give back what they have, and stop.
    pub(crate) async fn rest(&self) {
        self.tell("rest").await;
    }

    async fn tell(&self, op: &str) {
        if let Some(AtWork { peer, .. }) = &self.at_work {
            let told = peer.call(json!({ "op": op })).await;
            told.unwrap_or_else(|error| panic!("{}: {op}: {error}", self.process()));
        }
    }

    /// Waits for the end of its traffic, and ends its process. What went wrong, if anything did.
    pub(crate) async fn leave(&mut self, journal: &mut Journal) -> Result<(), String> {
        let Some(AtWork { peer, traffic }) = self.at_work.take() else { return Ok(()) };
        let process = self.process();
        let done = tokio::time::timeout(FAREWELL, traffic.answer()).await;
        let log = peer.log();
        peer.kill().await;
        journal.note(&process, What::End);
        match done {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(format!("{process}: {error}")),
            Err(_) => {
                Err(format!("{process} has not come to an end by {}; its log:\n{log}", now()))
            }
        }
    }
}
