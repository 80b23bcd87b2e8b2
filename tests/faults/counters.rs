//! Semaphores and latches on a network that fails, on a server that goes, and for callers that are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::time::Duration;

use fastrand::Rng;
use futures::future::join_all;
use harness::redis::cmd;
use harness::{PATIENCE, eventually, latch_channel, permit_timeouts, rights, semaphore_channel};
use redisson_lock::{Client, Error, Remaining, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::rights::{CURIOSITY, config, refused, set_user};
use crate::stage::{SOON, Stage, connect, gets_through, sha, soon, within};

const POOL: &str = "order:pool";
const GATE: &str = "order:gate";

/// So many times a reply is lost, by several clients at a time.
const ROUNDS: i64 = 25;
const CLIENTS: usize = 4;

impl Stage {
    fn number(&self, name: &str) -> Option<i64> {
        self.redis().query(cmd("GET").arg(name))
    }

    fn forget(&self, names: &[&str]) {
        self.redis().query::<()>(cmd("DEL").arg(names));
    }
}

/// Makes the server know the scripts, so that each later use is one request. Clients do so at the same time,
/// each with a name of its own.
async fn warm_up(client: &Client) {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let name = format!("warm-up:{}", CALLS.fetch_add(1, Ordering::Relaxed));
    let (pool, gate) = (client.semaphore(&name), client.count_down_latch(&name));
    pool.try_set(1).await.unwrap();
    soon("to acquire", pool.acquire(1)).await.unwrap().release().await.unwrap();
    pool.drain().await.unwrap();
    pool.release(1).await.unwrap();
    // The key is 1.
    gate.count_down().await.unwrap();
    gate.try_set(1).await.unwrap();
    gate.count_down().await.unwrap();
}

/// 100 lost replies of each kind of request.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_whose_replies_are_lost_count_once() {
    let stage = Stage::new().await;
    let stage = &stage;
    let clients = join_all((0..CLIENTS).map(|number| async move {
        let client = stage.client().await;
        warm_up(&client).await;
        let (name, gate) = (format!("pool:{number}:"), format!("gate:{number}:"));
        let (pool, latch) = (client.semaphore(&name), client.count_down_latch(&gate));
        let lose = |script: &str, name: &str| stage.proxy.lose_next_reply([&*sha(script), name]);
        for round in 1..=ROUNDS {
            let lost = lose("counter/try_set", &name);
            assert!(soon("to set", pool.try_set(10)).await.unwrap());
            assert_eq!((lost.count(), stage.number(&name)), (1, Some(10)), "set, round {round}");
            let lost = lose("semaphore/acquire", &name);
            let permit = soon("to acquire", pool.acquire(3)).await.unwrap();
            assert_eq!((lost.count(), stage.number(&name)), (1, Some(7)), "round {round}");
            let lost = lose("semaphore/release", &name);
            soon("to release", permit.release()).await.unwrap();
            assert_eq!((lost.count(), stage.number(&name)), (1, Some(10)), "round {round}");
            let lost = lose("semaphore/drain", &name);
            assert_eq!(soon("to drain", pool.drain()).await.unwrap(), 10, "round {round}");
            assert_eq!((lost.count(), stage.number(&name)), (1, Some(0)), "round {round}");
            stage.forget(&[&name]);

            let lost = lose("counter/try_set", &gate);
            assert!(soon("to set", latch.try_set(2)).await.unwrap());
            assert_eq!((lost.count(), stage.number(&gate)), (1, Some(2)), "round {round}");
            for left in [Some(1), None] {
                let lost = lose("latch/count_down", &gate);
                soon("to count down", latch.count_down()).await.unwrap();
                assert_eq!((lost.count(), stage.number(&gate)), (1, left), "round {round}");
            }
        }
        client
    }))
    .await;
    stage.end(clients).await;
}

/// The same where the server gets the request late, or never.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_are_lost_are_sent_again() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    let pool = client.semaphore(POOL);
    assert!(pool.try_set(5).await.unwrap());
    for script in ["semaphore/acquire", "semaphore/release"] {
        stage.proxy.lose_requests([&*sha(script), POOL], 2);
    }
    let permit = soon("to acquire", pool.acquire(5)).await.unwrap();
    assert_eq!(stage.number(POOL), Some(0));
    soon("to release", permit.release()).await.unwrap();
    assert_eq!(stage.number(POOL), Some(5));
    stage.forget(&[POOL]);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_while_waiting_costs_no_permit() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    assert!(far.semaphore(POOL).try_set(1).await.unwrap());
    assert!(far.count_down_latch(GATE).try_set(1).await.unwrap());
    let permit = far.semaphore(POOL).acquire(1).await.unwrap();
    let pool = client.semaphore(POOL);
    let turn = tokio::spawn(pool.acquire(1).into_future());
    let gate = client.count_down_latch(GATE);
    let open = tokio::spawn(async move { gate.wait().await });
    stage.listening_on(&semaphore_channel(POOL), 1).await;
    stage.listening_on(&latch_channel(GATE), 1).await;
    stage.proxy.refuse(true);
    stage.proxy.cut_all();
    permit.release().await.unwrap();
    far.count_down_latch(GATE).count_down().await.unwrap();
    sleep(Duration::from_secs(1)).await;
    assert!(!turn.is_finished() && !open.is_finished());
    stage.proxy.heal();
    let permit = soon("to be granted", turn).await.unwrap().unwrap();
    soon("to be let through", open).await.unwrap().unwrap();
    assert_eq!(stage.number(POOL), Some(0));
    // Returned by a release that nobody waits for, when the network is back.
    stage.proxy.refuse(true);
    stage.proxy.cut_all();
    drop(permit);
    sleep(Duration::from_millis(300)).await;
    stage.proxy.heal();
    let returned = || (stage.number(POOL) == Some(1)).then_some(());
    eventually(PATIENCE, "the permit", returned).await;
    stage.forget(&[POOL]);
    stage.end([client, far]).await;
}

/// A server that does not answer is an error, after which nothing is left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_server_is_an_error_and_costs_no_permit() {
    let stage = Stage::new().await;
    let timeout = Duration::from_millis(500);
    let client = connect(stage.config().command_timeout(timeout).retry_timeout(3 * timeout)).await;
    warm_up(&client).await;
    let (pool, gate) = (client.semaphore(POOL), client.count_down_latch(GATE));
    assert!(pool.try_set(5).await.unwrap() && gate.try_set(3).await.unwrap());
    let permit = pool.acquire(1).await.unwrap();
    stage.proxy.swallow_replies(true);
    let redis = |error: Error| assert!(matches!(error, Error::Redis(_)), "{error:?}");
    let (acquired, tried, released, counted, waited) = soon("to fail", async {
        tokio::join!(
            pool.acquire(2).into_future(),
            pool.try_acquire(1).into_future(),
            permit.release(),
            gate.count_down(),
            gate.wait_timeout(timeout),
        )
    })
    .await;
    redis(acquired.unwrap_err());
    redis(tried.unwrap_err());
    redis(released.unwrap_err());
    redis(counted.unwrap_err());
    redis(waited.unwrap_err());
    stage.proxy.heal();
    gets_through(&client).await;
    let all_back = || (stage.number(POOL) == Some(5)).then_some(());
    eventually(PATIENCE, "all permits", all_back).await;
    assert_eq!(stage.number(GATE), Some(2), "it was counted once");
    stage.forget(&[POOL, GATE]);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_restarts_empty_has_no_semaphore_and_waiters_wait_for_one() {
    let mut stage = Stage::new().await;
    let client = stage.client().await;
    let pool = client.semaphore(POOL);
    assert!(pool.try_set(1).await.unwrap());
    assert!(client.count_down_latch(GATE).try_set(1).await.unwrap());
    let permit = pool.acquire(1).await.unwrap();
    let turn = tokio::spawn(pool.acquire(1).into_future());
    let gate = client.count_down_latch(GATE);
    let open = tokio::spawn(async move { gate.wait().await });
    stage.listening_on(&semaphore_channel(POOL), 1).await;
    stage.restart_server();
    // There is no latch any more.
    soon("to be let through", open).await.unwrap().unwrap();
    gets_through(&client).await;
    soon("to release", permit.release()).await.unwrap();
    assert_eq!(stage.number(POOL), None, "it does not bring the semaphore back");
    assert!(!turn.is_finished());
    assert!(soon("to set", pool.try_set(1)).await.unwrap());
    soon("to be granted", turn).await.unwrap().unwrap().release().await.unwrap();
    assert_eq!(stage.number(POOL), Some(1));
    stage.forget(&[POOL]);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_the_server_has_forgotten_are_sent_again() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let (pool, gate) = (client.semaphore(POOL), client.count_down_latch(GATE));
    let flush = || stage.redis().query::<()>(cmd("SCRIPT").arg("FLUSH"));
    for _ in 0..2 {
        flush();
        assert!(pool.try_set(3).await.unwrap());
        flush();
        let permit = pool.acquire(2).await.unwrap();
        flush();
        permit.release().await.unwrap();
        flush();
        assert_eq!(pool.available().await.unwrap(), 3);
        flush();
        assert_eq!(pool.drain().await.unwrap(), 3);
        stage.forget(&[POOL]);
        flush();
        assert!(gate.try_set(1).await.unwrap());
        flush();
        assert_eq!(gate.count().await.unwrap(), 1);
        flush();
        gate.count_down().await.unwrap();
        gate.wait().await.unwrap();
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_with_the_least_rights_can_do_everything_with_semaphores_and_latches() {
    for row in ["semaphores", "expirable semaphores", "latches"] {
        let stage = Stage::new().await;
        set_user(&stage, &[rights("rights (ACL)", "order:"), rights(row, "order:")].concat());
        // So short that a renewal is seen.
        let watchdog = Duration::from_secs(6);
        let client = connect(config(&stage, "service", 0).watchdog(watchdog)).await;
        if row == "semaphores" {
            let pool = client.semaphore(POOL);
            assert!(pool.try_set(2).await.unwrap());
            let permit = pool.acquire(2).await.unwrap();
            let turn = tokio::spawn(pool.try_acquire(1).wait(PATIENCE).into_future());
            stage.listening_on(&semaphore_channel(POOL), 1).await;
            permit.release().await.unwrap();
            soon("to be granted", turn).await.unwrap().unwrap().unwrap().forget();
            pool.add(3).await.unwrap();
            pool.release(1).await.unwrap();
            // A future that is dropped on its way is withdrawn.
            stage.proxy.delay_replies(Duration::from_millis(300));
            let cut = pool.acquire(1).into_future();
            assert!(tokio::time::timeout(Duration::from_millis(100), cut).await.is_err());
            stage.proxy.heal();
            let all_back = || (stage.number(POOL) == Some(5)).then_some(());
            eventually(PATIENCE, "all permits", all_back).await;
            assert_eq!(pool.available().await.unwrap(), 5);
            assert_eq!(pool.drain().await.unwrap(), 5);
        } else if row == "expirable semaphores" {
            use_all_of_an_expirable_semaphore(&stage, &client).await;
        } else {
            let gate = client.count_down_latch(POOL);
            assert!(gate.try_set(1).await.unwrap());
            assert_eq!(gate.count().await.unwrap(), 1);
            let waiting = gate.clone();
            let open = tokio::spawn(async move { waiting.wait().await });
            stage.listening_on(&latch_channel(POOL), 1).await;
            gate.count_down().await.unwrap();
            soon("to be let through", open).await.unwrap().unwrap();
        }
        let refused = refused(&stage);
        assert!(refused.iter().all(|what| CURIOSITY.contains(&&**what)), "{row}: {refused:?}");
        stage.forget(&[POOL]);
        stage.end([client]).await;
    }
}

async fn use_all_of_an_expirable_semaphore(stage: &Stage, client: &Client) {
    let pool = client.expirable_semaphore(POOL);
    assert!(pool.try_set(2).await.unwrap());
    let permit = pool.acquire(2).await.unwrap();
    let turn = tokio::spawn(pool.try_acquire(1).wait(PATIENCE).into_future());
    stage.listening_on(&semaphore_channel(POOL), 1).await;
    permit.check().await.unwrap();
    permit.release().await.unwrap();
    let permit = soon("to be granted", turn).await.unwrap().unwrap().unwrap();
    assert_eq!(pool.inspect().await.unwrap().permits[0].id, permit.id());
    let [id] = permit.forget()[..] else { panic!("one permit") };
    assert!(pool.set_lease(id, Duration::from_millis(10)).await.unwrap());
    sleep(Duration::from_millis(30)).await;
    assert_eq!(pool.ttl_of(id).await.unwrap(), Remaining::Free);
    // It is swept.
    let both = pool.acquire(2).await.unwrap();
    pool.set(3).await.unwrap();
    pool.add(1).await.unwrap();
    let renewed = || (both.remaining() > Duration::from_secs(5)).then_some(());
    sleep(Duration::from_millis(1_500)).await;
    eventually(PATIENCE, "a renewal", renewed).await;
    both.check().await.unwrap();
    drop(both);
    // A future that is dropped on its way is withdrawn.
    stage.proxy.delay_replies(Duration::from_millis(300));
    let cut = pool.acquire(1).into_future();
    assert!(tokio::time::timeout(Duration::from_millis(100), cut).await.is_err());
    stage.proxy.heal();
    let all_back = || (stage.number(POOL) == Some(4)).then_some(());
    eventually(PATIENCE, "all permits", all_back).await;
    assert_eq!(pool.permits().await.unwrap(), 4);
}

/// 100 lost replies of each kind of request, over a real connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_for_leased_permits_whose_replies_are_lost_count_once() {
    let stage = Stage::new().await;
    let stage = &stage;
    let clients = join_all((0..CLIENTS).map(|number| async move {
        let client = stage.client().await;
        let warm = client.expirable_semaphore("warm-up");
        warm.set(1).await.unwrap();
        warm.acquire(1).await.unwrap().release().await.unwrap();
        let name = format!("leased:{number}:");
        let pool = client.expirable_semaphore(&name);
        let lose = |script: &str| stage.proxy.lose_next_reply([&*sha(script), &name]);
        let out = || stage.redis().query::<i64>(cmd("ZCARD").arg(permit_timeouts(&name)));
        for round in 1..=ROUNDS {
            let lost = lose("expirable/change");
            soon("to set", pool.set(10)).await.unwrap();
            assert_eq!((lost.count(), stage.number(&name)), (1, Some(10)), "set, round {round}");
            let lost = lose("expirable/acquire");
            let permit = soon("to acquire", pool.acquire(3)).await.unwrap();
            assert_eq!((lost.count(), stage.number(&name), out()), (1, Some(7), 3), "{round}");
            let lost = lose("expirable/release");
            soon("to release", permit.release()).await.unwrap();
            assert_eq!((lost.count(), stage.number(&name), out()), (1, Some(10), 0), "{round}");
        }
        stage.forget(&[&name]);
        client
    }))
    .await;
    stage.forget(&["warm-up"]);
    stage.end(clients).await;
}

/// A semaphore of two permits, a client of a user who has the least rights for it, and another client.
async fn clients_of_two_permits(stage: &Stage) -> [Client; 2] {
    let far = stage.far_client().await;
    assert!(far.semaphore(POOL).try_set(2).await.unwrap());
    let least = [rights("rights (ACL)", "order:"), rights("semaphores", "order:")].concat();
    set_user(stage, &least);
    [connect(config(stage, "service", 0)).await, far]
}

/// The undo is refused, too, as long as the right is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_a_user_without_a_right_must_return_are_returned() {
    for missing in ["-exists", "-pexpire", "-zremrangebyscore", "-incrby"] {
        let stage = Stage::new().await;
        let [client, far] = clients_of_two_permits(&stage).await;
        stage.proxy.delay_replies(Duration::from_millis(500));
        let pool = client.semaphore(POOL);
        let acquire = tokio::spawn(pool.acquire(1).into_future());
        eventually(PATIENCE, "the grant", || (stage.number(POOL) == Some(1)).then_some(())).await;
        set_user(&stage, &[missing]);
        acquire.abort();
        stage.proxy.delay_replies(Duration::ZERO);
        sleep(Duration::from_secs(1)).await;
        set_user(&stage, &[missing.replace('-', "+")]);
        eventually(PATIENCE, missing, || (stage.number(POOL) == Some(2)).then_some(())).await;
        stage.forget(&[POOL]);
        stage.end([client, far]).await;
    }
}

/// A script that is refused in its middle changes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_a_right_changes_nothing() {
    for missing in [
        &["-incrby"][..],
        &["-zadd"],
        &["-zscore"],
        &["-time"],
        &["-pexpire"],
        &["-zremrangebyscore"],
        &["-zrem", "-pexpire"],
        &["-zrem", "-zremrangebyscore"],
        &["-zrem", "-incrby"],
    ] {
        let stage = Stage::new().await;
        let [client, far] = clients_of_two_permits(&stage).await;
        set_user(&stage, missing);
        let pool = client.semaphore(POOL);
        let error = soon("to be refused", pool.acquire(1)).await.unwrap_err();
        assert!(matches!(error, Error::Redis(_)), "{missing:?}: {error:?}");
        assert_eq!(stage.number(POOL), Some(2), "{missing:?}");
        let given = missing.iter().map(|right| right.replace('-', "+"));
        set_user(&stage, &given.collect::<Vec<_>>());
        pool.acquire(2).await.unwrap().release().await.unwrap();
        assert_eq!(stage.number(POOL), Some(2), "{missing:?}");
        stage.forget(&[POOL]);
        stage.end([client, far]).await;
    }
}

const TASKS: u64 = 16;
const POOLS: [&str; 2] = ["a", "b"];
const PERMITS: u32 = 5;

/// How many permits of each semaphore are out.
type Out = Arc<[AtomicI64; POOLS.len()]>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_are_dropped_at_any_moment_return_their_permits_once() {
    let stage = Stage::new().await;
    let client = stage.far_client().await;
    set_pools(&client).await;
    cut_often(&client, 150, Duration::from_millis(4)).await;
    within(SOON, "to close", client.close()).await.unwrap();
    // At once: close has waited for it.
    for pool in POOLS {
        assert_eq!(stage.number(pool), Some(PERMITS.into()), "{pool}");
    }
    stage.forget(&POOLS);
    stage.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_are_dropped_on_a_broken_network_return_their_permits_once() {
    let stage = Stage::new().await;
    let client = connect(stage.config().command_timeout(Duration::from_millis(700))).await;
    warm_up(&client).await;
    set_pools(&client).await;
    let break_often = async {
        let scripts = ["acquire", "release", "withdraw"].map(|it| sha(&format!("semaphore/{it}")));
        loop {
            let script = fastrand::choice(&scripts).expect("one of them");
            match fastrand::u8(..8) {
                0 => drop(stage.proxy.cut_all()),
                1..=3 => drop(stage.proxy.lose_requests(script, 1)),
                _ => drop(stage.proxy.lose_next_reply(script)),
            }
            sleep(Duration::from_millis(fastrand::u64(1..60))).await;
        }
    };
    tokio::select! {
        () = break_often => {}
        () = cut_often(&client, 20, Duration::from_millis(60)) => {}
    }
    stage.proxy.heal();
    within(PATIENCE, "to close", client.close()).await.unwrap();
    for pool in POOLS {
        assert_eq!(stage.number(pool), Some(PERMITS.into()), "{pool}");
    }
    stage.forget(&POOLS);
    stage.end([]).await;
}

async fn set_pools(client: &Client) {
    for pool in POOLS {
        assert!(client.semaphore(pool).try_set(PERMITS).await.unwrap());
    }
}

/// Runs tasks, each cut off at a random moment, until every one of [`TASKS`] has cut off `cuts`.
async fn cut_often(client: &Client, cuts: usize, most: Duration) {
    let out = Out::default();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (client, out) = (client.clone(), out.clone());
        tasks.spawn(async move {
            let mut rng = Rng::new();
            let mut cut = 0;
            while cut < cuts {
                let visit = tokio::spawn(visit(client.clone(), out.clone(), rng.fork()));
                sleep(most.mul_f64(rng.f64().powi(2))).await;
                visit.abort();
                match visit.await {
                    Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                    ended => cut += usize::from(ended.is_err()),
                }
            }
        });
    }
    while let Some(done) = within(2 * PATIENCE, "the cuts to end", tasks.join_next()).await {
        done.unwrap();
    }
}

/// Takes some permits in one of several ways, and returns them in one of several ways.
async fn visit(client: Client, out: Out, mut rng: Rng) {
    let which = rng.usize(..POOLS.len());
    let pool: Semaphore = client.semaphore(POOLS[which]);
    let n = rng.u32(1..=PERMITS);
    let permit = match rng.u8(..3) {
        0 => pool.acquire(n).await.map(Some),
        1 => pool.try_acquire(n).await,
        _ => pool.try_acquire(n).wait(Duration::from_micros(rng.u64(..5_000))).await,
    };
    let permit = match permit {
        Ok(Some(permit)) => permit,
        // On a broken network an operation may fail, for that reason alone.
        Ok(None) | Err(Error::Redis(_)) => return,
        Err(error) => panic!("{error}"),
    };
    // Dropped before the permit, however this ends.
    let inside = Inside::enter(out, which, n.into());
    sleep(Duration::from_micros(rng.u64(..300))).await;
    drop(inside);
    if rng.bool() {
        match permit.release().await {
            Ok(()) | Err(Error::Redis(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Some permits are out, until this is dropped.
struct Inside {
    out: Out,
    which: usize,
    n: i64,
}

impl Inside {
    fn enter(out: Out, which: usize, n: i64) -> Self {
        let before = out[which].fetch_add(n, Ordering::SeqCst);
        assert!(before + n <= PERMITS.into(), "{n} permits beside {before}");
        Self { out, which, n }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.out[self.which].fetch_sub(self.n, Ordering::SeqCst);
    }
}

/// Redisson's stays subscribed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_that_ends_during_a_slow_subscription_leaves_none() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let wait = Duration::from_millis(300);
    let (pool, gate) = (client.semaphore(POOL), client.count_down_latch(GATE));
    assert!(gate.try_set(1).await.unwrap());
    stage.proxy.hold_requests_with("SUBSCRIBE");
    let (permit, open) =
        tokio::join!(pool.try_acquire(1).wait(wait).into_future(), gate.wait_timeout(wait));
    assert!(permit.unwrap().is_none() && !open.unwrap());
    assert!(stage.proxy.held() > 0);
    stage.proxy.release_held();
    stage.listening_on(&semaphore_channel(POOL), 0).await;
    stage.listening_on(&latch_channel(GATE), 0).await;
    gate.count_down().await.unwrap();
    stage.end([client]).await;
}

/// The connections are gone by then, and nobody can return the permits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_that_are_out_when_their_client_is_closed_stay_out() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let pool = client.semaphore(POOL);
    assert!(pool.try_set(3).await.unwrap());
    let (dropped, released) = (pool.acquire(1).await.unwrap(), pool.acquire(1).await.unwrap());
    client.close().await.unwrap();
    drop(dropped);
    let error = soon("to fail", released.release()).await.unwrap_err();
    assert!(matches!(error, Error::Closed), "{error:?}");
    assert_eq!(stage.number(POOL), Some(1));
    stage.forget(&[POOL]);
}
