//! Every kind of lock is observed, and so are locks of several, the blocking API and dropped futures.

use std::time::Duration;

use harness::{
    PATIENCE, RedisServer, assert_nothing_left, assert_nothing_left_but, eventually, soon,
    token_key,
};
use redisson_lock::{Client, Config, Lock, MultiLock, blocking, observer::LockKind};
use tokio::time::timeout;

use crate::tally::Tally;

async fn client(server: &RedisServer, tally: &Tally) -> Client {
    let config = Config::from_url(server.url()).unwrap().observer(tally.clone());
    soon("to connect", Client::connect(config)).await.unwrap()
}

/// A lock of each kind.
fn locks(client: &Client) -> [(LockKind, Lock); 9] {
    let both = client.read_write_lock("read_write");
    [
        (LockKind::Reentrant, client.lock("reentrant")),
        (LockKind::NonReentrant, client.non_reentrant_lock("non_reentrant")),
        (LockKind::Fair, client.fair_lock("fair")),
        (LockKind::NonReentrantFair, client.non_reentrant_fair_lock("non_reentrant_fair")),
        (LockKind::Fenced, client.fenced_lock("fenced").into()),
        (LockKind::Spin, client.spin_lock("spin")),
        (LockKind::Plain, client.plain_lock("plain")),
        (LockKind::Read, both.read_lock().clone()),
        (LockKind::Write, both.write_lock().clone()),
    ]
}

#[tokio::test]
async fn a_wait_and_a_hold_of_every_kind_begin_and_end() {
    let server = RedisServer::start();
    let (tally, others) = (Tally::default(), Tally::default());
    let (mine, far) = (client(&server, &tally).await, client(&server, &others).await);
    let mut holds = 0;
    for ((kind, lock), (_, theirs)) in locks(&mine).into_iter().zip(locks(&far)) {
        let kind = kind.as_str();
        let seen = |outcome: &str| tally.of(&format!("acquire {kind} {outcome}"));
        let guard = lock.lock().await.unwrap();
        holds += 1;
        assert_eq!((seen("granted"), tally.now()), (1, (0, 1)), "{kind}");
        guard.unlock().await.unwrap();
        assert_eq!((tally.of("released"), tally.now()), (holds, (0, 0)), "{kind}");

        // Readers wait for a writer.
        let blocker = match kind {
            "read" => far.read_write_lock("read_write").write().await.unwrap(),
            _ => theirs.lock().await.unwrap(),
        };
        let waits = lock.clone();
        let waiter = tokio::spawn(async move { waits.lock().await });
        eventually(PATIENCE, "a wait", || (tally.now() == (1, 0)).then_some(())).await;
        assert!(lock.try_lock().await.unwrap().is_none());
        assert_eq!((seen("busy"), tally.now()), (1, (1, 0)), "{kind}");
        waiter.abort();
        eventually(PATIENCE, "its end", || (tally.now() == (0, 0)).then_some(())).await;
        assert_eq!(seen("cancelled"), 1, "{kind}");

        let waits = lock.clone();
        let waiter = tokio::spawn(async move { waits.lock().await });
        eventually(PATIENCE, "a wait", || (tally.now() == (1, 0)).then_some(())).await;
        blocker.unlock().await.unwrap();
        let guard = soon("to get the lock", waiter).await.unwrap().unwrap();
        holds += 1;
        assert_eq!((seen("granted"), tally.now()), (2, (0, 1)), "{kind}");
        drop(guard);
        eventually(PATIENCE, "a release", || (tally.now() == (0, 0)).then_some(())).await;
        assert_eq!(tally.of("released"), holds);
    }
    for client in [&mine, &far] {
        soon("to close", client.close()).await.unwrap();
    }
    assert_nothing_left_but(&server, &[&token_key("fenced")]).await;
    tally.assert_over();
    others.assert_over();
}

/// A caller with an owner is handed a hold under a new id. Unless the server says that others listen: so tried again.
#[tokio::test]
async fn a_hold_that_is_swapped_is_handed_off() {
    let server = RedisServer::start();
    let tally = Tally::default();
    let client = client(&server, &tally).await;
    let lock = client.lock("swapped");
    let mut rounds = 0;
    while tally.of("handed_off") == 0 {
        rounds += 1;
        assert!(rounds <= 100, "never handed off");
        let first = lock.lock().await.unwrap();
        let (waits, mut me) = (lock.clone(), client.owner());
        let waiter = tokio::spawn(async move { waits.lock().by(&mut me).await });
        eventually(PATIENCE, "a wait", || (tally.now() == (1, 1)).then_some(())).await;
        let holder = first.holder().to_owned();
        first.unlock().await.unwrap();
        let second = soon("to get the lock", waiter).await.unwrap().unwrap();
        assert_ne!(second.holder(), holder);
        second.unlock().await.unwrap();
    }
    let granted = 2 * rounds - 1;
    assert_eq!(
        ["granted", "handed_off"].map(|it| tally.of(&format!("acquire {it}"))),
        [granted, 1]
    );
    assert_eq!(["handed_off", "released"].map(|it| tally.of(it)), [1, granted]);
    soon("to close", client.close()).await.unwrap();
    assert_nothing_left(&server).await;
    tally.assert_over();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_lock_of_several_is_observed_and_nothing_is_left() {
    let server = RedisServer::start();
    let tally = Tally::default();
    let (one, two) = (client(&server, &tally).await, client(&server, &tally).await);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..12 {
        let (one, two) = (one.clone(), two.clone());
        tasks.spawn(async move {
            let all = MultiLock::all([one.lock("a"), two.fair_lock("b"), two.lock("c")]);
            for turn in 0..6_u64 {
                let wait = Duration::from_millis(3 * ((n + turn) % 5));
                if let Ok(guard) = timeout(wait, all.lock()).await {
                    let guard = guard.unwrap();
                    if turn.is_multiple_of(2) {
                        guard.unlock().await.unwrap();
                    }
                }
            }
        });
    }
    while let Some(ended) = soon("for all to end", tasks.join_next()).await {
        ended.unwrap();
    }
    let all = MultiLock::all([one.lock("a"), two.fair_lock("b"), two.lock("c")]);
    soon("to lock", all.lock()).await.unwrap().unlock().await.unwrap();
    for client in [&one, &two] {
        soon("to close", client.close()).await.unwrap();
    }
    assert_nothing_left(&server).await;
    tally.assert_over();
    let counts = tally.counts();
    let ends: u64 = ["released", "handed_off"].map(|end| tally.of(end)).iter().sum();
    assert_eq!(ends, tally.of("holds"), "{counts:#?}");
    assert!(ends >= 3 && tally.of("acquire cancelled") > 0, "{counts:#?}");
}

#[test]
fn the_blocking_api_is_observed() {
    let server = RedisServer::start();
    let tally = Tally::default();
    let config = Config::from_url(server.url()).unwrap().observer(tally.clone());
    let client = blocking::Client::connect(config).unwrap();
    let lock = client.lock("blocking");
    let outer = lock.lock().run().unwrap();
    let inner = lock.lock().run().unwrap();
    assert_eq!(tally.now(), (0, 1));
    inner.unlock().unwrap();
    outer.unlock().unwrap();
    drop(lock.lock().run().unwrap());
    client.close().unwrap();
    assert_eq!(["granted", "reentered"].map(|it| tally.of(&format!("acquire {it}"))), [2, 1]);
    assert_eq!(tally.of("released"), 2);
    tally.assert_over();
}

/// Whose runtime ends: nothing can be released, and the hold ends all the same.
#[test]
fn a_hold_whose_runtime_ends_is_lost() {
    let server = RedisServer::start();
    let tally = Tally::default();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let guard = runtime.block_on(async {
        let client = client(&server, &tally).await;
        client.lock("left").lock().await.unwrap()
    });
    drop(runtime);
    assert_eq!(tally.now(), (0, 1));
    drop(guard);
    assert_eq!((tally.of("lost Closed"), tally.now()), (1, (0, 0)));
    tally.assert_over();
}
