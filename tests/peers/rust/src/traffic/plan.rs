//! What users do, and how they behave.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};

use judge::{Code, Place, Policy};
use redisson_lock::Error;
use serde::Deserialize;

/// What is asked for. `tests/chaos` writes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// The name of this process in the history.
    pub(super) process: String,
    pub(super) seed: u64,
    pub(super) file: PathBuf,
    pub(super) policy: Policy,
    pub(super) workers: usize,
    pub(super) places: Vec<Place>,
    /// Of a hundred acquisitions, or releases, so many are cut.
    pub(super) cut_percent: u8,
    /// Of a hundred acquisitions, so many have an owner, who may enter again.
    pub(super) owner_percent: u8,
    /// Of a hundred acquisitions, so many have a lease.
    pub(super) lease_percent: u8,
    /// Of a hundred guards, so many are dropped, and not unlocked.
    pub(super) drop_percent: u8,
    /// Of a thousand operations, so many free a lock by force.
    pub(super) force_permille: u16,
    /// Of a hundred holds, so many are long ones: between half of `long_ms` and all of it.
    pub(super) long_percent: u8,
    pub(super) long_ms: u64,
    /// The longest hold besides, lease and pause.
    pub(super) hold_ms: u64,
    pub(super) lease_ms: u64,
    pub(super) pause_ms: u64,
}

/// How users behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Mood {
    /// As the plan has it.
    Wild,
    /// Each wants every lock for a moment, and waits for it.
    Calm,
    /// Each gives back what it has, and stops.
    Rest,
}

/// The mood of all users of this process.
#[derive(Debug, Default)]
pub(crate) struct Moods(AtomicU8);

impl Moods {
    pub(crate) fn set(&self, mood: Mood) {
        self.0.store(mood as u8, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Mood {
        match self.0.load(Ordering::Relaxed) {
            0 => Mood::Wild,
            1 => Mood::Calm,
            _ => Mood::Rest,
        }
    }
}

pub(super) fn code(error: &Error) -> Code {
    match error {
        Error::WrongKind { .. } => Code::WrongKind,
        Error::WouldDeadlock { .. } => Code::WouldDeadlock,
        Error::NotReplicated { .. } => Code::NotReplicated,
        Error::Invalid(_) | Error::Config(_) => Code::Invalid,
        Error::Closed => Code::Closed,
        _ => Code::Redis,
    }
}
