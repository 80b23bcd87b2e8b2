//! A part of several locks, which is held while others are missing.

use tokio::time::{sleep, timeout};

use super::{LOCK, SOON, Sim, World, ms};
use crate::{Error, Lock, Loss, MultiLock};

fn three(sim: &Sim) -> [Lock; 3] {
    [LOCK, "later", "last"].map(|name| sim.client.lock(name))
}

/// The watchdog renews none of several locks for a caller that was not granted all of them.
#[tokio::test(start_paused = true)]
async fn a_part_of_several_locks_is_not_kept_when_nobody_polls() {
    let world = World::new();
    let others = || async {
        let other = Sim::new(&world).await;
        let mut held = Vec::new();
        for name in ["later", "last"] {
            held.push(other.client.lock(name).lock().await.unwrap());
        }
        (other, held)
    };
    for (how, several) in
        [("all", MultiLock::all as fn([Lock; 3]) -> MultiLock), ("majority", MultiLock::majority)]
    {
        for after in [1, 7, 20, 60, 200] {
            let ((_other, held), sim) = (others().await, Sim::new(&world).await);
            let several = several(three(&sim));
            let mut waiting = Box::pin(several.lock().into_future());
            assert!(timeout(ms(after), &mut waiting).await.is_err());
            sleep(ms(100)).await;
            let calls = sim.network.calls();
            sleep(ms(120_000)).await;
            assert_eq!(sim.network.calls(), calls, "{how}: left alone after {after} ms");
            // TTLs do not run here.
            world.forget(LOCK);
            for guard in held {
                guard.unlock().await.unwrap();
            }
            // It goes on when it is polled again, and is renewed then. An answer that is too old counts
            // as one for a single lock.
            let guard = match timeout(SOON, waiting).await.expect("all are free") {
                Err(Error::NotHeld { why: Loss::Expired }) if after == 1 => continue,
                guard => guard.unwrap(),
            };
            sleep(ms(120_000)).await;
            assert!(guard.is_held());
            guard.unlock().await.unwrap();
            assert!(sim.left().await.is_empty());
        }
    }
}

/// A reader whom others would join counts on their renewals, and they on its own.
#[tokio::test(start_paused = true)]
async fn a_part_that_is_a_read_leaves_other_reads_as_they_are() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let reads = || sim.client.read_write_lock(LOCK);
    let busy = other.client.lock("later").lock().await.unwrap();
    let both = || {
        MultiLock::all([sim.client.read_write_lock(LOCK).read_lock().clone()])
            .and(sim.client.lock("later"))
    };
    let one = reads().read().await.unwrap();
    assert!(both().try_lock().await.unwrap().is_none());
    let (first, second) = (both(), both());
    let waits = |multi: &MultiLock| {
        let multi = multi.clone();
        tokio::spawn(async move {
            let guard = multi.lock().await.unwrap();
            sleep(ms(120_000)).await;
            assert!(guard.is_held(), "it is renewed");
            guard.unlock().await.unwrap();
        })
    };
    let waiters = [waits(&first), waits(&second)];
    sleep(ms(50)).await;
    let two = reads().read().await.unwrap();
    sleep(ms(120_000)).await;
    assert!(one.is_held() && two.is_held(), "they are renewed");
    busy.unlock().await.unwrap();
    for waiter in waiters {
        timeout(ms(300_000), waiter).await.expect("their turns").unwrap();
    }
    assert!(one.is_held() && two.is_held());
    one.unlock().await.unwrap();
    two.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// Its re-entry is refused for good, as that of a single lock is.
#[tokio::test(start_paused = true)]
async fn an_owner_whose_majority_is_lost_is_told_so() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let multi = MultiLock::majority(three(&sim));
    let mut me = sim.client.owner();
    let outer = multi.lock().by(&mut me).await.unwrap();
    for name in [LOCK, "later"] {
        world.forget(name);
    }
    assert_eq!(timeout(ms(30_000), outer.lost()).await.unwrap(), Loss::Removed);
    let inner = timeout(ms(1_000), multi.lock().by(&mut me).into_future()).await;
    let inner = inner.expect("an answer");
    assert!(matches!(inner, Err(Error::NotHeld { why: Loss::Removed })), "{inner:?}");
    drop(outer);
    assert!(sim.left().await.is_empty());
}

/// One server has lost it, and another does not answer for a while: that does not decide.
#[tokio::test(start_paused = true)]
async fn an_owner_whose_majority_is_held_waits_for_a_slow_server() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let multi = MultiLock::majority(three(&sim));
    let mut me = sim.client.owner();
    let outer = multi.lock().by(&mut me).await.unwrap();
    world.forget("later");
    sleep(ms(30_000)).await;
    assert!(outer.is_held() && outer.held_members() == 2);
    sim.network.cut_off(Some("last".to_owned()));
    let inner = multi.lock().by(&mut me).into_future();
    let heal = async {
        sleep(ms(4_000)).await;
        sim.network.cut_off(None);
    };
    let (inner, ()) = tokio::join!(inner, heal);
    inner.unwrap().unlock().await.unwrap();
    outer.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// Its hold lasts for an hour, and is to be renewed all the same.
#[tokio::test(start_paused = true)]
async fn a_part_that_re_enters_a_long_lease_is_renewed() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.lock(LOCK);
    let mut me = sim.client.owner();
    let outer = lock.lock().by(&mut me).lease(ms(3_600_000)).await.unwrap();
    let several = MultiLock::all([lock.clone(), sim.client.lock("later")]);
    let inner = several.lock().by(&mut me).await.unwrap();
    world.forget(LOCK);
    let why = timeout(ms(15_000), outer.lost()).await.expect("a renewal finds that it is gone");
    assert_eq!(why, Loss::Removed);
    drop((inner, outer));
    assert!(sim.left().await.is_empty());
}
