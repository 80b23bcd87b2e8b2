//! Arguments that are out of range, and keys that are not locks.

use std::time::Duration;

use harness::{PATIENCE, redis::cmd};
use redisson_lock::{Access, Error, Loss};

use crate::stage::{LOCK, SHORT, SOON, Stage, connect, soon, warm_up, within};

const NONE: Duration = Duration::ZERO;
const TOO_LONG: Duration = Duration::from_secs(1_000 * 365 * 24 * 3_600);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nonsense_is_refused_and_nothing_is_sent() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    warm_up(&client).await;
    stage.redis().query::<()>(cmd("CONFIG").arg("RESETSTAT"));

    let nameless = client.lock("");
    refused(nameless.lock().await);
    refused(nameless.try_lock().await);
    refused(nameless.try_lock().wait(SOON).await);
    refused(nameless.inspect().await);
    refused(nameless.is_locked().await);
    refused(nameless.ttl().await);
    refused(nameless.force_unlock().await);
    refused(nameless.name());

    let lock = client.lock(LOCK);
    for lease in [NONE, Duration::from_nanos(1), TOO_LONG, Duration::MAX] {
        refused(lock.lock().lease(lease).await);
        refused(lock.try_lock().lease(lease).await);
        refused(lock.try_lock().wait(SOON).lease(lease).await);
        let mut me = client.owner();
        refused(lock.lock().by(&mut me).lease(lease).await);
    }
    for wait in [TOO_LONG, Duration::MAX] {
        refused(lock.try_lock().wait(wait).await);
    }

    let stats: String = stage.redis().query(cmd("INFO").arg("commandstats"));
    let sent: Vec<_> = stats
        .lines()
        .filter_map(|line| line.strip_prefix("cmdstat_"))
        .filter(|line| !["config", "info", "ping"].iter().any(|ours| line.starts_with(ours)))
        .collect();
    assert_eq!(sent, [""; 0]);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_longest_and_the_shortest_that_are_no_nonsense_work() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let lock = client.lock(LOCK);
    let years = Duration::from_secs(10 * 365 * 24 * 3_600);
    let guard = lock.lock().lease(years).await.unwrap();
    assert!(guard.remaining() > years / 2);
    let told = tokio::time::timeout(Duration::from_millis(50), guard.lost()).await;
    assert!(told.is_err(), "{told:?}");
    let turn = {
        let lock = client.lock(LOCK);
        tokio::spawn(async move { lock.try_lock().wait(years).await })
    };
    stage.listening(LOCK, 1).await;
    guard.unlock().await.unwrap();
    let guard = soon("the patient one to get it", turn).await.unwrap().unwrap();
    guard.unwrap().unlock().await.unwrap();

    match lock.lock().lease(Duration::from_millis(10)).await {
        Ok(guard) => drop(guard),
        // The machine is busy.
        Err(Error::NotHeld { why: Loss::Expired }) => {}
        Err(error) => panic!("{error}"),
    }
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_no_lock_is_left_alone() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let lock = client.lock(LOCK);
    let mut me = client.owner();
    set(&stage, LOCK);
    wrong_kind(soon("to be refused", lock.lock()).await);
    wrong_kind(soon("to be refused", lock.lock().by(&mut me)).await);
    wrong_kind(soon("to be refused", lock.try_lock()).await);
    wrong_kind(soon("to be refused", lock.try_lock().wait(SOON)).await);
    wrong_kind(lock.inspect().await);
    wrong_kind(lock.is_locked().await);
    wrong_kind(lock.ttl().await);
    wrong_kind(lock.force_unlock().await);
    assert_is_still_no_lock(&stage, LOCK);
    del(&stage, LOCK);
    stage.end([client]).await;
}

/// Others may write anything under a lock's name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_reads_no_foreign_value_of_any_size() {
    let stage = Stage::new().await;
    // A busy machine takes its time.
    let client = connect(stage.config().command_timeout(PATIENCE)).await;
    let large = "x".repeat(10_000_000);
    let fields = [("foreign", &*large), (&large, "1"), ("a-client:7", "2")];
    stage.redis().query::<()>(cmd("HSET").arg(LOCK).arg(&fields[..]));
    let plain = ["RPUSH", "redisson_lock_queue:{order:42}", &large];
    stage.redis().query::<()>(cmd(plain[0]).arg(&plain[1..]));
    for lock in [client.lock(LOCK), client.fair_lock(LOCK)] {
        let before = sent(&stage);
        let seen = lock.inspect().await.unwrap();
        let mut holders: Vec<_> = seen.holders.iter().map(|it| (it.id.len(), it.count)).collect();
        holders.sort();
        assert_eq!(holders, [("foreign".len(), 0), ("a-client:7".len(), 2), (128, 1)]);
        assert!(seen.queue.iter().all(|waiter| waiter.id.len() == 128));
        assert!(lock.is_locked().await.unwrap());
        let bytes = sent(&stage) - before;
        assert!(bytes < 100_000, "{bytes} bytes");
    }
    del(&stage, LOCK);
    del(&stage, plain[1]);
    stage.end([client]).await;
}

/// Neither does the server stand still for a hash of any size.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_reads_no_more_than_a_part_of_a_large_hash() {
    const MILLION: &str = "for i = 1, 1000000 do redis.call('hset', KEYS[1], 'a-client:' .. i, 1) end \
                           for i = 1, 20000 do redis.call('rpush', KEYS[2], 'a-client:' .. i) end";
    let stage = Stage::new().await;
    // A busy machine takes its time.
    let client = connect(stage.config().command_timeout(PATIENCE)).await;
    let line = "redisson_lock_queue:{order:42}";
    stage.redis().query::<()>(cmd("EVAL").arg(MILLION).arg(2).arg(LOCK).arg(line));
    stage.redis().query::<()>(cmd("CONFIG").arg("RESETSTAT"));
    for lock in [client.lock(LOCK), client.fair_lock(LOCK)] {
        let before = sent(&stage);
        let seen = lock.inspect().await.unwrap();
        assert!((1..=10_000).contains(&seen.holders.len()), "{}", seen.holders.len());
        assert_eq!(seen.holders.len() as u64 + seen.more_holders, 1_000_000);
        assert!([0, 10_000].contains(&seen.queue.len()));
        assert_eq!(seen.more_waiters, seen.queue.len() as u64);
        assert!(lock.is_locked().await.unwrap());
        let bytes = sent(&stage) - before;
        assert!(bytes < 3_000_000, "{bytes} bytes");
    }
    let stats: String = stage.redis().query(cmd("INFO").arg("commandstats"));
    assert!(!["hgetall", "hkeys"].iter().any(|whole| stats.contains(whole)), "{stats}");
    for key in [LOCK, line] {
        del(&stage, key);
    }
    stage.end([client]).await;
}

/// A part of the readers is listed, and each of them is known.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_among_very_many_is_known() {
    const CROWD: &str = "for i = 1, 30000 do redis.call('hset', KEYS[1], ARGV[1] .. i, 1) end";
    let stage = Stage::new().await;
    // A busy machine takes its time.
    let client = connect(stage.config().command_timeout(PATIENCE)).await;
    let sides = client.read_write_lock(LOCK);
    let mut guards = Vec::new();
    for _ in 0..8 {
        // With a lease of its own it shares no hold.
        guards.push(sides.read_lock().lock().lease(10 * PATIENCE).await.unwrap());
    }
    let others = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:";
    stage.redis().query::<()>(cmd("EVAL").arg(CROWD).arg(1).arg(LOCK).arg(others));
    let seen = sides.inspect().await.unwrap();
    assert_eq!(seen.holders.len() as u64 + seen.more_holders, 30_008);
    assert!(seen.more_holders > 0 && seen.holders.iter().all(|it| it.access == Access::Shared));
    for guard in &guards {
        guard.check().await.unwrap();
    }
    let freed = guards.pop().unwrap();
    assert!(sides.read_lock().force_unlock_if(freed.holder()).await.unwrap());
    assert!(!sides.read_lock().force_unlock_if(freed.holder()).await.unwrap());
    assert!(matches!(freed.check().await, Err(Error::NotHeld { why: Loss::Taken })));
    drop(freed);
    for guard in guards {
        guard.unlock().await.unwrap();
    }
    del(&stage, LOCK);
    stage.end([client]).await;
}

/// How many bytes the server has sent.
fn sent(stage: &Stage) -> u64 {
    let info: String = stage.redis().query(cmd("INFO").arg("stats"));
    let bytes = info.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    bytes.expect("a counter").trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_no_lock_any_more_is_left_alone_and_its_holder_told() {
    let stage = Stage::new().await;
    let config = stage.config().watchdog(SHORT);
    let client = connect(config).await;
    let mut me = client.owner();
    let guard = client.lock(LOCK).lock().by(&mut me).await.unwrap();
    let leased = client.lock("leased").lock().lease(SOON).await.unwrap();
    let neighbour = client.lock("neighbour").lock().await.unwrap();
    for key in [LOCK, "leased"] {
        del(&stage, key);
        set(&stage, key);
    }
    assert_eq!(soon("to be told", guard.lost()).await, Loss::Taken);
    not_held_or_wrong_kind(client.lock(LOCK).lock().by(&mut me).await);
    wrong_kind(leased.check().await);
    wrong_kind(soon("to be refused", leased.unlock()).await);
    not_held_or_wrong_kind(soon("to be refused", guard.unlock()).await);
    for key in [LOCK, "leased"] {
        assert_is_still_no_lock(&stage, key);
        del(&stage, key);
    }
    // What is renewed together is not lost together.
    assert!(neighbour.is_held());
    neighbour.check().await.unwrap();
    neighbour.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiters_on_a_key_that_is_no_lock_any_more_are_told() {
    let stage = Stage::new().await;
    let (client, far) = (stage.client().await, stage.far_client().await);
    let guard = far.lock(LOCK).lock().await.unwrap();
    let turns = [crate::stage::waiter(&client, LOCK), crate::stage::waiter(&client, LOCK)];
    stage.listening(LOCK, 1).await;
    // In one step: a waiter may look at any moment.
    set(&stage, LOCK);
    for turn in turns {
        wrong_kind(within(SOON, "the waiter to be told", turn).await.unwrap());
    }
    wrong_kind(guard.unlock().await);
    assert_is_still_no_lock(&stage, LOCK);
    del(&stage, LOCK);
    stage.end([client, far]).await;
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Invalid(_))), "{result:?}");
}

fn wrong_kind<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::WrongKind { .. })), "{result:?}");
}

fn not_held_or_wrong_kind<T: std::fmt::Debug>(result: Result<T, Error>) {
    assert!(
        matches!(result, Err(Error::WrongKind { .. } | Error::NotHeld { why: Loss::Taken })),
        "{result:?}"
    );
}

fn set(stage: &Stage, key: &str) {
    stage.redis().query::<()>(cmd("SET").arg(key).arg("no lock"));
}

fn del(stage: &Stage, key: &str) {
    stage.redis().query::<()>(cmd("DEL").arg(key));
}

fn assert_is_still_no_lock(stage: &Stage, key: &str) {
    let value: String = stage.redis().query(cmd("GET").arg(key));
    assert_eq!(value, "no lock");
    assert_eq!(stage.redis().pttl(key), -1);
}
