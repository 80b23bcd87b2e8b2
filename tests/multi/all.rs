//! All of several locks: what a missing one does to the others.

use std::time::{Duration, Instant};

use harness::{RedisServer, assert_nothing_left, redis::cmd};
use redisson_lock::{Asked, Client, Config, Error, Loss, MultiLock};
use tokio::time::{sleep, timeout};

use crate::fleet::{BOUND, Fleet, bounded, locks, ms};

const LOCK: &str = "both";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_member_that_is_lost_is_the_loss_of_all() {
    let fleet = Fleet::new(3).await;
    let user = fleet.user().await;
    let multi = MultiLock::all(locks(&user, LOCK));
    for server in &fleet.servers {
        let guard = bounded("all", multi.lock()).await.unwrap();
        assert!(timeout(ms(1_500), guard.lost()).await.is_err(), "all are renewed");
        assert_eq!(guard.held_members(), 3);
        server.inspector().query::<()>(&cmd("FLUSHALL"));
        assert_eq!(bounded("to be told", guard.lost()).await, Loss::Removed);
        assert!(!guard.is_held());
        let unlocked = bounded("to unlock", guard.unlock()).await;
        assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
        for server in &fleet.servers {
            assert!(!server.inspector().exists(LOCK), "the others were released all the same");
        }
    }
    fleet.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_a_server_that_is_dead_or_hangs_the_others_are_given_back() {
    let mut fleet = Fleet::new(3).await;
    let user = fleet.user().await;
    let multi = MultiLock::all(locks(&user, LOCK));
    fleet.servers[1].pause();
    let failed = bounded("to fail", multi.try_lock()).await;
    assert!(matches!(failed, Err(Error::Redis(_))), "{failed:?}");
    // Dropped while the one that hangs is asked.
    assert!(timeout(ms(200), multi.lock().into_future()).await.is_err());
    for i in [0, 2] {
        let other = Client::connect(Config::from_url(fleet.servers[i].url()).unwrap()).await;
        let other = other.unwrap();
        let guard = other.lock(LOCK).try_lock().wait(ms(3_000)).await.unwrap();
        guard.expect("given back").unlock().await.unwrap();
        other.close().await.unwrap();
    }
    fleet.servers[1].resume();
    let guard = bounded("all", multi.lock()).await.unwrap();
    bounded("to unlock", guard.unlock()).await.unwrap();
    fleet.servers[2].kill();
    let failed = bounded("to fail", multi.lock()).await;
    assert!(matches!(failed, Err(Error::Redis(_))), "{failed:?}");
    sleep(ms(300)).await;
    for server in &fleet.servers[..2] {
        assert!(!server.inspector().exists(LOCK));
    }
    fleet.end([user]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_takes_part_and_an_owner_takes_them_again() {
    let fleet = Fleet::new(2).await;
    let user = fleet.user().await;
    let (a, b) = (&user[0], &user[1]);
    let multi = MultiLock::all([
        a.lock("plain"),
        b.fair_lock("fair"),
        a.read_write_lock("table").read_lock().clone(),
        b.read_write_lock("table").write_lock().clone(),
        a.fenced_lock("fenced").into(),
        b.spin_lock("spin"),
    ]);
    let mut me = a.owner();
    let outer = bounded("all", multi.lock().by(&mut me)).await.unwrap();
    let inner = bounded("all again", multi.lock().by(&mut me).lease(ms(9_000))).await.unwrap();
    assert_eq!(inner.held_members(), 6);
    assert!(bounded("to be refused", multi.try_lock()).await.unwrap().is_none());
    for (client, name, count) in [(a, "plain", 2), (b, "fair", 2), (b, "spin", 2)] {
        assert_eq!(client.lock(name).inspect().await.unwrap().holders[0].count, count, "{name}");
    }
    bounded("to unlock", inner.unlock()).await.unwrap();
    bounded("a check", outer.check()).await.unwrap();
    // Somebody else reads as well.
    let reading = bounded("to read", a.read_write_lock("table").read()).await.unwrap();
    bounded("to unlock", outer.unlock()).await.unwrap();
    drop(reading);
    fleet.servers[0].inspector().query::<()>(cmd("DEL").arg("redisson_lock_token:{fenced}"));
    fleet.end([user]).await;
}

/// Each lock is asked by itself, also one that somebody else holds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_holders_of_all_locks_are_asked_to_release_them() {
    let fleet = Fleet::new(3).await;
    let (user, far) = (fleet.user().await, fleet.user().await);
    let (multi, theirs) = (MultiLock::all(locks(&user, LOCK)), MultiLock::all(locks(&far, LOCK)));
    assert_eq!(theirs.ask_to_release().await.unwrap(), Asked::Free);
    let guard = bounded("all", multi.lock()).await.unwrap();
    // The first look begins to listen, at each of the servers.
    assert!(!guard.is_asked_to_release());
    let begun = Instant::now();
    loop {
        let asked = theirs.ask_to_release().await.unwrap();
        let Asked::Sent { holders, listening, .. } = asked else { panic!("{asked:?}") };
        assert_eq!(holders, 3);
        if listening == 3 {
            break;
        }
        assert!(begun.elapsed() < BOUND, "{asked:?}");
        sleep(ms(20)).await;
    }
    bounded("to be asked", guard.asked_to_release()).await;
    assert!(guard.is_asked_to_release());
    bounded("to unlock", guard.unlock()).await.unwrap();

    // The hold of any of the locks is asked for: the first one's, then the last one's.
    for i in [0, 2] {
        let guard = bounded("all", multi.lock()).await.unwrap();
        far[i].lock(LOCK).ask_to_release().await.unwrap();
        bounded("to be asked", guard.asked_to_release()).await;
        assert!(guard.is_asked_to_release());
        bounded("to unlock", guard.unlock()).await.unwrap();
    }
    fleet.end([user, far]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_is_asked_while_most_of_its_servers_answer() {
    let mut fleet = Fleet::new(3).await;
    let (user, far) = (fleet.user().await, fleet.user().await);
    let guard = bounded("most", MultiLock::majority(locks(&user, LOCK)).lock()).await.unwrap();
    let (most, all) = (MultiLock::majority(locks(&far, LOCK)), MultiLock::all(locks(&far, LOCK)));
    let joined = async {
        while guard.held_members() < 3 {
            sleep(ms(5)).await
        }
    };
    bounded("the last one to join", joined).await;
    fleet.servers[1].kill();
    let asked = bounded("an answer", most.ask_to_release()).await.unwrap();
    assert!(matches!(asked, Asked::Sent { holders: 2, .. }), "{asked:?}");
    bounded("to be asked", guard.asked_to_release()).await;
    let failed = bounded("to fail", all.ask_to_release()).await;
    assert!(matches!(failed, Err(Error::Redis(_))), "{failed:?}");
    bounded("to unlock", guard.unlock()).await.unwrap();
    fleet.servers[2].kill();
    let failed = bounded("to fail", most.ask_to_release()).await;
    assert!(matches!(failed, Err(Error::Redis(_))), "{failed:?}");
    fleet.end([user, far]).await;
}

/// A spin lock always has a command under way: it is the wait for a part of the time that meets the silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_begins_to_hang_is_awaited_for_one_command_at_most() {
    const WAIT: Duration = ms(700);
    const COMMAND: Duration = ms(2_000);
    let fleet = Fleet::new(2).await;
    let user = fleet.user_with(|config| config.command_timeout(COMMAND)).await;
    let far = Client::connect(Config::from_url(fleet.servers[1].url()).unwrap()).await.unwrap();
    let multi = MultiLock::all([user[0].lock("a"), user[1].spin_lock("b")]);
    let held = far.lock("b").lock().await.unwrap();
    let begun = Instant::now();
    let taking = multi.clone();
    let taking = tokio::spawn(async move { taking.try_lock().wait(WAIT).await });
    sleep(ms(40)).await;
    fleet.proxies[1].blackhole(true);
    let taken = bounded("an end", taking).await.unwrap();
    let took = begun.elapsed();
    println!("{taken:?} after {took:?}");
    assert!(matches!(taken, Err(Error::Redis(_))), "{taken:?}");
    assert!(took < WAIT + COMMAND, "{took:?}");
    fleet.proxies[1].blackhole(false);
    held.unlock().await.unwrap();
    let both = bounded("both", multi.lock()).await.unwrap();
    bounded("to unlock", both.unlock()).await.unwrap();
    far.close().await.unwrap();
    fleet.end([user]).await;
}

/// The caller would wait for itself, for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_listed_by_two_spellings_of_its_server_is_refused() {
    let server = RedisServer::start();
    let connect = async |host: &str| {
        let config = Config::from_url(format!("redis://{host}:{}", server.port())).unwrap();
        Client::connect(config).await.unwrap()
    };
    let (one, other) = (connect("127.0.0.1").await, connect("localhost").await);
    let nobody = Config::from_url("redis://127.0.0.1:1").unwrap().lazy_connect(true);
    let dead = Client::connect(nobody).await.unwrap();
    let (sides, others) = (one.read_write_lock("sides"), other.read_write_lock("sides"));
    for multi in [
        MultiLock::all([one.lock(LOCK), other.lock(LOCK)]),
        MultiLock::all([other.lock(LOCK), one.lock("a"), one.fair_lock(LOCK)]),
        MultiLock::all([sides.read_lock(), others.write_lock()].map(Clone::clone)),
        MultiLock::majority([one.lock(LOCK), other.lock(LOCK)]),
        MultiLock::majority([one.lock(LOCK), other.lock(LOCK), dead.lock(LOCK)]),
    ] {
        let locked = bounded("to be refused", multi.lock()).await;
        let Err(Error::Invalid(why)) = &locked else { panic!("{locked:?}") };
        assert!(why.contains("127.0.0.1") && why.contains("localhost"), "{why}");
        let waited = multi.try_lock().wait(BOUND).await;
        assert!(matches!(waited, Err(Error::Invalid(_))), "{waited:?}");
        let tried = multi.try_lock().await;
        assert!(matches!(tried, Ok(None)), "{tried:?}");
    }
    // Also when somebody else has held it at first, and with a server between.
    let between = RedisServer::start();
    let third = connect("127.0.0.1").await;
    let [far, near] = [(); 2].map(|()| Client::connect(Config::from_url(between.url()).unwrap()));
    let (far, near) = (far.await.unwrap(), near.await.unwrap());
    for (stranger, multi) in [
        (&third, MultiLock::all([one.lock(LOCK), other.lock(LOCK)])),
        (&third, MultiLock::majority([one.lock(LOCK), other.lock(LOCK), dead.lock(LOCK)])),
        (&far, MultiLock::all([one.lock(LOCK), near.lock(LOCK), other.lock(LOCK)])),
    ] {
        let held = stranger.lock(LOCK).lock().await.unwrap();
        let release = async {
            tokio::time::sleep(ms(700)).await;
            held.unlock().await.unwrap();
        };
        let (locked, ()) = tokio::join!(bounded("to be refused", multi.lock()), release);
        assert!(matches!(locked, Err(Error::Invalid(_))), "{locked:?}");
    }
    for client in [one, other, dead, third, far, near] {
        client.close().await.unwrap();
    }
    assert_nothing_left(&server).await;
}
