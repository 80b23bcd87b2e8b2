//! A client that is used on two runtimes: the one it was connected on, and another that ends.
//!
//! The client's own runtime finishes what a caller's runtime had begun.

use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, RedisServer, eventually};
use redisson_lock::{Client, Config, Error, Lock, MultiLock, Replicas};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::stage::{LOCK, SOON, Stage, assert_redis_error, connect, sha, soon, warm_up};

/// Much longer than anything here may take.
const LEASE: Duration = Duration::from_secs(600);

/// What a client says whose own runtime has ended.
const WORDS: &str = "the tokio runtime this client was connected on has ended";

/// The client's own.
fn own() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Others', of each flavour.
fn others() -> [Runtime; 2] {
    [Builder::new_multi_thread().worker_threads(1), &mut Builder::new_current_thread()]
        .map(|builder| builder.enable_all().build().unwrap())
}

/// A lock of each kind, and the script by which it is acquired.
fn kinds(client: &Client) -> [(Lock, &'static str); 6] {
    let both_sides = client.read_write_lock("rw");
    [
        (client.lock("plain"), "reentrant/acquire"),
        (client.fair_lock("fair"), "fair/acquire"),
        (both_sides.read_lock().clone(), "read/acquire"),
        (both_sides.write_lock().clone(), "write/acquire"),
        (client.spin_lock("spin"), "reentrant/acquire"),
        (client.plain_lock("string"), "plain/acquire"),
    ]
}

/// Runs the future on another runtime until `done`, and drops the runtime with it.
fn cut_with_its_runtime(
    other: Runtime,
    future: impl Future<Output = ()> + Send + 'static,
    done: impl FnMut() -> Option<()>,
) {
    other.block_on(async {
        tokio::spawn(future);
        eventually(PATIENCE, "the request to be under way", done).await;
    });
    drop(other);
}

#[test]
fn an_acquisition_under_way_on_a_runtime_that_ends_is_undone() {
    let own = own();
    let stage = own.block_on(Stage::new());
    let client = own.block_on(stage.client());
    own.block_on(async {
        for (lock, _) in kinds(&client) {
            lock.lock().await.unwrap().unlock().await.unwrap();
        }
    });
    for of_flavour in 0..2 {
        for (lock, script) in kinds(&client) {
            let [other, another] = others();
            let other = if of_flavour == 0 { other } else { another };
            stage.proxy.hold_requests_with(&sha(script));
            let taken = lock.clone();
            let acquire = async move { drop(taken.lock().lease(LEASE).await) };
            cut_with_its_runtime(other, acquire, || (stage.proxy.held() > 0).then_some(()));
            stage.proxy.release_held();
            let next = own.block_on(async { timeout(SOON, lock.lock()).await });
            let next = next.unwrap_or_else(|_| panic!("{lock:?} stays locked"));
            own.block_on(async { next.unwrap().unlock().await.unwrap() });
        }
    }
    own.block_on(stage.end([client]));
}

#[test]
fn a_release_under_way_on_a_runtime_that_ends_goes_on() {
    let own = own();
    let stage = own.block_on(Stage::new());
    let client = own.block_on(stage.client());
    own.block_on(warm_up(&client));
    for other in others() {
        let guard = own.block_on(client.lock(LOCK).lock().lease(LEASE).into_future()).unwrap();
        // It never arrives, and is sent again and again.
        let lost = stage.proxy.lose_requests(&sha("reentrant/release"), usize::MAX);
        let unlock = async move { drop(guard.unlock().await) };
        cut_with_its_runtime(other, unlock, || (lost.count() > 0).then_some(()));
        stage.proxy.heal();
        let next = own.block_on(async { timeout(SOON, client.lock(LOCK).lock()).await });
        own.block_on(next.expect("released").unwrap().unlock()).unwrap();
    }
    own.block_on(stage.end([client]));
}

#[test]
fn a_waiter_whose_runtime_ends_leaves_the_line_and_its_channel() {
    let own = own();
    let stage = own.block_on(Stage::new());
    let (client, far) = own.block_on(async { (stage.client().await, stage.far_client().await) });
    for other in others() {
        for (held, wanted) in
            [(far.lock(LOCK), client.lock(LOCK)), (far.fair_lock(LOCK), client.fair_lock(LOCK))]
        {
            let guard = own.block_on(held.lock().into_future()).unwrap();
            for _ in 0..3 {
                let waiting = wanted.clone();
                other.spawn(async move { drop(waiting.lock().await) });
            }
            let channels = || stage.redis().query::<Vec<String>>(cmd("PUBSUB").arg("CHANNELS"));
            let waits = || other.block_on(async { tokio::task::yield_now().await });
            let begun = Instant::now();
            while channels().is_empty() {
                waits();
                assert!(begun.elapsed() < PATIENCE, "nobody waits");
                std::thread::sleep(Duration::from_millis(5));
            }
            own.block_on(guard.unlock()).unwrap();
        }
        drop(other);
        own.block_on(async {
            let guard = soon("the lock", client.lock(LOCK).lock()).await.unwrap();
            guard.unlock().await.unwrap();
            let guard = soon("the fair lock", client.fair_lock(LOCK).lock()).await.unwrap();
            guard.unlock().await.unwrap();
        });
    }
    own.block_on(stage.end([client, far]));
}

#[test]
fn a_connection_that_waits_for_replicas_outlives_the_runtime_it_was_first_used_on() {
    let own = own();
    let master = RedisServer::start();
    let config = Config::from_url(master.url()).unwrap().command_timeout(Duration::from_secs(2));
    let client = own.block_on(connect(config));
    // Of no replicas all have confirmed it.
    let lock = client.lock(LOCK).replicas(Replicas::All);
    for other in others() {
        other.block_on(async { lock.lock().await.unwrap().unlock().await.unwrap() });
        drop(other);
        for _ in 0..2 {
            own.block_on(async {
                let guard = soon("a lock", lock.try_lock()).await.expect("an answer");
                guard.expect("free").unlock().await.unwrap();
            });
        }
    }
    own.block_on(async { client.close().await.unwrap() });
}

#[test]
fn a_connection_that_a_caller_found_dead_is_replaced_though_its_runtime_ends() {
    let own = own();
    let stage = own.block_on(Stage::new());
    let short = Duration::from_millis(500);
    let config = stage.config().command_timeout(short).retry_timeout(short);
    for other in others() {
        let client = own.block_on(connect(config.clone()));
        own.block_on(warm_up(&client));
        stage.proxy.forget_connections();
        // The third one that has no answer has the connections replaced.
        for _ in 0..3 {
            let asked = other.block_on(async { client.lock(LOCK).is_locked().await });
            assert_redis_error(asked);
        }
        drop(other);
        own.block_on(async {
            let lock = client.lock(LOCK);
            let answered = async { while lock.is_locked().await.is_err() {} };
            soon("to get through", answered).await;
            lock.lock().await.unwrap().unlock().await.unwrap();
            client.close().await.unwrap();
        });
    }
    own.block_on(stage.end([]));
}

/// Says that its own runtime has ended.
fn assert_says_so<T: std::fmt::Debug>(what: &str, answer: Result<T, Error>) {
    let error = answer.expect_err(what);
    assert!(error.to_string().contains(WORDS), "{what}: {error}");
}

#[test]
fn a_client_whose_own_runtime_has_ended_says_so() {
    let server = RedisServer::start();
    for (own, waits) in others().into_iter().zip([true, false]) {
        let config = Config::from_url(server.url()).unwrap();
        let client = own.block_on(connect(config.clone()));
        let guard = own.block_on(client.lock("held").lock().into_future()).unwrap();
        let dropped = own.block_on(client.lock("dropped").lock().into_future()).unwrap();
        let mut me = client.owner();
        let outer = own.block_on(client.lock("owned").lock().by(&mut me).into_future()).unwrap();

        let caller = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let far = caller.block_on(connect(config));
        let held_elsewhere = caller.block_on(async { far.lock(LOCK).lock().await.unwrap() });
        let waiting = client.lock(LOCK);
        let waiter = caller.spawn(async move { waiting.lock().await.map(drop) });
        if waits {
            // A runtime of one thread is not run meanwhile: nobody could subscribe.
            caller.block_on(async {
                let redis = server.inspector();
                eventually(PATIENCE, "a waiter", || {
                    (redis.subscribers(&harness::lock_channel(LOCK)) > 0).then_some(())
                })
                .await;
            });
        }
        drop(own);

        caller.block_on(async {
            let begun = Instant::now();
            assert_says_so("lock under way", soon("the waiter", waiter).await.unwrap());
            let lock = client.lock("free");
            assert_says_so("lock", soon("lock", lock.lock()).await);
            assert_says_so("try_lock", soon("try_lock", lock.try_lock()).await);
            let wait = Duration::from_secs(60);
            assert_says_so("try_lock", soon("try_lock", lock.try_lock().wait(wait)).await);
            assert_says_so(
                "re-entry",
                soon("re-entry", client.lock("owned").lock().by(&mut me)).await,
            );
            assert_says_so("is_locked", soon("is_locked", lock.is_locked()).await);
            assert_says_so("force_unlock", soon("force_unlock", lock.force_unlock()).await);
            let confirmed = lock.clone().replicas(Replicas::All);
            assert_says_so("replicas", soon("replicas", confirmed.lock()).await);
            let fair = client.fair_lock("fair");
            assert_says_so("fair", soon("fair", fair.lock()).await);
            let all = MultiLock::all([lock.clone(), far.lock("all")]);
            assert_says_so("all", soon("all", all.lock()).await);
            let majority = MultiLock::majority([lock.clone()]);
            assert_says_so("majority", soon("majority", majority.try_lock()).await);
            assert_says_so("check", soon("check", guard.check()).await);
            assert_says_so("unlock", soon("unlock", guard.unlock()).await);
            assert_says_so("unlock", soon("unlock", outer.unlock()).await);
            drop(dropped);
            assert_says_so("close", soon("close", client.close()).await);
            let took = begun.elapsed();
            assert!(took < Duration::from_secs(3), "{took:?} for what needs nobody");
            held_elsewhere.unlock().await.unwrap();
            far.close().await.unwrap();
        });
        server.inspector().query::<()>(cmd("FLUSHALL").arg("SYNC"));
    }
}

#[test]
fn calls_under_way_when_the_clients_own_runtime_ends_are_told() {
    for _ in 0..3 {
        for own in others() {
            let stage_runtime = self::own();
            let stage = stage_runtime.block_on(Stage::new());
            let client = own.block_on(stage.client());
            own.block_on(async {
                warm_up(&client).await;
                client.lock("fair").lock().await.unwrap().unlock().await.unwrap();
            });
            let guard = own.block_on(client.lock("held").lock().into_future()).unwrap();
            let caller = &stage_runtime;
            let held = client.lock("waited for");
            let _held = own.block_on(held.lock().into_future()).unwrap();
            let mut left_alone = held.lock().into_future();
            caller.block_on(async { assert!(futures::poll!(&mut left_alone).is_pending()) });
            stage.proxy.hold_requests();
            let mut calls = Vec::new();
            for _ in 0..3 {
                let lock = held.clone();
                calls.push(caller.spawn(async move { lock.lock().await.map(drop) }));
            }
            for i in 0..20 {
                let lock = client.lock(format!("{LOCK}:{i}"));
                calls.push(caller.spawn(async move { lock.lock().await.map(drop) }));
            }
            let asked = client.lock("asked");
            calls.push(caller.spawn(async move { asked.is_locked().await.map(drop) }));
            calls.push(caller.spawn(async move { guard.unlock().await }));
            std::thread::sleep(Duration::from_millis(50));
            drop(own);
            caller.block_on(async {
                for call in calls {
                    let answer = soon("the call to be told", call).await.expect("no panic");
                    assert!(matches!(answer, Err(Error::Redis(_))), "{answer:?}");
                }
            });
            drop(client);
            stage.proxy.heal();
        }
    }
}
