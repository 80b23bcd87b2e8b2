//! The cache in several processes on a real server: how often the database is asked.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use harness::{
    Lang, PATIENCE, Peer, PeerError, RedisServer, Servers as _, eventually, skip_or_panic,
};
use patterns::{
    cache::{
        Busy, Cache, Times,
        trial::{Outcome, Plan, Reads, Way, run},
    },
    error::Result,
    stage::Servers,
};
use tokio::sync::Mutex;

const PLAN: Plan = Plan {
    processes: 3,
    tasks: 8,
    every: Duration::from_millis(10),
    lasts: Duration::from_secs(4),
    orders: 60_000,
    way: Way::WithLock,
    reads: Reads::Hot,
    times: Times {
        fresh: Duration::from_secs(1),
        jitter: Duration::ZERO,
        stale: Duration::ZERO,
        empty: None,
        // On a busy machine a value may be stale again before the next in line has looked at it.
        wait: Duration::from_secs(300),
    },
};

async fn trial(plan: Plan) -> Outcome {
    run(Path::new(env!("CARGO_BIN_EXE_patterns")), plan).await.expect("a run")
}

/// The server counts the expired keys: the lock's key is deleted, and does not expire.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hot_key_is_rebuilt_once_each_time_it_expires() {
    let outcome = trial(PLAN).await;
    assert!(outcome.expired >= 2, "{} expired", outcome.expired);
    // Once at the start. The last one may have expired when nobody read any more.
    let rebuilds = outcome.queries.len() as u64;
    assert!((outcome.expired..=outcome.expired + 1).contains(&rebuilds), "{rebuilds} rebuilds");
    assert_eq!(outcome.busy, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_lock_it_is_rebuilt_by_many_at_once() {
    let outcome = trial(Plan { way: Way::WithoutLock, ..PLAN }).await;
    let (queries, expired) = (outcome.queries.len() as u64, outcome.expired);
    assert!(queries > 2 * (expired + 1), "{queries} queries, {expired} expired");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_the_process_lets_each_process_rebuild_once() {
    let outcome = trial(Plan { way: Way::OncePerProcess, ..PLAN }).await;
    let (queries, most) = (outcome.queries.len() as u64, PLAN.processes as u64);
    assert!(queries <= most * (outcome.expired + 1), "{queries} of {}", outcome.expired);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_stale_values_the_key_never_expires_and_one_at_a_time_rebuilds_it() {
    let times = Times { stale: Duration::from_secs(60), ..PLAN.times };
    let outcome = trial(Plan { times, ..PLAN }).await;
    assert_eq!((outcome.expired, outcome.busy), (0, 0));
    // Each rebuild is good for the whole time: no more than fit in.
    let most = 1 + outcome.took.as_millis() / PLAN.times.fresh.as_millis();
    let rebuilds = outcome.queries.len() as u128;
    assert!((2..=most).contains(&rebuilds), "{rebuilds} rebuilds, {most} fit");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_does_not_exist_is_asked_for_once() {
    let absent =
        Plan { reads: Reads::Absent(20), orders: 1, lasts: Duration::from_secs(2), ..PLAN };
    let times = Times { empty: Some(Duration::from_secs(120)), ..PLAN.times };
    let kept = trial(Plan { times, ..absent }).await;
    assert_eq!(kept.queries.len(), 20);
    let not_kept = trial(absent).await;
    assert!(not_kept.queries.len() >= 100, "{}", not_kept.queries.len());
}

/// Keys that were written together expire at different times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn jitter_spreads_the_expiries() {
    let server = RedisServer::start();
    let servers = Servers { redis: server.url(), database: PathBuf::new() };
    let locks = servers.locks(Duration::from_secs(30)).await.expect("a client");
    let connection = servers.connect().await.expect("a connection");
    let hour = Duration::from_secs(3600);
    for (jitter, name) in [(Duration::ZERO, "even"), (hour, "jitter")] {
        let times = Times { fresh: hour, jitter, ..PLAN.times };
        let cache = Cache::new(connection.clone(), locks.clone(), times);
        let mut left = Vec::new();
        for n in 0..64 {
            let key = format!("{name}:{n}");
            cache.read(&key, async || Ok(Some("value".into()))).await.expect("a value");
            left.push(server.inspector().pttl(&key));
        }
        let (first, last) = (left.iter().min().unwrap(), left.iter().max().unwrap());
        // An hour divided by 64, at random: it would be a wonder if all fell into a quarter of it.
        let is_spread = last - first > 15 * 60 * 1000;
        assert_eq!(is_spread, name == "jitter", "{first} to {last} ms left");
        assert!(*first <= 3_600_000 * 2 && *first > 3_000_000, "{first} ms left");
    }
    locks.close().await.expect("to close");
}

/// While a Redisson rebuilds, nobody asks the database: who has an old value gets it, who has none is told after a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_redisson_rebuilds_others_get_the_stale_value_or_an_error() {
    let server = RedisServer::start();
    let java = match Peer::spawn(Lang::Java, &server.peer_args()).await {
        Ok(java) => java,
        Err(PeerError::Unavailable(why)) => return skip_or_panic("a stale value", &why),
        Err(error) => panic!("{error}"),
    };
    let servers = Servers { redis: server.url(), database: PathBuf::new() };
    let locks = servers.locks(Duration::from_secs(30)).await.expect("a client");
    let connection = servers.connect().await.expect("a connection");
    let wait = Duration::from_millis(300);
    // At once stale.
    let times =
        Times { fresh: Duration::ZERO, stale: Duration::from_secs(600), wait, ..PLAN.times };
    let cache = Cache::new(connection, locks.clone(), times);
    let asked = Arc::new(Mutex::new(0));
    let load = async || -> Result<Option<String>> {
        let mut asked = asked.lock().await;
        *asked += 1;
        Ok(Some(format!("value {asked}")))
    };
    assert_eq!(cache.read("hot", load).await.expect("a value").as_deref(), Some("value 1"));
    java.party("thread", "lock", "rebuild:hot").lock().await;
    java.party("thread", "lock", "rebuild:cold").lock().await;
    assert_eq!(cache.read("hot", load).await.expect("the old value").as_deref(), Some("value 1"));
    let cold = cache.read("cold", load).await.expect_err("no value");
    assert!(cold.is::<Busy>(), "{cold}");
    assert_eq!(*asked.lock().await, 1);
    java.party("thread", "lock", "rebuild:hot").unlock().await;
    assert_eq!(cache.read("hot", load).await.expect("a value").as_deref(), Some("value 2"));
    locks.close().await.expect("to close");
}

async fn cache_of(server: &RedisServer, times: Times) -> (Cache, redisson_lock::Client) {
    let servers = Servers { redis: server.url(), database: PathBuf::new() };
    let locks = servers.locks(Duration::from_secs(30)).await.expect("a client");
    (Cache::new(servers.connect().await.expect("a connection"), locks.clone(), times), locks)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_of_the_database_or_of_the_lock_does_not_refuse_a_stale_value() {
    let server = RedisServer::start();
    let stale = Duration::from_secs(600);
    let times = Times { fresh: Duration::ZERO, stale, ..PLAN.times };
    let (cache, locks) = cache_of(&server, times).await;
    let value = cache.read("hot", async || Ok(Some("value".into()))).await.expect("a value");
    let fails = async || -> Result<Option<String>> { Err("the database is down".into()) };
    assert_eq!(cache.read("hot", fails).await.expect("the stale value"), value);
    cache.read("cold", fails).await.expect_err("no value");
    // The lock is released in the background. Then something else has its name.
    let is_released = || (!server.inspector().exists("rebuild:hot")).then_some(());
    eventually(PATIENCE, "the release", is_released).await;
    cache.read("rebuild:hot", async || Ok(Some("no lock".into()))).await.expect("a value");
    assert_eq!(cache.read("hot", fails).await.expect("the stale value"), value);
    locks.close().await.expect("to close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_whose_wait_ends_gets_the_value_that_has_come_meanwhile() {
    let server = RedisServer::start();
    let (fresh, wait) = (Duration::from_secs(600), Duration::from_secs(2));
    let times = Times { fresh, wait, ..PLAN.times };
    let (cache, locks) = cache_of(&server, times).await;
    // A copy of this value, and the lock of the key.
    cache.read("other", async || Ok(Some("value".into()))).await.expect("a value");
    let guard = locks.lock("rebuild:cold").lock().await.expect("the lock");
    let load = async || -> Result<Option<String>> { panic!("another rebuilds it") };
    let keep = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let client = redis::Client::open(server.url()).expect("a client");
        let mut redis = client.get_multiplexed_async_connection().await.expect("a connection");
        let mut copy = redis::cmd("COPY");
        copy.arg("other").arg("cold").exec_async(&mut redis).await.expect("a copy");
    };
    let (value, ()) = tokio::join!(cache.read("cold", load), keep);
    assert_eq!(value.expect("the value").as_deref(), Some("value"));
    guard.unlock().await.expect("to unlock");
    locks.close().await.expect("to close");
}
