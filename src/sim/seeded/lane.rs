//! [`Lane`]: one direction of a connection. What is sent first arrives first.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

type Arrival = Box<dyn FnOnce() + Send>;

pub(super) struct Lane {
    queue: mpsc::UnboundedSender<(Instant, Arrival)>,
    state: Arc<State>,
}

struct State {
    /// Nothing arrives before.
    stuck_until: Mutex<Instant>,
    dead: AtomicBool,
}

impl Lane {
    pub(super) fn new() -> Self {
        let (queue, mut sent) = mpsc::unbounded_channel::<(Instant, Arrival)>();
        let stuck_until = Mutex::new(Instant::now());
        let state = Arc::new(State { stuck_until, dead: AtomicBool::new(false) });
        let lane = Self { queue, state: state.clone() };
        // What is on its way arrives although the sender is gone.
        tokio::spawn(async move {
            while let Some((at, arrive)) = sent.recv().await {
                sleep_until(at).await;
                loop {
                    let until = *state.stuck_until.lock().unwrap();
                    if until <= Instant::now() || state.dead.load(Ordering::Relaxed) {
                        break;
                    }
                    sleep_until(until).await;
                }
                if !state.dead.load(Ordering::Relaxed) {
                    arrive();
                }
            }
        });
        lane
    }

    pub(super) fn send(&self, takes: Duration, arrive: impl FnOnce() + Send + 'static) {
        let _ = self.queue.send((Instant::now() + takes, Box::new(arrive)));
    }

    pub(super) fn stick(&self, until: Instant) {
        let mut stuck = self.state.stuck_until.lock().unwrap();
        *stuck = until.max(*stuck);
    }

    /// Nothing arrives any more.
    pub(super) fn kill(&self) {
        self.state.dead.store(true, Ordering::Relaxed);
    }
}
