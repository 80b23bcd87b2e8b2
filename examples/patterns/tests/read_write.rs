//! Rows and their copies in several processes on real servers: stale reads are counted, and a writer is killed.

use std::{path::Path, time::Duration};

use harness::{Access, PATIENCE, Proxy, eventually};
use patterns::{
    database,
    read_write::{
        Items, Order, Terms,
        trial::{Job, Outcome, Plan, Task, open, run, start, tables},
    },
    stage::{Servers, Stage},
};
use rusqlite::Connection;

const PLAN: Plan = Plan {
    processes: 3,
    readers: 3,
    writers: 1,
    rows: 4,
    write_every: Duration::from_millis(2),
    rounds: 6,
    lasts: Duration::from_millis(500),
    terms: Terms { locked: true, order: Order::DeleteFirst, copy_lasts: Duration::from_secs(600) },
    watchdog: Duration::from_secs(30),
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_patterns");

async fn trial(plan: Plan) -> Outcome {
    run(Path::new(PROGRAM), plan).await.expect("a run")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_lock_no_read_is_stale_and_no_copy_differs_at_rest() {
    let outcome = trial(PLAN).await;
    assert!(outcome.writes.len() >= 20, "{} writes", outcome.writes.len());
    assert!(outcome.reads.len() >= 200, "{} reads", outcome.reads.len());
    assert_eq!((outcome.stale, outcome.differ_at_rest), (0, 0));
}

/// The checker sees what there is to see: the same code without the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_lock_reads_are_stale() {
    for order in [Order::DeleteFirst, Order::CommitFirst] {
        let mut stale = 0;
        // A machine that stands still may keep one run from showing it.
        for _ in 0..5 {
            stale += trial(Plan { terms: Terms { locked: false, order, ..PLAN.terms }, ..PLAN })
                .await
                .stale;
            if stale > 0 {
                break;
            }
        }
        assert!(stale > 0, "{order:?}");
    }
}

/// A writer that is stopped between the database and the cache, and then killed.
struct Killed {
    stage: Stage,
    items: Items,
    locks: redisson_lock::Client,
}

const WATCHDOG: Duration = Duration::from_secs(6);
const COPY_LASTS: Duration = Duration::from_secs(20);

/// The writer's way to Redis leads over a proxy. It waits for the database, because another transaction is open. Then
/// its way to Redis is cut. It commits, cannot tell Redis, and is killed.
async fn kill_a_writer_between_the_two(order: Order) -> Killed {
    let terms = Terms { locked: true, order, copy_lasts: COPY_LASTS };
    let plan = Plan { terms, watchdog: WATCHDOG, rows: 1, ..PLAN };
    let stage = Stage::set(Path::new(PROGRAM), &tables(&plan)).expect("servers");
    let (items, locks) = open(&Job { servers: stage.servers(), plan }).await.expect("to open");
    let proxy = Proxy::start(stage.redis.port()).await;
    let servers = Servers { redis: proxy.url(), ..stage.servers() };
    let mut writer = start(Path::new(PROGRAM), &Job { servers, plan }).await.expect("a writer");

    assert_eq!(items.read(0).await.expect("a row").version, 1); // and there is a copy
    let other: Connection = database::connect(&stage.database()).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
    writer.order(&Task::Write(0, 7)).await.expect("to order");
    let redis = stage.redis.inspector();
    let is_writing = || {
        let writes = redis.holders("lock:item:0").iter().any(|one| one.access == Access::Write);
        let deleted = order == Order::CommitFirst || !redis.exists("item:0");
        (writes && deleted).then_some(())
    };
    eventually(PATIENCE, "the writer at the database", is_writing).await;
    // Redis has answered, and the writer has to hear it.
    tokio::time::sleep(Duration::from_secs(1)).await;
    proxy.blackhole(true);
    other.execute_batch("COMMIT").expect("to commit");
    let mut committed = 1;
    for _ in 0..PATIENCE.as_millis() / 10 {
        committed = items.row(0).await.expect("a row").version;
        if committed == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(committed, 2, "the writer commits");
    writer.kill().await.expect("to kill");
    Killed { stage, items, locks }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_deletes_first_and_dies_after_its_commit_leaves_nothing_stale() {
    let Killed { stage, items, locks } = kill_a_writer_between_the_two(Order::DeleteFirst).await;
    assert!(!stage.redis.inspector().exists("item:0"));
    // Waits for the rest of the dead writer's lease.
    let read =
        tokio::time::timeout(PATIENCE, items.read(0)).await.expect("in time").expect("a row");
    assert_eq!((read.version, read.price), (2, 7));
    assert_eq!(items.copy(0).await.expect("a copy"), Some(read));
    locks.close().await.expect("to close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_commits_first_and_dies_leaves_a_stale_copy_until_its_ttl() {
    let Killed { stage, items, locks } = kill_a_writer_between_the_two(Order::CommitFirst).await;
    let left = stage.redis.inspector().pttl("item:0");
    assert!(left <= i64::try_from(COPY_LASTS.as_millis()).unwrap());
    // Unless this machine stood still for as long as the copy lasts.
    let read = items.read(0).await.expect("a row").version;
    assert!(read == 1 || left < 2_000, "the copy is gone, with {left} ms to live");
    let redis = stage.redis.inspector();
    eventually(PATIENCE, "the end of the copy", || (!redis.exists("item:0")).then_some(())).await;
    assert_eq!(items.read(0).await.expect("a row").version, 2);
    locks.close().await.expect("to close");
}

/// Its commit goes on: until then no reader may put a copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_is_dropped_at_the_database_leaves_no_old_copy() {
    let plan = Plan { rows: 1, ..PLAN };
    let stage = Stage::set(Path::new(PROGRAM), &tables(&plan)).expect("servers");
    let (items, locks) = open(&Job { servers: stage.servers(), plan }).await.expect("to open");
    assert_eq!(items.read(0).await.expect("a row").version, 1); // and there is a copy
    let other: Connection = database::connect(&stage.database()).expect("a connection");
    other.execute_batch("BEGIN IMMEDIATE").expect("a transaction");
    let write = items.write(0, 7);
    let redis = stage.redis.inspector();
    let is_writing = || (!redis.exists("item:0")).then_some(());
    tokio::select! {
        written = write => panic!("{written:?}"),
        () = eventually(PATIENCE, "the writer at the database", is_writing) => {}
    }
    let reader = items.clone();
    let reader = tokio::spawn(async move { reader.read(0).await.expect("a row").version });
    tokio::time::sleep(Duration::from_secs(1)).await;
    other.execute_batch("COMMIT").expect("to commit");
    reader.await.expect("a read");
    let mut committed = 1;
    for _ in 0..PATIENCE.as_millis() / 10 {
        committed = items.row(0).await.expect("a row").version;
        if committed == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(committed, 2, "the writer commits");
    assert_eq!(items.read(0).await.expect("a row").version, 2);
    locks.close().await.expect("to close");
}
