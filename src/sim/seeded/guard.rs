//! [`Guard`]: a guard of any kind. [`Holding`]: one that the judge knows.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use judge::{Answer, Call, Held};

use super::{judgement::nanos, world::World};
use crate::{Error, FencedGuard, LockGuard, Loss, MultiGuard};

/// A guard of any kind.
pub(super) enum Guard {
    One(LockGuard),
    Fenced(FencedGuard),
    Several(MultiGuard),
}

/// How an acquisition ended.
pub(super) type Got = Result<Option<Guard>, Error>;

impl Guard {
    async fn unlock(self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.unlock().await,
            Self::Fenced(guard) => guard.unlock().await,
            Self::Several(guard) => guard.unlock().await,
        }
    }

    async fn lost(&self) -> Loss {
        match self {
            Self::One(guard) => guard.lost().await,
            Self::Fenced(guard) => guard.lost().await,
            Self::Several(guard) => guard.lost().await,
        }
    }

    pub(super) async fn check(&self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.check().await,
            Self::Fenced(guard) => guard.check().await,
            Self::Several(guard) => guard.check().await,
        }
    }

    pub(super) fn is_held(&self) -> bool {
        match self {
            Self::One(guard) => guard.is_held(),
            Self::Fenced(guard) => guard.is_held(),
            Self::Several(guard) => guard.is_held(),
        }
    }

    fn ids(&self) -> Vec<String> {
        match self {
            Self::One(guard) => vec![guard.holder().to_owned()],
            Self::Fenced(guard) => vec![guard.holder().to_owned()],
            Self::Several(guard) => guard.holder_ids(),
        }
    }

    /// The holds behind it. `servers`: the client's ids, one on each server.
    fn holds(&self, servers: &[String]) -> Vec<Held> {
        let place = |id: &String| match self {
            Self::Several(_) => {
                let is_of = |server: &String| id.starts_with(&**server);
                servers.iter().position(is_of).expect("an id of the client")
            }
            _ => 0,
        };
        self.ids().into_iter().map(|id| Held { place: place(&id), id }).collect()
    }

    /// What its caller is told.
    pub(super) fn granted(&self, servers: &[String]) -> Answer {
        let (one, token) = match self {
            Self::One(guard) => (Some(guard), None),
            Self::Fenced(guard) => (Some(&**guard), Some(guard.token().value())),
            Self::Several(_) => (None, None),
        };
        let remaining = match self {
            Self::Several(guard) => guard.remaining(),
            Self::One(guard) => guard.remaining(),
            Self::Fenced(guard) => guard.remaining(),
        };
        Answer::Granted {
            holds: self.holds(servers),
            token,
            acknowledged: one.and_then(|guard| guard.acknowledged()),
            remaining: nanos(remaining),
            count: one.map_or(1, |guard| guard.hold_count()),
        }
    }
}

/// A guard that the judge knows.
pub(super) struct Holding {
    world: Arc<World>,
    client: usize,
    number: u64,
    guard: Option<Guard>,
    known: Vec<Held>,
    told: AtomicBool,
}

impl Holding {
    /// `number`: that of the acquisition.
    pub(super) fn new(world: &Arc<World>, client: usize, number: u64, guard: Guard) -> Self {
        let known = guard.holds(&ids(world, client));
        let (world, told) = (world.clone(), AtomicBool::new(false));
        Self { world, client, number, guard: Some(guard), known, told }
    }

    pub(super) fn guard(&self) -> &Guard {
        self.guard.as_ref().expect("given back last")
    }

    pub(super) fn check(&self) -> Call {
        Call::Check { guard: self.number }
    }

    /// Waits until its user is told that it is lost.
    pub(super) async fn lost(&self) -> Loss {
        let why = self.guard().lost().await;
        self.tell(why);
        why
    }

    fn tell(&self, why: Loss) {
        if !self.told.swap(true, Ordering::Relaxed) {
            self.world.recorder.lost(self.client, self.number, why);
        }
    }

    /// Tells its user if he has not been polled for so long that it is over.
    pub(super) async fn look(&self) {
        if !self.guard().is_held() {
            self.lost().await;
        }
    }

    /// Servers of a majority that have joined late.
    fn note_joined(&self) {
        let holds = self.guard().holds(&ids(&self.world, self.client));
        for hold in holds.into_iter().filter(|hold| !self.known.contains(hold)) {
            self.world.recorder.joined(self.client, self.number, hold);
        }
    }

    pub(super) async fn unlock(mut self) -> Result<(), Error> {
        self.note_joined();
        let guard = self.guard.take().expect("given back last");
        let call = Call::Unlock { guard: self.number };
        let asked = self.world.recorder.invoke(self.client, call);
        let done = guard.unlock().await;
        asked.done(&done);
        done
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        if self.guard.is_some() {
            self.note_joined();
            self.world.recorder.dropped(self.client, self.number);
        }
    }
}

/// The ids of a client, one on each server.
pub(super) fn ids(world: &World, client: usize) -> Vec<String> {
    world.clients[client].by_server.iter().map(|client| client.id().to_owned()).collect()
}
