//! Callers that are dropped at any moment.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use harness::{PATIENCE, Proxy, assert_nothing_left};
use redisson_lock::{Client, Error, Loss};
use tokio::task::{JoinError, JoinSet, yield_now};
use tokio::time::sleep;

use crate::stage::{SOON, Stage, connect, sha, within};

const TASKS: u64 = 16;
const LOCKS: [&str; 4] = ["a", "b", "c", "d"];

/// How many are inside each lock.
type Rooms = Arc<[AtomicUsize; LOCKS.len()]>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_dropped_at_any_moment_leaves_nothing_behind() {
    let stage = Stage::new().await;
    let client = stage.far_client().await;
    cut_often(&client, 150, Duration::from_millis(4)).await;
    within(SOON, "to close", client.close()).await.unwrap();
    // At once: close has waited for it.
    assert_eq!(stage.redis().keys(), [""; 0]);
    assert_nothing_left(&stage.server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_dropped_on_a_broken_network_leaves_nothing_behind() {
    let stage = Stage::new().await;
    let config = stage.config().command_timeout(Duration::from_millis(700));
    let client = connect(config).await;
    tokio::select! {
        () = break_often(&stage.proxy) => {}
        () = cut_often(&client, 25, Duration::from_millis(60)) => {}
    }
    stage.end([client]).await;
}

/// Runs tasks on a few locks, each cut off at a random moment, until every one of [`TASKS`] has cut off `cuts`.
async fn cut_often(client: &Client, cuts: usize, within_time: Duration) {
    let seed = seed();
    let rooms = Rooms::default();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (client, rooms) = (client.clone(), Arc::clone(&rooms));
        let rng = Rng::with_seed(seed.wrapping_add(task));
        tasks.spawn(run(client, rooms, rng, cuts, within_time));
    }
    let mut completed = 0;
    let begun = Instant::now();
    while let Some(done) = within(2 * PATIENCE, "the cuts to end", tasks.join_next()).await {
        completed += done.unwrap();
    }
    println!(
        "seed {seed}: {} cuts among {completed} visits that went undisturbed, in {:?}",
        TASKS as usize * cuts,
        begun.elapsed(),
    );
}

/// Says how many visits were done before they were to be cut off.
async fn run(client: Client, rooms: Rooms, mut rng: Rng, cuts: usize, most: Duration) -> usize {
    let (mut cut, mut completed) = (0, 0);
    while cut < cuts {
        let visit = tokio::spawn(visit(client.clone(), Arc::clone(&rooms), rng.fork()));
        let moment = most.mul_f64(rng.f64().powi(2));
        pass(moment).await;
        visit.abort();
        match visit.await {
            Ok(()) => completed += 1,
            Err(error) if error.is_cancelled() => cut += 1,
            Err(error) => std::panic::resume_unwind(JoinError::into_panic(error)),
        }
    }
    completed
}

/// Sleeps know only milliseconds.
async fn pass(time: Duration) {
    let begun = Instant::now();
    if time > Duration::from_millis(2) {
        sleep(time - Duration::from_millis(1)).await;
    }
    while begun.elapsed() < time {
        yield_now().await;
    }
}

/// Takes a lock in one of many ways, and gives it back in one of many ways.
async fn visit(client: Client, rooms: Rooms, mut rng: Rng) {
    let room = rng.usize(..LOCKS.len());
    let lock = client.lock(LOCKS[room]);
    let mut me = client.owner();
    let outer = match rng.u8(..4) {
        0 => lock.lock().by(&mut me).await.map(Some),
        1 => lock.lock().by(&mut me).lease(PATIENCE).await.map(Some),
        2 => lock.try_lock().by(&mut me).await,
        _ => {
            let wait = Duration::from_micros(rng.u64(..5_000));
            lock.try_lock().by(&mut me).wait(wait).await
        }
    };
    let Some(outer) = or_unreachable(outer).flatten() else {
        return;
    };
    let inside = Inside::enter(rooms, room);
    for _ in 0..rng.usize(..3) {
        let Some(inner) = or_unreachable(lock.lock().by(&mut me).await) else {
            return;
        };
        pass(Duration::from_micros(rng.u64(..200))).await;
        if rng.bool() {
            or_unreachable(inner.unlock().await);
        }
    }
    pass(Duration::from_micros(rng.u64(..300))).await;
    drop(inside);
    if rng.bool() {
        or_unreachable(outer.unlock().await);
    }
}

/// On a broken network an operation may fail, for that reason alone.
fn or_unreachable<T>(result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(Error::Redis(_)) => None,
        // A lease that is not renewed, and a release whose repeated copy was answered.
        Err(Error::NotHeld { why: Loss::Unknown }) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Alone in a room, until dropped.
struct Inside {
    rooms: Rooms,
    room: usize,
}

impl Inside {
    fn enter(rooms: Rooms, room: usize) -> Self {
        assert_eq!(rooms[room].fetch_add(1, Ordering::SeqCst), 0, "two inside");
        Self { rooms, room }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.rooms[self.room].fetch_sub(1, Ordering::SeqCst);
    }
}

async fn break_often(proxy: &Proxy) {
    let scripts = ["reentrant/acquire", "reentrant/reenter", "reentrant/release"].map(sha);
    loop {
        let script = fastrand::choice(&scripts).expect("one of them");
        match fastrand::u8(..8) {
            0 => drop(proxy.cut_all()),
            1..=3 => drop(proxy.lose_requests(script, 1)),
            _ => drop(proxy.lose_next_reply(script)),
        }
        sleep(Duration::from_millis(fastrand::u64(1..60))).await;
    }
}

/// `FAULTS_SEED`, to do the same again as far as the machine lets us, or a new one.
fn seed() -> u64 {
    match std::env::var("FAULTS_SEED") {
        Ok(seed) => seed.parse().expect("a number in FAULTS_SEED"),
        Err(_) => RandomState::new().hash_one(Instant::now()),
    }
}
