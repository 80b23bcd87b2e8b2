//! Watches the counter of a contest: when it moved, and when it stood still.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use harness::RedisServer;
use harness::redis::{RedisResult, cmd};

const GLANCE: Duration = Duration::from_millis(2);

/// Looks on until it is asked what it saw, or the server is gone.
pub(crate) struct Watch {
    is_over: Arc<AtomicBool>,
    eye: JoinHandle<Vec<Instant>>,
}

/// The moments when the counter was seen to have moved, and the last look.
pub(crate) struct Progress(Vec<Instant>);

impl Watch {
    pub(crate) fn on(server: &RedisServer, counter: &'static str) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let (mut server, stop) = (server.client(), is_over.clone());
        let eye = thread::spawn(move || {
            let (mut last, mut moved) = (None, vec![Instant::now()]);
            while !stop.load(Ordering::Relaxed) {
                let seen: RedisResult<Option<u64>> = cmd("GET").arg(counter).query(&mut server);
                let Ok(seen) = seen else { break };
                if seen != last {
                    moved.push(Instant::now());
                    last = seen;
                }
                thread::sleep(GLANCE);
            }
            moved.push(Instant::now());
            moved
        });
        Self { is_over, eye }
    }

    pub(crate) fn end(self) -> Progress {
        self.is_over.store(true, Ordering::Relaxed);
        Progress(self.eye.join().expect("an eye that sees"))
    }
}

impl Progress {
    /// The longest time without a turn of which any part is in between.
    pub(crate) fn longest_pause(&self, from: Instant, to: Instant) -> Duration {
        let pauses = self.0.windows(2).filter(|pause| pause[0] <= to && pause[1] >= from);
        pauses.map(|pause| pause[1] - pause[0]).max().unwrap_or_default()
    }

    /// How long after this the next turn began, if one did.
    pub(crate) fn next_turn(&self, after: Instant) -> Option<Duration> {
        let (_, turns) = self.0.split_last()?;
        Some(*turns.iter().find(|turn| **turn > after)? - after)
    }
}
