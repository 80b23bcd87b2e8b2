//! A majority: which answers may be late, and how long it is trusted.

use std::{iter::repeat_n, pin::pin, sync::Arc, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Fault, LOCK, ONE_WAY,
    bounds::{COMMAND, RETRIES, assert_timed_out, ends_within, hangs},
    ms,
    multi::{left, locks, sims, worlds},
};
use crate::{
    Client, Error, Loss, MultiLock, RedisErrorKind,
    engine::scripted::{Scripted, engine},
    wire::{Reply, WireError},
};

/// For as long as the release of what was granted in vain is awaited.
const GIVE_BACK: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn who_answers_late_joins_a_majority_that_is_held_and_no_other() {
    let worlds = worlds();
    // Sooner, and later, than a slow one is noted.
    for slow in [30, 120] {
        let sims = sims(&worlds).await;
        let multi = MultiLock::majority(locks(&sims));
        let begun = Instant::now();
        sims[1].network.fail("acquire", [Fault::SlowReply(ms(slow))]);
        let guard = multi.lock().await.unwrap();
        assert_eq!((begun.elapsed(), guard.held_members()), (ms(6), 2));
        sleep(ms(slow + 1)).await;
        assert_eq!(guard.held_members(), 3);
        // It counts like any other.
        sims[0].client.close().await.unwrap();
        assert!(timeout(ms(500), guard.lost()).await.is_err() && guard.is_held());
        drop(guard);
        // Until it is given back.
        sleep(ms(20)).await;

        let sims = self::sims(&worlds).await;
        let multi = MultiLock::majority(locks(&sims));
        worlds[0].forget(LOCK);
        sims[1].network.fail("acquire", [Fault::SlowReply(ms(slow))]);
        let lost = multi.lock().await.unwrap();
        sims[0].client.close().await.unwrap();
        assert_eq!(lost.lost().now_or_never(), Some(Loss::Closed));
        sleep(ms(slow + 20)).await;
        assert!(!lost.is_held(), "what is lost stays lost");
        assert_eq!((lost.held_members(), sims[1].holder(LOCK)), (1, None));
        drop(lost);
        sleep(ms(20)).await;
        worlds[0].forget(LOCK);

        let sims = self::sims(&worlds).await;
        sims[1].network.fail("acquire", [Fault::SlowReply(ms(slow))]);
        let released = MultiLock::majority(locks(&sims)).lock().await.unwrap();
        released.unlock().await.unwrap();
        sleep(ms(slow + 20)).await;
        assert_eq!(sims[1].holder(LOCK), None, "nobody is there to join");

        sims[1].network.fail("acquire", [Fault::SlowReply(ms(slow))]);
        let mut me = sims[0].client.owner();
        let multi = MultiLock::majority(locks(&sims));
        let own = multi.lock().by(&mut me).await.unwrap();
        assert_eq!(own.held_members(), if slow < 50 { 3 } else { 2 }, "an owner waits a moment");
        own.unlock().await.unwrap();
        assert_eq!(left(&sims).await, [""; 0]);
    }
}

/// One lock of the majority is gone, and a late grant makes up for it while the servers are asked.
#[tokio::test(start_paused = true)]
async fn a_check_counts_who_joins_meanwhile() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    sims[1].network.fail("acquire", [Fault::SlowReply(ms(30))]);
    let guard = MultiLock::majority(locks(&sims)).lock().await.unwrap();
    worlds[0].forget(LOCK);
    sleep(ms(27)).await;
    assert_eq!(guard.held_members(), 2);
    guard.check().await.unwrap();
    assert_eq!(guard.held_members(), 2, "the gone one is known, and the late one has joined");
    assert!(guard.is_held());
    guard.unlock().await.unwrap();
    assert_eq!(left(&sims).await, [""; 0]);
}

/// A late grant was sent before the check, and does not say that its lock is held now.
#[tokio::test(start_paused = true)]
async fn a_check_asks_who_joins_meanwhile() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    sims[1].network.fail("acquire", [Fault::SlowReply(ms(100))]);
    let guard = MultiLock::majority(locks(&sims)).lock().await.unwrap();
    worlds[0].forget(LOCK);
    worlds[1].forget(LOCK);
    let others = self::sims(&worlds).await;
    let other = MultiLock::majority(locks(&others)).try_lock().await.unwrap();
    sims[0].network.fail("", [Fault::SlowReply(ms(120))]);
    let checked = guard.check().await;
    assert!(other.is_some() && matches!(checked, Err(Error::NotHeld { .. })), "{checked:?}");
}

/// One is lost that had said yes, while a slower one is asked.
#[tokio::test(start_paused = true)]
async fn a_check_of_a_guard_that_is_lost_meanwhile_says_so() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    let guard = MultiLock::majority(locks(&sims)).lock().await.unwrap();
    sleep(ms(5)).await;
    worlds[1].forget(LOCK);
    sims[2].network.fail("", [Fault::SlowReply(ms(200))]);
    let close = async {
        sleep(ms(20)).await;
        sims[0].client.close().await.unwrap();
    };
    let (checked, ()) = tokio::join!(guard.check(), close);
    assert!(matches!(checked, Err(Error::NotHeld { .. })) && !guard.is_held(), "{checked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_majority_is_trusted_as_by_its_last_and_not_granted_when_that_is_over() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    let multi = MultiLock::majority(locks(&sims));
    let begun = Instant::now();
    let guard = multi.try_lock().lease(ms(1_000)).await.unwrap().unwrap();
    assert_eq!(begun.elapsed(), ms(6));
    assert_eq!(guard.remaining(), ms(1_000 - 10 - 2 - 6), "lease - drift - elapsed");
    guard.unlock().await.unwrap();

    // Whoever asked sleeps through the end of what was granted meanwhile.
    let mut asking = pin!(multi.try_lock().lease(ms(100)).into_future());
    assert!((&mut asking).now_or_never().is_none());
    sleep(ms(150)).await;
    let late = asking.await;
    assert!(matches!(late, Err(Error::NotHeld { why: Loss::Expired })), "{late:?}");
    assert_eq!(left(&sims).await, [""; 0]);

    // A majority that takes more than its share of the lease to answer.
    let late = multi.try_lock().lease(ms(20)).await;
    assert!(matches!(late, Err(Error::Redis(_))), "{late:?}");
    assert_eq!(left(&sims).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_minority_that_hangs_costs_nothing_and_is_left_alone_for_a_while() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    sims[2].network.fail("acquire", (0..100).map(|_| Fault::Linger(ms(3_000))));
    let multi = MultiLock::majority(locks(&sims));
    let begun = Instant::now();
    for _ in 0..20 {
        let asked = Instant::now();
        let guard = multi.lock().await.unwrap();
        assert_eq!(asked.elapsed(), ms(6), "one round trip to the others");
        guard.unlock().await.unwrap();
        sleep(ms(40)).await;
    }
    let calls = sims[2].network.calls();
    println!("{calls} calls to the one that hangs in {:?}", begun.elapsed());
    assert!((1..=60).contains(&calls), "{calls}");
    assert_eq!(left(&sims).await, [""; 0]);
}

/// One server has come back empty, another is silent, and the third confirms: two may hold it.
#[tokio::test(start_paused = true)]
async fn a_check_does_not_say_lost_where_a_silent_server_may_make_the_majority() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    let guard = MultiLock::majority(locks(&sims)).lock().await.unwrap();
    sleep(ms(100)).await;
    assert_eq!(guard.held_members(), 3);
    worlds[0].forget(LOCK);
    sims[1].network.fail("inspect", [Fault::SlowReply(ms(60_000))]);
    let first = guard.check().await;
    assert!(matches!(first, Err(Error::Redis(_))), "{first:?}");
    assert!(guard.is_held());
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_say_lost_where_a_silent_server_may_make_the_majority() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    let guard = MultiLock::majority(locks(&sims)).lock().await.unwrap();
    sleep(ms(100)).await;
    worlds[0].forget(LOCK);
    sims[1].network.fail("release", (0..200).map(|_| Fault::LoseRequest));
    let done = guard.run(async { Ok::<_, ()>(1) }).await;
    assert!(matches!(done, Err(crate::RunError::ReleaseUnconfirmed { .. })), "{done:?}");
}

/// Two of three are lost, and the third is silent: the guard is lost, and that need not be waited for.
#[tokio::test(start_paused = true)]
async fn a_check_of_a_guard_that_is_lost_waits_for_no_silent_server() {
    let worlds = worlds();
    let sims = sims(&worlds).await;
    sims[1].network.fail("acquire", [Fault::SlowReply(ms(100))]);
    let guard = MultiLock::majority(locks(&sims)).lock().await.unwrap();
    worlds[0].forget(LOCK);
    worlds[1].forget(LOCK);
    sims[0].network.fail("inspect", [Fault::SlowReply(ms(120))]);
    sims[2].network.fail("inspect", [Fault::LoseReply, Fault::SlowReply(ms(60_000))]);
    let begun = Instant::now();
    let checked = guard.check().await;
    assert!(matches!(checked, Err(Error::NotHeld { .. })), "{checked:?}");
    assert!(begun.elapsed() < ms(2_000), "{:?}", begun.elapsed());
    assert_eq!(guard.lost().now_or_never(), Some(Loss::Removed));
}

/// One of three is held by another, and one is slower than the others are waited for.
#[tokio::test(start_paused = true)]
async fn a_slow_server_that_decides_is_waited_for() {
    let worlds = worlds();
    let (other, sims) = (sims(&worlds).await, self::sims(&worlds).await);
    let held = other[1].client.lock(LOCK).lock().await.unwrap();
    sims[2].network.fail("acquire", vec![Fault::SlowReply(ms(80)); 100]);
    let multi = MultiLock::majority(locks(&sims));
    let once = multi.try_lock().await.unwrap();
    once.expect("two of three").unlock().await.unwrap();
    let waited = multi.try_lock().wait(Duration::from_secs(5)).await.unwrap();
    waited.expect("two of three").unlock().await.unwrap();
    // Two of three are another's: the slow one does not decide.
    let more = other[0].client.lock(LOCK).lock().await.unwrap();
    let begun = Instant::now();
    assert!(multi.try_lock().await.unwrap().is_none());
    assert!(begun.elapsed() < ms(80), "{:?}", begun.elapsed());
    for guard in [held, more] {
        guard.unlock().await.unwrap();
    }
    sims[2].network.heal();
    sleep(ms(200)).await;
    assert_eq!([left(&other).await, left(&sims).await].concat(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_majority_of_silent_servers_is_an_error_and_no_lock_that_is_held() {
    let sims = sims(&worlds()).await;
    let multi = MultiLock::majority(locks(&sims));
    for sim in &sims[1..] {
        hangs(sim);
    }
    // What is granted in vain is given back first.
    let most = COMMAND + GIVE_BACK;
    let once = multi.try_lock().into_future();
    assert_timed_out(ends_within(most, "try_lock()", once).await);
    for wait in [1, 500, 5_000].map(ms) {
        let waits = multi.try_lock().wait(wait).into_future();
        assert_timed_out(ends_within(wait + most, "try_lock()", waits).await);
    }
    let waits = multi.lock().into_future();
    assert_timed_out(ends_within(RETRIES + most, "lock()", waits).await);
    for sim in &sims {
        sim.network.heal();
    }
    assert_eq!(left(&sims).await, [""; 0]);
}

/// One did not answer lately, and answers again when another falls silent.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_left_alone_is_asked_where_the_others_are_too_few() {
    let sims = sims(&worlds()).await;
    let multi = MultiLock::majority(locks(&sims));
    for waits in [true, false] {
        hangs(&sims[2]);
        multi.lock().await.unwrap().unlock().await.unwrap();
        sleep(ms(100)).await;
        sims[2].network.heal();
        hangs(&sims[0]);
        let calls = sims[2].network.calls();
        let asking = async {
            let wait = if waits { COMMAND } else { Duration::ZERO };
            let asking = multi.try_lock().wait(wait).into_future();
            // As soon as the others have not answered for a while.
            let guard = ends_within(COMMAND / 4 + ms(10), "try_lock()", asking).await;
            guard.unwrap().expect("two of three").unlock().await.unwrap();
        };
        let meanwhile = async {
            sleep(COMMAND / 4 - ms(10)).await;
            assert_eq!(sims[2].network.calls(), calls, "it is left alone at first");
        };
        tokio::join!(asking, meanwhile);
        sims[0].network.heal();
        sleep(COMMAND).await;
        assert_eq!(left(&sims).await, [""; 0]);
    }
}

/// Two are a majority of no less than two.
#[tokio::test(start_paused = true)]
async fn a_server_is_not_left_alone_where_all_are_needed() {
    let sims = sims(&worlds()).await;
    let multi = MultiLock::majority(locks(&sims[..2]));
    hangs(&sims[1]);
    assert_timed_out(multi.try_lock().await);
    sims[1].network.heal();
    let begun = Instant::now();
    let both = multi.try_lock().await.unwrap().expect("both are free");
    assert_eq!(begun.elapsed(), 2 * ONE_WAY);
    both.unlock().await.unwrap();
    assert_eq!(left(&sims).await, [""; 0]);
}

/// It takes no more time than others, but its answer is of no use.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_left_alone_for_a_while() {
    let refuses = || Err(WireError::from_server("NOPERM no permission to run 'evalsha'"));
    let grants = || [Ok(Reply::Nil), Ok(Reply::Int(1)), Ok(Reply::Nil), Ok(Reply::Int(1))];
    let [one, two] = [(); 2].map(|()| Arc::new(Scripted::new(grants())));
    let third = Arc::new(Scripted::new([refuses(), refuses()]));
    let servers = [(&one, "one"), (&two, "two"), (&third, "third")];
    let multi =
        MultiLock::majority(servers.map(|(server, name)| Client::on(engine(server)).lock(name)));
    for _ in 0..2 {
        let guard = multi.lock().await.unwrap();
        sleep(ms(25)).await;
        guard.unlock().await.unwrap();
        assert_eq!(third.calls.lock().unwrap().len(), 1);
    }
    assert_eq!(one.calls.lock().unwrap().len(), 4);
}

/// Nobody would get it the next time.
#[tokio::test(start_paused = true)]
async fn a_majority_that_lacks_a_right_is_an_error_at_once() {
    let refuses = || Err(WireError::from_server("NOPERM no permission to run 'evalsha'"));
    let granting = Arc::new(Scripted::new([Ok(Reply::Nil), Ok(Reply::Int(1))]));
    let [one, two] = [(); 2].map(|()| Arc::new(Scripted::new(repeat_n((), 9).map(|()| refuses()))));
    let servers = [(&granting, "granting"), (&one, "one"), (&two, "two")];
    let multi =
        MultiLock::majority(servers.map(|(server, name)| Client::on(engine(server)).lock(name)));
    let failed = ends_within(ms(100), "lock()", multi.lock().into_future()).await;
    let Err(Error::Redis(error)) = failed else { panic!("{failed:?}") };
    assert_eq!(error.kind(), RedisErrorKind::NoPermission);
}
