//! Every kind of lock in a slot that stops moving halfway, with each choice of its keys on the other side.

use std::time::Duration;

use futures::future::join_all;
use harness::{PATIENCE, Servers, assert_nothing_left_within, eventually, redis::cmd};
use redisson_lock::{Client, Error, LockGuard, MultiGuard, MultiLock};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::halfway::{Halfway, MovingCluster, bounded};

/// Holds whose keys are on both sides cannot be renewed, and are lost after so long: their holders are told then.
const WATCHDOG: Duration = Duration::from_secs(12);
/// In which all holds are renewed that can be.
const STANDS_STILL: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Reentrant,
    NonReentrant,
    Spin,
    Plain,
    Fair,
    NonReentrantFair,
    Fenced,
    /// Two readers.
    Read,
    /// A writer that reads, too.
    Write,
    /// A plain lock and the read side of another, in one slot.
    Multi,
}
use Kind::*;

/// How many keys there are when the lock is held and waited for.
const KINDS: [(Kind, usize); 10] = [
    (Reentrant, 1),
    (NonReentrant, 1),
    (Spin, 1),
    (Plain, 1),
    (Fair, 3),
    (NonReentrantFair, 3),
    (Fenced, 2),
    (Read, 3),
    (Write, 2),
    (Multi, 3),
];

/// How the lock comes free.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Unlocked,
    Forced,
}

/// What becomes of the slot.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Slot {
    Moves,
    Stays,
}

enum Guard {
    One(LockGuard),
    All(MultiGuard),
}

impl Guard {
    fn is_held(&self) -> bool {
        match self {
            Self::One(guard) => guard.is_held(),
            Self::All(guard) => guard.is_held(),
        }
    }

    async fn unlock(self) -> Result<(), Error> {
        match self {
            Self::One(guard) => guard.unlock().await,
            Self::All(guard) => guard.unlock().await,
        }
    }
}

/// One lock in a slot of its own.
struct Case<'a> {
    kind: Kind,
    name: String,
    /// Which of its keys, in order, are on the far side: a bit for each.
    moved: usize,
    guards: Vec<Guard>,
    waiter: Option<JoinHandle<()>>,
    halfway: Option<Halfway<'a>>,
}

impl<'a> Case<'a> {
    /// Takes the lock, and has another client wait for it.
    async fn begin(moving: &MovingCluster, kind: Kind, moved: usize, renewed: bool) -> Self {
        let name = format!("{{{kind:?}:{moved}:{renewed}}}:lock");
        let guards = taken(&moving.clients[0], kind, &name).await;
        let (client, its_name) = (moving.clients[1].clone(), name.clone());
        let waiter = tokio::spawn(async move {
            // The wait for the lock has no bound, that for Redis has.
            loop {
                match conflicting(&client, kind, &its_name, Wait::Yes).await {
                    Ok(guard) => {
                        // It may be freed by force as well, with who had it before.
                        let unlocked = guard.expect("a lock waited for").unlock().await;
                        assert!(
                            matches!(
                                unlocked,
                                Ok(()) | Err(Error::Redis(_) | Error::NotHeld { .. })
                            ),
                            "{kind:?}, {moved:b}: {unlocked:?}"
                        );
                        return;
                    }
                    // A runtime that ends must be able to drop this task.
                    Err(Error::Redis(_)) => sleep(Duration::from_millis(10)).await,
                    Err(error) => panic!("{kind:?}, {moved:b}: {error}"),
                }
            }
        });
        Self { kind, name, moved, guards, waiter: Some(waiter), halfway: None }
    }

    /// Its keys among all, if they are those of its holds and no others.
    fn keys<'k>(&self, keys: &'k [String]) -> Option<Vec<&'k String>> {
        let tag = self.name.trim_end_matches("lock");
        let mine: Vec<_> = keys.iter().filter(|key| key.contains(tag)).collect();
        let (_, known) = KINDS.iter().find(|(kind, _)| *kind == self.kind).expect("a kind");
        (mine.len() == *known).then_some(mine)
    }

    fn half(&mut self, moving: &'a MovingCluster, keys: &[String]) {
        let mine = self.keys(keys).expect("looked at before");
        let moved = mine.iter().enumerate().filter(|(i, _)| self.moved & (1 << i) != 0);
        let moved: Vec<_> = moved.map(|(_, key)| key.as_str()).collect();
        self.halfway = Some(moving.halfway(&self.name, &moved));
    }

    /// Nobody gets it beside one who believes that he has it.
    async fn is_not_granted(&self, client: &Client, when: &str) {
        let what = self.what(when);
        let begun_held = self.believed();
        let got = bounded(&what, conflicting(client, self.kind, &self.name, Wait::No)).await;
        let got = matches!(got, Ok(Some(_)));
        assert!(!(got && begun_held && self.believed()), "{what}: granted beside a holder");
        let waited = self.waiter.as_ref().is_some_and(JoinHandle::is_finished);
        assert!(!(waited && self.believed()), "{what}: the waiter was granted beside a holder");
    }

    fn believed(&self) -> bool {
        self.guards.iter().any(Guard::is_held)
    }

    async fn is_given_back(&mut self, one: bool) {
        let given = if one { 1 } else { self.guards.len() };
        for guard in self.guards.drain(..given) {
            let what = format!("{:?}, {:b}: unlock", self.kind, self.moved);
            let unlocked = bounded(&what, guard.unlock()).await;
            assert!(
                matches!(unlocked, Ok(()) | Err(Error::Redis(_) | Error::NotHeld { .. })),
                "{what}: {unlocked:?}"
            );
        }
    }

    async fn is_forced(&self, client: &Client) {
        let what = self.what("force_unlock");
        let locks = match self.kind {
            Fair | NonReentrantFair => vec![client.fair_lock(&self.name)],
            Plain => vec![client.plain_lock(&self.name)],
            Read => vec![client.read_write_lock(&self.name).read_lock().clone()],
            Write => vec![client.read_write_lock(&self.name).write_lock().clone()],
            Multi => vec![
                client.lock(&self.name),
                client.read_write_lock(beside(&self.name)).read_lock().clone(),
            ],
            _ => vec![client.lock(&self.name)],
        };
        for lock in locks {
            let forced = bounded(&what, lock.force_unlock()).await;
            assert!(matches!(forced, Ok(_) | Err(Error::Redis(_))), "{what}: {forced:?}");
            // Whoever has it, and wherever its keys are.
            if self.halfway.is_some() && matches!(self.kind, Read | Write) && self.believed() {
                assert!(matches!(forced, Ok(true)), "{what}: {forced:?}");
            }
        }
    }

    async fn comes_to_its_end(mut self, moving: &MovingCluster) {
        let what = self.what("in the end");
        // What was refused to those who forced it.
        if !self.guards.is_empty() {
            self.is_forced(&moving.clients[2]).await;
            self.is_given_back(false).await;
        }
        let waiter = self.waiter.take().expect("a waiter");
        let waited = tokio::time::timeout(PATIENCE, waiter).await;
        waited.unwrap_or_else(|_| panic!("{what}: the waiter waits for ever")).unwrap();
        if matches!(self.kind, Fair | NonReentrantFair) {
            // While the keys of a slot are on their way back, the waiter may find none of them, and be granted. The place that it
            // had then comes back with the line, and goes when the next caller passes it over.
            let next = moving.clients[2].fair_lock(&self.name);
            let granted = next.try_lock().wait(PATIENCE).await.unwrap();
            let guard = granted.unwrap_or_else(|| panic!("{what}: a place without a waiter stays"));
            guard.unlock().await.unwrap();
        }
    }

    fn what(&self, when: &str) -> String {
        format!("{:?}, {:b} on the far side, {when}", self.kind, self.moved)
    }
}

async fn taken(client: &Client, kind: Kind, name: &str) -> Vec<Guard> {
    let one = |lock: redisson_lock::Lock| async move { Guard::One(lock.lock().await.unwrap()) };
    match kind {
        Reentrant => vec![one(client.lock(name)).await],
        NonReentrant => vec![one(client.non_reentrant_lock(name)).await],
        Spin => vec![one(client.spin_lock(name)).await],
        Plain => vec![one(client.plain_lock(name)).await],
        Fair => vec![one(client.fair_lock(name)).await],
        NonReentrantFair => vec![one(client.non_reentrant_fair_lock(name)).await],
        Fenced => vec![one(client.fenced_lock(name).into()).await],
        Read => {
            let (lock, mut me) = (client.read_write_lock(name), client.owner());
            // Two share a hold, and the third has one of its own.
            let own = lock.read().by(&mut me).await.unwrap();
            let shared = lock.read_lock();
            vec![one(shared.clone()).await, one(shared.clone()).await, Guard::One(own)]
        }
        Write => {
            let (lock, mut me) = (client.read_write_lock(name), client.owner());
            let writing = lock.write().by(&mut me).await.unwrap();
            let reading = lock.read().by(&mut me).await.unwrap();
            vec![Guard::One(writing), Guard::One(reading)]
        }
        Multi => {
            let parts =
                [client.lock(name), client.read_write_lock(beside(name)).read_lock().clone()];
            vec![Guard::All(MultiLock::all(parts).lock().await.unwrap())]
        }
    }
}

fn beside(name: &str) -> String {
    format!("{name}:beside")
}

#[derive(Clone, Copy, PartialEq)]
enum Wait {
    Yes,
    No,
}

/// Takes what cannot be had while it is held.
async fn conflicting(
    client: &Client,
    kind: Kind,
    name: &str,
    wait: Wait,
) -> Result<Option<LockGuard>, Error> {
    let lock = match kind {
        Reentrant | Multi => client.lock(name),
        NonReentrant => client.non_reentrant_lock(name),
        Spin => client.spin_lock(name),
        Plain => client.plain_lock(name),
        Fair => client.fair_lock(name),
        NonReentrantFair => client.non_reentrant_fair_lock(name),
        Fenced => client.fenced_lock(name).into(),
        Read => client.read_write_lock(name).write_lock().clone(),
        Write => client.read_write_lock(name).read_lock().clone(),
    };
    match wait {
        Wait::Yes => lock.lock().await.map(Some),
        Wait::No => lock.try_lock().await,
    }
}

async fn in_each_order(end: End, slot: Slot) {
    let moving = MovingCluster::new(3, WATCHDOG).await;
    for renewed in [false, true] {
        all_cases(&moving, end, slot, renewed).await;
    }
    let inspector = moving.cluster.inspector();
    for key in inspector.keys().iter().filter(|key| key.starts_with("redisson_lock_token")) {
        let () = inspector.query(cmd("DEL").arg(key));
    }
    // At the latest with the lease: what was freed by force while a key of it was on the other side.
    assert_nothing_left_within(&moving.cluster, PATIENCE).await;
    // Nor what may be left elsewhere.
    let gone = || inspector.keys().is_empty().then_some(());
    eventually(PATIENCE, "no key to be left", gone).await;
    moving.end().await;
}

/// `renewed`: those holds are that can be, before anything else happens.
async fn all_cases(moving: &MovingCluster, end: End, slot: Slot, renewed: bool) {
    let inspector = moving.cluster.inspector();
    let each = KINDS.iter().flat_map(|&(kind, keys)| (0..1 << keys).map(move |at| (kind, at)));
    let each = each.map(|(kind, moved)| Case::begin(moving, kind, moved, renewed));
    let mut cases = join_all(each).await;
    // Those who wait for a fair lock stand in line.
    let fair = cases.iter().filter(|case| matches!(case.kind, Fair | NonReentrantFair));
    for case in fair {
        let line = || (!inspector.line(&case.name).is_empty()).then_some(());
        eventually(PATIENCE, "a waiter in line", line).await;
    }
    // A request that had no answer in time leaves a key of its own until it is undone.
    let keys = || {
        let keys = inspector.keys();
        cases.iter().all(|case| case.keys(&keys).is_some()).then_some(keys)
    };
    let keys = eventually(PATIENCE, "the keys of all holds, and no others", keys).await;
    for case in &mut cases {
        case.half(moving, &keys);
    }
    if renewed {
        sleep(STANDS_STILL).await;
    }
    let stranger = &moving.clients[2];
    join_all(cases.iter().map(|case| case.is_not_granted(stranger, "held"))).await;
    match end {
        End::Unlocked => {
            join_all(cases.iter_mut().map(|case| case.is_given_back(true))).await;
            // Of two readers one is left, and of a writer its read.
            let left = cases.iter().filter(|case| case.kind == Read);
            join_all(left.map(|case| case.is_not_granted(stranger, "one reader left"))).await;
            join_all(cases.iter_mut().map(|case| case.is_given_back(false))).await;
            for case in cases.iter().filter(|case| matches!(case.kind, Read | Write)) {
                let halfway = case.halfway.as_ref().expect("a slot that stands still");
                let fields = halfway.hash(&case.name);
                let what = case.what("unlocked");
                assert!(fields.len() != 1, "{what}: in a mode, and by nobody: {fields:?}");
            }
        }
        End::Forced => {
            join_all(cases.iter().map(|case| case.is_forced(stranger))).await;
        }
    }
    for case in &mut cases {
        let halfway = case.halfway.take().expect("a slot that stands still");
        match slot {
            Slot::Moves => halfway.goes_on(),
            Slot::Stays => halfway.turns_back(),
        }
    }
    join_all(cases.into_iter().map(|case| case.comes_to_its_end(moving))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_given_back_in_a_slot_that_stands_halfway_and_then_moves() {
    in_each_order(End::Unlocked, Slot::Moves).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_given_back_in_a_slot_that_stands_halfway_and_then_stays() {
    in_each_order(End::Unlocked, Slot::Stays).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_freed_by_force_in_a_slot_that_stands_halfway_and_then_moves() {
    in_each_order(End::Forced, Slot::Moves).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_freed_by_force_in_a_slot_that_stands_halfway_and_then_stays() {
    in_each_order(End::Forced, Slot::Stays).await;
}
