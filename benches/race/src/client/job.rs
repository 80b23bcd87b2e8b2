//! The requests to a client process, and its answers.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};
use serde::Deserialize;
use serde_json::Value;

/// The lease of locks that need one: the watchdog's default.
pub(super) const LEASE: Duration = Duration::from_secs(30);

/// What a client process can be asked to do.
pub(super) trait Job: Send + Sync + 'static {
    /// The value of the answer.
    fn perform(&self, request: Request) -> impl Future<Output = Value> + Send;
}

#[derive(Debug, Deserialize)]
pub(super) struct Request {
    pub(super) id: u64,
    pub(super) op: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) owner: String,
    #[serde(default)]
    pub(super) owners: usize,
    #[serde(default)]
    pub(super) millis: u64,
    #[serde(default)]
    pub(super) each: bool,
}

/// What CPU this process has used so far.
pub(super) fn cpu() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("its own usage");
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| {
            let seconds = time.tv_sec().try_into().expect("seconds");
            let micros = time.tv_usec().try_into().expect("microseconds");
            Duration::from_secs(seconds) + Duration::from_micros(micros)
        })
        .sum()
}

pub(super) fn micros(time: Duration) -> u64 {
    time.as_micros().try_into().expect("a time of this age")
}
