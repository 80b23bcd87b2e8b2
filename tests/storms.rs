//! Many at once: clients after a restart, and waiters after a cut.
//!
//! A program of its own: no other test runs beside them. `STORM_CLIENTS` and `STORM_LOCKS` say how many.

use std::env;
use std::time::{Duration, Instant};

use futures::future::join_all;
use futures::stream::{self, StreamExt};
use harness::{PATIENCE, Proxy, RedisServer, assert_nothing_left, eventually, within};
use redisson_lock::{Client, Config, Error};
use tokio::sync::Mutex;
use tokio::time::sleep;

/// All are back so soon after the server.
const BACK: Duration = Duration::from_secs(10);
/// Longer than the pauses between two tries grow.
const OUTAGE: Duration = Duration::from_secs(5);

/// One after the other.
static ALONE: Mutex<()> = Mutex::const_new(());

async fn connect(url: &str) -> Client {
    loop {
        match Client::connect(Config::from_url(url).unwrap()).await {
            Ok(client) => return client,
            Err(error) => println!("connecting again: {error}"),
        }
    }
}

fn number(variable: &str, default: usize) -> usize {
    env::var(variable).map_or(default, |number| number.parse().expect("a number"))
}

/// Each holds a lock, and its lease is longer than the outage. The server has kept its data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_clients_are_back_soon_after_a_restart_and_do_not_storm_the_server() {
    let _alone = ALONE.lock().await;
    let clients = number("STORM_CLIENTS", 500);
    let server = RedisServer::builder().arg("--appendonly").arg("yes");
    let mut server = server.arg("--appendfsync").arg("always").start();
    let proxy = Proxy::start(server.port()).await;
    let url = proxy.url();
    let crowd = stream::iter(0..clients).map(|n| {
        let url = url.clone();
        async move {
            let client = connect(&url).await;
            let guard = client.lock(format!("mine:{n}")).lock().await.unwrap();
            (client, guard)
        }
    });
    let crowd: Vec<_> = crowd.buffer_unordered(20).collect().await;
    assert_eq!(proxy.connections(), 2 * clients);

    server.kill();
    let (killed, before) = (Instant::now(), proxy.accepted());
    sleep(OUTAGE).await;
    let during = proxy.accepted() - before;
    server.restart();
    let back = Instant::now();
    let returns = crowd.iter().map(async |(_, guard)| {
        while let Err(error) = guard.check().await {
            assert!(matches!(error, Error::Redis(_)), "{error}");
        }
        back.elapsed()
    });
    let mut returns = within(PATIENCE, "for all to be back", join_all(returns)).await;
    returns.sort();
    let (median, last) = (returns[clients / 2], returns[clients - 1]);
    let all = proxy.accepted() - before;
    let rate = |count: usize, time: Duration| count as f64 / clients as f64 / time.as_secs_f64();
    let (down, whole) = (rate(during, OUTAGE), rate(all, killed.elapsed()));
    println!(
        "{clients} clients: all back {last:?} after the restart (half of them {median:?}); \
         {down:.1} connections a second and client while the server was away, {whole:.1} in all"
    );
    assert!(last < BACK, "the last is back after {last:?}");
    assert!(down < 5.0 && whole < 5.0, "{down:.1}, {whole:.1} connections a second and client");
    // Each has its commands and its messages back, and its lock.
    let connected = || (proxy.connections() == 2 * clients).then_some(());
    eventually(PATIENCE, "all connections", connected).await;
    let ends = crowd.into_iter().map(async |(client, guard)| {
        guard.unlock().await.unwrap();
        client.close().await.unwrap();
    });
    within(PATIENCE, "for all to end", join_all(ends)).await;
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_locks_that_are_waited_for_are_all_listened_to_again_after_a_cut() {
    let _alone = ALONE.lock().await;
    let locks = number("STORM_LOCKS", 1_000);
    let server = RedisServer::start();
    let (proxy, redis) = (Proxy::start(server.port()).await, server.inspector());
    let (client, holder) = (connect(&proxy.url()).await, connect(&server.url()).await);
    let names: Vec<_> = (0..locks).map(|n| format!("lock:{n}")).collect();
    let held = join_all(names.iter().map(async |name| holder.lock(name).lock().await.unwrap()));
    let held = held.await;
    let turns = names.iter().map(|name| {
        let lock = client.lock(name);
        tokio::spawn(async move { lock.lock().await })
    });
    let turns: Vec<_> = turns.collect();
    let all = async |what: &str| {
        let begun = Instant::now();
        eventually(PATIENCE, what, || (redis.channels().len() == locks).then_some(())).await;
        println!("{locks} locks: {what} after {:?}", begun.elapsed());
        assert!(begun.elapsed() < BACK, "{what} after {:?}", begun.elapsed());
    };
    all("all subscribed").await;
    proxy.refuse(true);
    proxy.cut_all();
    let gone = || redis.channels().is_empty().then_some(());
    eventually(PATIENCE, "an end of all subscriptions", gone).await;
    proxy.refuse(false);
    all("all subscribed again").await;

    let released = Instant::now();
    join_all(held.into_iter().map(async |guard| guard.unlock().await.unwrap())).await;
    // Together: a thousand round trips one after the other take long on a busy machine.
    let ends =
        turns.into_iter().map(async |turn| turn.await.unwrap().unwrap().unlock().await.unwrap());
    within(PATIENCE, "for their turns", join_all(ends)).await;
    println!("{locks} locks: all had their turn {:?} after the releases", released.elapsed());
    assert!(released.elapsed() < BACK, "{:?}", released.elapsed());
    for client in [client, holder] {
        client.close().await.unwrap();
    }
    assert_nothing_left(&server).await;
}
