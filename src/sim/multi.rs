//! Several locks on several servers: dropped at any moment, listed in any order, lost one by one.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::join_all};
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, LOCK, Sim, World, ms};
use crate::{Error, Lock, Loss, MultiLock};

/// Three servers.
pub(super) fn worlds() -> [Arc<World>; 3] {
    [World::new(), World::new(), World::new()]
}

/// Three servers, in the order in which their locks of one name are taken.
pub(super) fn worlds_in_order() -> [Arc<World>; 3] {
    let mut worlds = worlds();
    worlds.sort_by_key(|world| world.server.url());
    worlds
}

/// A client of each.
pub(super) async fn sims(worlds: &[Arc<World>; 3]) -> Vec<Sim> {
    join_all(worlds.iter().map(Sim::new)).await
}

pub(super) fn locks(sims: &[Sim]) -> Vec<Lock> {
    sims.iter().map(|sim| sim.client.lock(LOCK)).collect()
}

pub(super) async fn left(sims: &[Sim]) -> Vec<String> {
    join_all(sims.iter().map(Sim::left)).await.concat()
}

/// Cuts at every ms until the future is done by itself in 5 cuts in a row; after each nothing is left.
async fn cut_everywhere<F: AsyncFn(&[Sim])>(
    worlds: &[Arc<World>; 3],
    what: &str,
    future: F,
) -> u64 {
    let (mut done, mut cuts) = (0, 0);
    while done < 5 {
        let sims = sims(worlds).await;
        // In the middle of a ms: every timer of the network fires at whole ones.
        let cut = ms(cuts) + Duration::from_micros(500);
        done = if timeout(cut, future(&sims)).await.is_ok() { done + 1 } else { 0 };
        let left = left(&sims).await;
        assert!(left.is_empty(), "{what}, cut after {cuts} ms, left {left:?}");
        cuts += 1;
        assert!(cuts < 5_000, "{what} does not end");
    }
    println!("{what}: {cuts} cuts, nothing left");
    cuts
}

#[tokio::test(start_paused = true)]
async fn all_or_a_majority_cut_at_any_ms_leave_nothing() {
    let worlds = worlds();
    type Make = fn(Vec<Lock>) -> MultiLock;
    let rules: [(&str, Make); 2] = [("all", MultiLock::all), ("majority", MultiLock::majority)];
    let mut cuts = 0;
    for (rule, multi) in rules {
        cuts += cut_everywhere(&worlds, &format!("{rule}, dropped"), async |sims| {
            let guard = multi(locks(sims)).lock().await.unwrap();
            sleep(ms(2)).await;
            drop(guard);
        })
        .await;
        cuts += cut_everywhere(&worlds, &format!("{rule}, try_lock and unlock"), async |sims| {
            let guard = multi(locks(sims)).try_lock().lease(ms(900)).await.unwrap().unwrap();
            guard.unlock().await.unwrap();
        })
        .await;
        cuts += cut_everywhere(&worlds, &format!("{rule}, lost replies"), async |sims| {
            sims[1].network.fail("acquire", [Fault::LoseReply, Fault::LoseReply]);
            sims[2].network.fail("acquire", [Fault::Linger(ms(40))]);
            sims[0].network.fail("release", [Fault::LoseReply]);
            let guard = multi(locks(sims)).lock().await.unwrap();
            sleep(ms(2)).await;
            guard.unlock().await.unwrap();
        })
        .await;
        cuts += cut_everywhere(&worlds, &format!("{rule}, by an owner, twice"), async |sims| {
            let mut me = sims[0].client.owner();
            let outer = multi(locks(sims)).lock().by(&mut me).await.unwrap();
            let inner = multi(locks(sims)).lock().by(&mut me).await.unwrap();
            inner.unlock().await.unwrap();
            outer.unlock().await.unwrap();
        })
        .await;
        cuts += cut_everywhere(&worlds, &format!("{rule}, others are first"), async |sims| {
            let others = locks(sims);
            let held = (others[1].lock().await.unwrap(), others[2].lock().await.unwrap());
            let waiter = async {
                let guard = multi(locks(sims)).lock().lease(ms(900)).await.unwrap();
                guard.unlock().await.unwrap();
            };
            let release = async {
                sleep(ms(20)).await;
                held.0.unlock().await.unwrap();
                sleep(ms(20)).await;
                held.1.unlock().await.unwrap();
            };
            tokio::join!(waiter, release);
        })
        .await;
    }
    println!("cut points: {cuts}");
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_in_part_is_given_back_before_the_answer() {
    let worlds = worlds();
    let (holder, sims) = (sims(&worlds).await, sims(&worlds).await);
    let blockers = [
        holder[1].client.lock(LOCK).lock().await.unwrap(),
        holder[2].client.lock(LOCK).lock().await.unwrap(),
    ];
    for multi in [MultiLock::all(locks(&sims)), MultiLock::majority(locks(&sims))] {
        for wait in [0, 5, 50, 400] {
            let refused = multi.try_lock().wait(ms(wait)).await.unwrap();
            assert!(refused.is_none());
            assert_eq!(sims[0].holder(LOCK), None, "of {multi:?}, after {wait} ms");
        }
    }
    drop(blockers);
    assert_eq!([left(&holder).await, left(&sims).await].concat(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn two_callers_who_name_the_same_locks_differently_never_wait_for_each_other() {
    let worlds = worlds();
    for offset in 0..24 {
        let (one, two) = (sims(&worlds).await, sims(&worlds).await);
        let mut backwards = locks(&two);
        backwards.reverse();
        let turns = async |multi: MultiLock, before: u64| {
            for turn in 0..6 {
                sleep(ms(before + turn % 3)).await;
                let asked = Instant::now();
                let guard = multi.lock().await.unwrap();
                // Less than it takes to give up a wait that holds something.
                assert!(
                    asked.elapsed() < ms(140),
                    "they wait for each other: {:?}",
                    asked.elapsed()
                );
                sleep(ms(turn)).await;
                guard.unlock().await.unwrap();
            }
        };
        tokio::join!(
            turns(MultiLock::all(locks(&one)), 0),
            turns(MultiLock::all(backwards), offset)
        );
        assert_eq!([left(&one).await, left(&two).await].concat(), [""; 0]);
    }
}

/// Each server hears another of the callers first: three have a part each.
#[tokio::test(start_paused = true)]
async fn of_many_who_try_free_locks_at_once_one_gets_them() {
    const CALLERS: usize = 10;
    let worlds = worlds();
    let mut callers = Vec::new();
    for _ in 0..CALLERS {
        callers.push(sims(&worlds).await);
    }
    // Not at all, and for no longer than one round trip, two, and three.
    for wait in [0, 6, 12, 18].map(ms) {
        let mut nobody = Vec::new();
        for round in 0..60 {
            let tries = callers.iter().enumerate().map(async |(caller, sims)| {
                for (server, sim) in sims.iter().enumerate() {
                    let slow = |least| Fault::SlowRequest(ms(fastrand::u64(least..=4)));
                    let first = if caller == server { Fault::SlowRequest(ms(0)) } else { slow(1) };
                    sim.network.heal();
                    sim.network.fail("acquire", [first, slow(0), slow(0), slow(0)]);
                }
                let multi = MultiLock::all(locks(sims));
                multi.try_lock().wait(wait).lease(ms(5_000)).await.unwrap()
            });
            let guards: Vec<_> = join_all(tries).await.into_iter().flatten().collect();
            match guards.len() {
                0 => nobody.push(round),
                1 => {}
                several => panic!("{several} hold them"),
            }
            drop(guards);
            for sims in &callers {
                assert_eq!(left(sims).await, [""; 0]);
            }
        }
        assert_eq!(nobody, [0; 0], "rounds in which nobody got them in {wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_who_takes_them_in_another_order_as_redisson_does_gets_what_it_waits_for() {
    let worlds = worlds();
    let (peer, sims) = (sims(&worlds).await, sims(&worlds).await);
    let mut order: Vec<_> = (0..3).collect();
    order.sort_by_key(|&i| worlds[i].server.url());
    let (first, last) = (order[0], order[2]);
    let holds_last = peer[last].client.lock(LOCK).lock().await.unwrap();
    let ours = async {
        let guard = MultiLock::all(locks(&sims)).lock().await.unwrap();
        guard.unlock().await.unwrap();
    };
    let theirs = async {
        sleep(ms(50)).await;
        // Waits for what we hold, and gives nothing back meanwhile.
        let first = peer[first].client.lock(LOCK).lock().await.unwrap();
        first.unlock().await.unwrap();
        holds_last.unlock().await.unwrap();
    };
    let begun = Instant::now();
    timeout(ms(600), async { tokio::join!(ours, theirs) }).await.expect("nobody hangs");
    assert!(begun.elapsed() > ms(150), "they did wait for each other");
    assert_eq!([left(&peer).await, left(&sims).await].concat(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_taken_early_is_held_for_the_whole_lease_all_the_same() {
    let worlds = worlds();
    let (holder, sims) = (sims(&worlds).await, sims(&worlds).await);
    for holder in &holder {
        let blocker = holder.client.lock(LOCK).lock().await.unwrap();
        let release = async {
            sleep(ms(250)).await;
            blocker.unlock().await.unwrap();
        };
        let multi = MultiLock::all(locks(&sims));
        let (guard, ()) = tokio::join!(multi.lock().lease(ms(60_000)).into_future(), release);
        let guard = guard.unwrap();
        // The lease less drift, and two round trips: the try of the rest, and that which prolongs.
        assert!(guard.remaining() >= ms(59_398 - 2 * 6), "{:?}", guard.remaining());
        guard.unlock().await.unwrap();
    }
    assert_eq!([left(&holder).await, left(&sims).await].concat(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn all_are_lost_with_any_and_a_majority_with_too_many() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    let majority = MultiLock::majority(locks(&sims)).lock().await.unwrap();
    sleep(ms(10)).await;
    assert_eq!(majority.held_members(), 3, "the third has joined");
    let others: Vec<_> = sims.iter().map(|sim| sim.client.lock("other")).collect();
    let all = MultiLock::all(others).lock().await.unwrap();
    assert!(all.is_held() && majority.is_held());
    assert!(all.lost().now_or_never().is_none());

    sims[1].client.close().await.unwrap();
    assert_eq!(all.lost().now_or_never(), Some(Loss::Closed));
    assert!(!all.is_held());
    assert!(timeout(ms(5_000), majority.lost()).await.is_err(), "two of three are a majority");
    assert!(majority.is_held());
    assert_eq!(majority.while_held(async { 7 }).await.unwrap(), 7);

    let (lost, ()) = tokio::join!(majority.lost(), async {
        sims[2].client.close().await.unwrap();
    });
    assert_eq!(lost, Loss::Closed);
    assert!(!majority.is_held());
    assert_eq!(majority.held_members(), 1);
    let work = majority.while_held(std::future::pending::<()>()).await;
    assert!(matches!(work, Err(Error::NotHeld { why: Loss::Closed })), "{work:?}");
    let unlocked = majority.unlock().await;
    assert!(matches!(unlocked, Err(Error::Closed | Error::NotHeld { .. })), "{unlocked:?}");
    drop(all);
    assert_eq!(sims[0].left().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_meant_is_refused_and_nothing_is_sent() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    let (client, other) = (&sims[0].client, &sims[1].client);
    let again = Sim::new(&worlds[0]).await;
    let mut me = client.owner();
    let rules: [fn(Vec<Lock>) -> MultiLock; 2] = [MultiLock::all, MultiLock::majority];
    for rule in rules {
        let cannot_be_meant = [
            vec![],
            vec![client.lock("a"), client.lock("b"), client.lock("a")],
            vec![client.lock("a"), client.fair_lock("a")],
            vec![client.lock("a"), again.client.lock("a")],
            vec![client.lock("a"), other.lock("")],
        ];
        for locks in cannot_be_meant {
            let multi = rule(locks);
            for refused in [
                multi.lock().await.map(drop),
                multi.try_lock().await.map(drop),
                multi.lock().by(&mut me).await.map(drop),
            ] {
                assert!(matches!(refused, Err(Error::Invalid(_))), "{multi:?}: {refused:?}");
            }
        }
        let fine = rule(vec![client.lock("a"), other.lock("a"), (&client.fenced_lock("c")).into()]);
        for refused in
            [fine.try_lock().lease(ms(1)).await, fine.try_lock().wait(Duration::MAX).await]
        {
            assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
        }
        assert_eq!((sims[0].network.calls(), sims[1].network.calls()), (0, 0));
    }
    let fine = MultiLock::all([client.lock("a"), other.lock("a")]);
    fine.lock().await.unwrap().unlock().await.unwrap();
    assert!(sims[0].network.calls() > 0);
    assert_eq!(left(&sims).await, [""; 0]);
}

/// Whoever gets the hold after that asked for a lease, and is promised that it is never renewed.
#[tokio::test(start_paused = true)]
async fn a_hold_that_is_still_being_prolonged_goes_to_no_other_caller() {
    const LEASE: u64 = 5_000;
    let world = World::new();
    let mut handed_off = 0;
    for (begin, after) in (6..18).step_by(2).flat_map(|begin| (0..26).map(move |cut| (begin, cut)))
    {
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let (first, later) = (sim.client.lock(LOCK), sim.client.lock("later"));
        let blocker = other.client.lock("later").lock().await.unwrap();
        let both = MultiLock::all([first.clone(), later]);
        let mut acquiring = Box::pin(both.lock().lease(ms(LEASE)).into_future());
        assert!(timeout(ms(begin), &mut acquiring).await.is_err());
        let waiter = tokio::spawn(async move { first.lock().lease(ms(LEASE)).await.unwrap() });
        // The prolongation of the first lock, once the second is granted.
        sim.network.fail("reenter", [Fault::Silent(ms(3_000))]);
        let unlocked = tokio::spawn(blocker.unlock());
        let _ = timeout(ms(after) + Duration::from_micros(500), &mut acquiring).await;
        drop(acquiring);
        let guard = timeout(ms(2 * LEASE), waiter).await.expect("a turn in time").unwrap();
        let begun = Instant::now();
        handed_off += 1;
        unlocked.await.unwrap().unwrap();
        sleep(ms(LEASE - 1_000)).await;
        let held = begun.elapsed() + guard.remaining();
        assert!(held <= ms(LEASE), "begun {begin} ms, cut {after} ms later: held for {held:?}");
        guard.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
    assert!(handed_off > 100, "{handed_off}");
}
