//! The task that updates the routes: it asks which server serves which slots, after failovers,
//! after moved slots, and from time to time.

use std::{
    sync::{Arc, PoisonError, Weak, atomic::Ordering},
    time::Duration,
};

use tokio::time::{Instant, sleep, timeout};

use super::{
    discover::{Discovery, ServerMap},
    router::{Patience, Router, Routes, connect_all},
};
use crate::{
    backoff::Backoff,
    warnings::Warnings,
    wire::{
        Event,
        answers::Failure,
        deployment::{Address, Deployment},
    },
};

/// The shortest pause between two questions.
const LEAST_PAUSE: Duration = Duration::from_millis(50);

/// For how long the question is repeated after a cause, and how often.
const ALERT: Duration = Duration::from_secs(10);
const ALERT_PAUSE: Duration = Duration::from_millis(200);

/// How many questions in a row may come sooner than that. Each call that fails is a cause, and many may
/// fail for long.
const HURRIED: u32 = 3;

/// The pauses between tries to connect to servers of which one could not be connected to.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Runs the task that keeps the routes up to date. It ends with the transport.
pub(in crate::wire) async fn refresh(router: Weak<Router>, mut discovery: Discovery) {
    let refresh_requested = match router.upgrade() {
        Some(router) => router.settings.refresh_requested.clone(),
        None => return,
    };
    let (mut complete, warnings) = (true, Warnings::default());
    // The servers may take a while to see what caused the question, above all a failover.
    let mut alert_until = Instant::now();
    let mut hurried = 0;
    let mut tries = Tries::default();
    loop {
        let alert = !complete || Instant::now() < alert_until;
        let pause = if alert { ALERT_PAUSE } else { discovery.interval() };
        hurried = match timeout(pause, refresh_requested.notified()).await {
            Ok(()) => {
                alert_until = Instant::now() + ALERT;
                hurried + 1
            }
            Err(_) => 0,
        };
        sleep(if hurried > HURRIED { ALERT_PAUSE } else { LEAST_PAUSE }).await;
        if router.upgrade().is_none_or(|router| router.closed.load(Ordering::Relaxed)) {
            return discovery.quit().await;
        }
        let mut map = match discovery.ask().await {
            Ok(map) => map,
            Err(error) => {
                warnings.tell("nobody says who serves the locks", &error);
                complete = false;
                continue;
            }
        };
        let Some(router) = router.upgrade() else { return };
        if !tries.may_begin(&map) {
            complete = false;
            continue;
        }
        let deployment = discovery.deployment().clone();
        complete = loop {
            if router.closed.load(Ordering::Relaxed) {
                break false;
            }
            router.leave(&map);
            let reached = tokio::select! {
                biased;
                reached = router.reach(&map, &deployment, &warnings) => reached,
                newer = other_than(&map, &mut discovery) => {
                    map = newer;
                    continue;
                }
            };
            if !reached.is_new() {
                break router.install(reached);
            }
            let until = Instant::now() + ALERT;
            let pause_after = |error: &Failure| {
                warnings.tell("nobody says again who serves the locks", error);
                let is_over = router.closed.load(Ordering::Relaxed) || until <= Instant::now();
                (!is_over && !reached.is_broken()).then_some(ALERT_PAUSE)
            };
            match ask_again(&map, &mut discovery, pause_after).await {
                Ok(None) => break router.install(reached),
                Ok(Some(newer)) => map = newer,
                Err(_) => break false,
            }
        };
        tries.end(map, complete);
    }
}

/// Tries to connect to the servers of a map. After one that failed the next comes after a pause, or when
/// the map is another.
#[derive(Default)]
struct Tries {
    failed: Option<(ServerMap, Backoff, Instant)>,
}

impl Tries {
    fn may_begin(&self, map: &ServerMap) -> bool {
        let same = self.failed.as_ref().filter(|(failed, ..)| is_same(failed, map));
        same.is_none_or(|(_, _, next)| *next <= Instant::now())
    }

    fn end(&mut self, map: ServerMap, complete: bool) {
        let before = self.failed.take().filter(|(failed, ..)| is_same(failed, &map));
        if !complete {
            let mut backoff = before.map_or_else(
                || Backoff::between(FIRST_PAUSE, LONGEST_PAUSE),
                |(_, backoff, _)| backoff,
            );
            let next = Instant::now() + backoff.next();
            self.failed = Some((map, backoff, next));
        }
    }
}

fn is_same(one: &ServerMap, other: &ServerMap) -> bool {
    one.slots == other.slots && one.epoch == other.epoch
}

/// Asks for a newer map while connections to the servers of this one are being made. Some of
/// those may be gone.
async fn other_than(map: &ServerMap, discovery: &mut Discovery) -> ServerMap {
    loop {
        sleep(ALERT_PAUSE).await;
        match discovery.ask().await {
            Ok(newer) if newer.slots != map.slots => return newer,
            _ => {}
        }
    }
}

/// Behind sentinels: asks once more, after connections to the servers of a map were made. A master that was replaced may
/// be back, empty, and connected to, if the map is older than that: this process was stopped, or connecting took long.
/// After an error it asks again, if there is to be a pause. `None`: the map is still true.
pub(in crate::wire) async fn ask_again(
    map: &ServerMap,
    discovery: &mut Discovery,
    mut pause_after: impl FnMut(&Failure) -> Option<Duration>,
) -> Result<Option<ServerMap>, Failure> {
    if discovery.is_cluster() {
        return Ok(None);
    }
    loop {
        let error = match discovery.ask().await {
            Ok(newer) => return Ok((newer.slots != map.slots).then_some(newer)),
            Err(error) => error,
        };
        let Some(pause) = pause_after(&error) else { return Err(error) };
        sleep(pause).await;
    }
}

/// Connections to the servers of a map.
pub(super) struct Reached {
    old: Arc<Routes>,
    /// `None`: those of before.
    new: Option<Routes>,
    epoch: u64,
    /// Whether every slot has a server.
    is_complete: bool,
}

impl Reached {
    /// Whether some were made for it.
    fn is_new(&self) -> bool {
        let was_known = |node| self.old.nodes.iter().any(|(_, old)| Arc::ptr_eq(node, old));
        self.new.as_ref().is_some_and(|new| !new.nodes.iter().all(|(_, node)| was_known(node)))
    }

    fn is_broken(&self) -> bool {
        self.new.iter().flat_map(|new| &new.nodes).any(|(_, node)| node.is_broken())
    }
}

impl Router {
    /// Behind sentinels: uses the master of before no more, if another is named.
    fn leave(&self, map: &ServerMap) {
        if self.is_cluster() {
            return;
        }
        let old = self.routes();
        let is_named = |at: &Address| map.slots.iter().any(|(_, now)| now.address.is_called(at));
        let stays = old.nodes.iter().any(|(at, _)| at.as_ref().is_some_and(is_named));
        if !stays {
            self.replace(&old, Routes { epoch: old.epoch, ..Routes::default() });
        }
    }

    /// Connects to the servers of the map.
    pub(super) async fn reach(
        &self,
        map: &ServerMap,
        deployment: &Deployment,
        warnings: &Warnings,
    ) -> Reached {
        self.set_map(map.clone());
        let (old, epoch) = (self.routes(), map.epoch);
        let is_known = old.slots.len() == map.slots.len()
            && old.slots.iter().zip(&map.slots).all(|((slots, node), (now, master))| {
                slots == now && old.known(master, map).is_some_and(|known| Arc::ptr_eq(known, node))
            });
        if is_known && !old.nodes.iter().any(|(_, node)| node.is_broken()) {
            return Reached { old, new: None, epoch, is_complete: true };
        }
        let connecting = connect_all(map, &old, deployment, &self.settings, Patience::Short);
        let (new, errors) = connecting.await;
        for error in &errors {
            warnings.tell("cannot connect", error);
        }
        // If they are the same, a new server cannot be reached yet.
        let new = (new.slots != old.slots).then_some(new);
        Reached { old, new, epoch, is_complete: errors.is_empty() }
    }

    /// Uses these connections from now on. Returns whether every slot has a server.
    pub(super) fn install(&self, reached: Reached) -> bool {
        let Reached { old, new, epoch, is_complete } = reached;
        let Some(new) = new else {
            self.note_epoch(epoch);
            return is_complete;
        };
        log!(info, servers = new.nodes.len(), "other servers serve the locks");
        if !self.replace(&old, new) {
            return true;
        }
        (self.settings.sink)(Event::Gap);
        is_complete
    }

    /// Installs other routes than the old ones. Returns `false` if the transport was closed meanwhile: its close has seen
    /// the old servers only.
    fn replace(&self, old: &Routes, new: Routes) -> bool {
        let retired: Vec<_> = old
            .nodes
            .iter()
            .filter(|(_, node)| !new.nodes.iter().any(|(_, other)| Arc::ptr_eq(node, other)))
            .map(|(_, node)| node.clone())
            .collect();
        {
            let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
            if self.closed.load(Ordering::Relaxed) {
                return false;
            }
            *routes = Arc::new(new);
        }
        for node in retired {
            // Callers that wait for an answer of it try elsewhere at once.
            self.settings.runtime.spawn(async move { node.retire().await });
        }
        true
    }

    /// Notes the epoch of a map with the servers of before. If it has risen, a slot may have gone away and come
    /// back. Its server has then ended the subscriptions to its sharded channels, and a driver may not tell.
    fn note_epoch(&self, epoch: u64) {
        {
            let mut routes = self.routes.write().unwrap_or_else(PoisonError::into_inner);
            let before = routes.epoch;
            if epoch != before {
                *routes = Arc::new(Routes { epoch, ..Routes::clone(&routes) });
            }
            if epoch <= before {
                return;
            }
        }
        (self.settings.sink)(Event::Gap);
    }
}
