//! What callers believe to hold, and whether two such beliefs exclude each other.

use std::{
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use tokio::time::Instant;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Read,
    Write,
}

/// When an acquisition was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) at: Instant,
}

#[derive(Default)]
pub(super) struct Beliefs {
    held: Mutex<Vec<Arc<Held>>>,
    tokens: Mutex<Vec<(String, Instant, u64)>>,
}

#[derive(Debug)]
struct Held {
    locks: Vec<String>,
    owner: u64,
    mode: Mode,
    from: Instant,
    /// For how long the server keeps it at most without a renewal that is confirmed.
    lease: Duration,
}

/// From the grant until the holder lets go, is told of a loss, or dies.
pub(super) struct Belief {
    held: Arc<Held>,
    beliefs: Arc<Beliefs>,
}

impl Belief {
    pub(super) fn end(&self) {
        self.beliefs.held().retain(|held| !Arc::ptr_eq(held, &self.held));
    }
}

impl Drop for Belief {
    fn drop(&mut self) {
        self.end();
    }
}

/// State that was taken away from a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) server: usize,
    pub(super) at: Instant,
}

impl Taken {
    /// Whether it explains that a hold that was granted then is not on the server now, although its
    /// holder was not told yet.
    fn excuses(&self, held: &Held, slack: Duration) -> bool {
        let server = format!("s{}/", self.server);
        // That of a majority names no server.
        let here = held.locks.iter().any(|lock| lock.starts_with(&server) || !lock.contains('/'));
        here && held.from <= self.at + slack && Instant::now() <= self.at + held.lease + slack
    }
}

impl Beliefs {
    fn held(&self) -> MutexGuard<'_, Vec<Arc<Held>>> {
        self.held.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// What contradicts it.
    #[expect(clippy::too_many_arguments, reason = "all of a grant")]
    pub(super) fn begin(
        self: &Arc<Self>,
        locks: Vec<String>,
        owner: u64,
        mode: Mode,
        lease: Duration,
        taken: &[Taken],
        slack: Duration,
        find: impl Fn(String),
    ) -> Belief {
        let held = Held { locks, owner, mode, from: Instant::now(), lease };
        let held = Arc::new(held);
        for other in self.held().iter() {
            let shared = other.mode == Mode::Read && mode == Mode::Read || other.owner == owner;
            let same = other.locks.iter().any(|lock| held.locks.contains(lock));
            if same && !shared && !taken.iter().any(|taken| taken.excuses(other, slack)) {
                find(format!("exclusion: {:?} of {} beside {other:?}", held.locks, owner));
            }
        }
        self.held().push(held.clone());
        Belief { held, beliefs: self.clone() }
    }

    /// A token that is not above one that was answered before it was asked for.
    pub(super) fn see_token(&self, lock: &str, asked: &Asked, token: u64) -> Option<u64> {
        let mut tokens = self.tokens.lock().unwrap();
        let mut before = tokens.iter().filter(|(of, at, _)| of == lock && *at < asked.at);
        let higher = before.find(|(.., other)| *other >= token).map(|(.., other)| *other);
        tokens.push((lock.to_owned(), Instant::now(), token));
        higher
    }
}
