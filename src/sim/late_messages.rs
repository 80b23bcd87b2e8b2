//! A client that hears of releases later than another one has its turns all the same.

use std::{cell::Cell, pin::pin, time::Duration};

use futures::{
    FutureExt,
    future::{join, join_all},
};
use tokio::time::{Instant, sleep, timeout};

use super::{LOCK, Sim, World, ms};
use crate::{Acquire, Client, Lock, LockGuard, Owner};

/// How the near ones ask for the lock.
#[derive(Clone, Copy, Debug)]
enum Near {
    Reentrant,
    Fenced,
    Read,
    ReadOwned,
    ReadLeased,
    Write,
}

const KINDS: [Near; 6] =
    [Near::Reentrant, Near::Fenced, Near::Read, Near::ReadOwned, Near::ReadLeased, Near::Write];

impl Near {
    fn lock(self, client: &Client) -> Lock {
        match self {
            Self::Reentrant => client.lock(LOCK),
            Self::Fenced => client.fenced_lock(LOCK).into(),
            Self::Read | Self::ReadOwned | Self::ReadLeased => {
                client.read_write_lock(LOCK).read_lock().clone()
            }
            Self::Write => client.read_write_lock(LOCK).write_lock().clone(),
        }
    }

    fn ask<'a>(self, lock: &Lock, me: &'a mut Owner) -> Acquire<'a, LockGuard> {
        match self {
            Self::ReadOwned => lock.lock().by(me),
            Self::ReadLeased => lock.lock().lease(Duration::from_secs(5)),
            _ => lock.lock(),
        }
    }

    /// The lock that the far one waits for.
    fn far(self, client: &Client) -> Lock {
        match self {
            Self::Read | Self::ReadOwned | Self::ReadLeased => Self::Write.lock(client),
            _ => self.lock(client),
        }
    }
}

/// The far one has twenty turns, while the near ones go on. Returns its waits.
async fn turns_of(far: &Lock, done: &Cell<bool>, what: &str) -> Vec<Duration> {
    let mut waits = Vec::new();
    sleep(ms(50)).await;
    for n in 0..20 {
        let begun = Instant::now();
        let guard = timeout(ms(3_000), far.lock().into_future()).await;
        let guard = guard.unwrap_or_else(|_| panic!("{what}: no turn {n} in 3 s")).unwrap();
        waits.push(begun.elapsed());
        guard.unlock().await.unwrap();
    }
    done.set(true);
    waits
}

/// It asks again as soon as it has released the lock, by the same handle or by another one.
#[tokio::test(start_paused = true)]
async fn beside_one_that_never_pauses() {
    for kind in KINDS {
        for (late, hold) in [(1, 0), (2, 0), (3, 0), (1, 1), (3, 5)] {
            for keeps_handle in [true, false] {
                let what = format!("{kind:?}, {late} ms later, keeps its handle: {keeps_handle}");
                let world = World::new();
                let (near, far) = (Sim::new(&world).await, Sim::new(&world).await);
                far.network.delay_messages(ms(late));
                let (done, turns) = (Cell::new(false), Cell::new(0));
                let kept = keeps_handle.then(|| kind.lock(&near.client));
                let mut me = near.client.owner();
                let busy = async {
                    while !done.get() {
                        let lock = kept.clone().unwrap_or_else(|| kind.lock(&near.client));
                        let guard = kind.ask(&lock, &mut me).await.unwrap();
                        sleep(ms(hold)).await;
                        guard.unlock().await.unwrap();
                        turns.set(turns.get() + 1);
                    }
                };
                let lock = kind.far(&far.client);
                let ((), waits) = join(busy, turns_of(&lock, &done, &what)).await;
                assert!(waits.iter().all(|wait| *wait < ms(100)), "{what}: {waits:?}");
                assert!(turns.get() > 10, "{what}: {turns:?}");
                assert!(far.left().await.is_empty());
            }
        }
    }
}

/// A writer that never pauses, and readers of a third client.
#[tokio::test(start_paused = true)]
async fn beside_a_writer_among_readers() {
    for (late, reading) in [(1, 30), (2, 30), (3, 30), (3, 5), (3, 1)] {
        let what = format!("{late} ms later, reads of {reading} ms");
        let world = World::new();
        let (readers, near, far) =
            (Sim::new(&world).await, Sim::new(&world).await, Sim::new(&world).await);
        far.network.delay_messages(ms(late));
        let (done, lock) = (Cell::new(false), readers.client.read_write_lock(LOCK));
        let reads = join_all((0..8).map(|i| {
            let (lock, done) = (&lock, &done);
            async move {
                sleep(ms(i)).await;
                while !done.get() {
                    let guard = lock.read().await.unwrap();
                    sleep(ms(reading)).await;
                    guard.unlock().await.unwrap();
                }
            }
        }));
        let busy = async {
            while !done.get() {
                let guard = near.client.read_write_lock(LOCK).write().await.unwrap();
                guard.unlock().await.unwrap();
            }
        };
        let writes = Near::Write.lock(&far.client);
        let (.., waits) = tokio::join!(reads, busy, turns_of(&writes, &done, &what));
        assert!(waits.iter().all(|wait| *wait < ms(500)), "{what}: {waits:?}");
        assert!(far.left().await.is_empty());
    }
}

/// A read is released at the server, and its caller hears of that when an owner of its client writes, and reads under
/// that. A local reader waits for the write.
#[tokio::test(start_paused = true)]
async fn a_gap_between_reads_keeps_nobody_from_a_read_under_its_own_write() {
    let world = World::new();
    let (near, far) = (Sim::new(&world).await, Sim::new(&world).await);
    far.network.delay_messages(ms(3));
    let (lock, mut me) = (near.client.read_write_lock(LOCK), near.client.owner());
    let writes = Near::Write.lock(&far.client);
    let leased = lock.read().lease(Duration::from_secs(5)).await.unwrap();
    let waits = join(writes.lock().into_future(), async {
        sleep(ms(50)).await;
        let mut released = pin!(leased.unlock());
        assert!((&mut released).now_or_never().is_none());
        let write = lock.write().by(&mut me).await.unwrap();
        let mut behind = pin!(lock.read().into_future());
        assert!(timeout(ms(20), &mut behind).await.is_err());
        lock.read().by(&mut me).await.unwrap().unlock().await.unwrap();
        sleep(ms(40)).await;
        released.await.unwrap();
        let again = timeout(ms(1_000), lock.read().by(&mut me).into_future()).await;
        again.expect("its own write").unwrap().unlock().await.unwrap();
        write.unlock().await.unwrap();
        behind.await.unwrap().unlock().await.unwrap();
    });
    let (written, ()) = waits.await;
    written.unwrap().unlock().await.unwrap();
    assert!(far.left().await.is_empty());
}
