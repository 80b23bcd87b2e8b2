//! [`Signals`]: those that end `run`, and are handed on to the command.

use nix::sys::signal::SigSet;
pub(crate) use nix::sys::signal::Signal;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::mpsc,
};

use crate::outcome::Failure;

/// The signals that end `run`.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT];

/// The exit code for an end by this signal.
pub(crate) fn code_of(signal: Signal) -> u8 {
    128 + signal as u8
}

/// The signals that came.
#[derive(Debug)]
pub(crate) struct Signals {
    came: mpsc::UnboundedReceiver<Signal>,
    // Keeps the channel open when all signals are ignored.
    _open: mpsc::UnboundedSender<Signal>,
}

/// Lets them come, whatever this process inherited. Before other threads are started.
pub(crate) fn unblock() {
    let _ = ENDING.into_iter().collect::<SigSet>().thread_unblock();
}

impl Signals {
    /// Begins to listen. From now on these signals do not end the program by themselves.
    ///
    /// An ignored SIGHUP, SIGINT or SIGQUIT stays ignored, also for the command: `nohup` and
    /// background jobs of shells ask for that. An ignored SIGCHLD does not, because exit codes would
    /// be lost: the handler replaces it.
    pub(crate) fn listen() -> Result<Self, Failure> {
        let failed = |error| Failure::internal(format!("signals cannot be handled: {error}"));
        drop(signal(SignalKind::child()).map_err(failed)?);
        let ignored = ignored();
        let (told, came) = mpsc::unbounded_channel();
        for one in ENDING {
            if one != Signal::SIGTERM && ignored & (1 << (one as u32 - 1)) != 0 {
                continue;
            }
            let mut stream = signal(SignalKind::from_raw(one as i32)).map_err(failed)?;
            let told = told.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() && told.send(one).is_ok() {}
            });
        }
        Ok(Self { came, _open: told })
    }

    pub(crate) async fn next(&mut self) -> Signal {
        match self.came.recv().await {
            Some(signal) => signal,
            None => std::future::pending().await,
        }
    }
}

/// The signals that this process ignores, as bits. None where the system does not show it.
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}
