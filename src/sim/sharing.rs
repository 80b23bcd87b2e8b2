//! Readers of one client share a hold.

use std::{
    pin::pin,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::time::{Instant, sleep, timeout};

use super::{
    LOCK, ONE_WAY, Sim, World,
    bounds::{RETRIES, assert_timed_out, ends_within, outage},
    ms,
};
use crate::{
    Error, Loss,
    observer::{HoldBegun, HoldEnd, HoldEnded, Observer, ReleaseFailed},
};

/// Longer than newcomers wait for a writer that does not come.
const CLOSED: Duration = Duration::from_millis(150);

#[tokio::test(start_paused = true)]
async fn the_first_reader_takes_the_hold_and_the_last_one_releases_it() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let mut reads = vec![lock.read().await.unwrap()];
    let calls = sim.network.calls();
    for _ in 1..20 {
        reads.push(lock.read().into_future().now_or_never().expect("at once").unwrap());
    }
    assert_eq!(sim.network.calls(), calls);
    assert!(reads.iter().all(|read| read.holder() == reads[0].holder() && read.hold_count() == 1));
    assert_eq!(sim.holders(LOCK).len(), 1);
    let last = reads.pop().unwrap();
    for (n, read) in reads.into_iter().enumerate() {
        match n % 2 {
            0 => read.unlock().now_or_never().expect("at once").unwrap(),
            _ => drop(read),
        }
    }
    assert_eq!(sim.network.calls(), calls);
    last.check().await.unwrap();
    last.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_server_is_asked_from_time_to_time_by_who_comes_or_leaves() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let first = lock.read().await.unwrap();
    for _ in 0..5 {
        sleep(ms(50)).await;
        let calls = sim.network.calls();
        let second = lock.read().await.unwrap();
        assert_eq!(second.holder(), first.holder());
        assert_eq!(sim.network.calls() - calls, 1);
        sleep(ms(50)).await;
        second.unlock().await.unwrap();
        assert_eq!(sim.network.calls() - calls, 2);
    }
    first.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn owners_leases_of_their_own_and_clients_that_hand_nothing_off_have_holds_of_their_own() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.read_write_lock(LOCK);
    let (mut one, mut other) = (sim.client.owner(), sim.client.owner());
    let reads = [
        lock.read().await.unwrap(),
        lock.read().by(&mut one).await.unwrap(),
        lock.read().by(&mut other).await.unwrap(),
        lock.read().lease(Duration::from_secs(9)).await.unwrap(),
        lock.read().lease(Duration::from_secs(9)).await.unwrap(),
    ];
    assert_eq!(sim.holders(LOCK).len(), reads.len());
    drop(reads);
    assert!(sim.left().await.is_empty());
    let sim = Sim::with(&world, |config| config.reuse_holds(false)).await;
    let lock = sim.client.read_write_lock(LOCK);
    let reads = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    assert_eq!(sim.holders(LOCK).len(), reads.len());
    drop(reads);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn nobody_joins_while_a_local_writer_has_waited_for_a_moment() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let first = lock.read().await.unwrap();
    let mut writes = pin!(lock.write().into_future());
    assert!((&mut writes).now_or_never().is_none());
    let second = lock.read().into_future().now_or_never().expect("joined at once").unwrap();
    sleep(ms(2)).await;
    let mut third = pin!(lock.read().into_future());
    assert!((&mut third).now_or_never().is_none());
    let release = async {
        sleep(4 * ONE_WAY).await;
        first.unlock().await.unwrap();
        second.unlock().await.unwrap();
    };
    let written = async {
        let guard = writes.await.unwrap();
        assert_eq!(sim.holders(LOCK).len(), 1);
        sleep(ms(20)).await;
        guard.unlock().await.unwrap();
        Instant::now()
    };
    let read = async { (third.await.unwrap(), Instant::now()) };
    // A reader that came first would keep the writer out for ever.
    let all = async { tokio::join!(release, written, read) };
    let ((), written, (third, read)) =
        timeout(ms(5_000), all).await.expect("the writer to come first");
    assert!(written <= read + ONE_WAY, "the reader came first");
    third.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// It was let in for as long as others had the hold, and no longer.
#[tokio::test(start_paused = true)]
async fn a_local_writer_comes_next_when_the_last_reader_leaves_at_once() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let first = lock.read().await.unwrap();
    let mut writes = pin!(lock.write().into_future());
    assert!((&mut writes).now_or_never().is_none());
    let mut release = pin!(first.unlock());
    assert!((&mut release).now_or_never().is_none());
    let mut second = pin!(lock.read().into_future());
    assert!((&mut second).now_or_never().is_none());
    let written = async {
        let guard = writes.await.unwrap();
        sleep(ms(20)).await;
        guard.unlock().await.unwrap();
        Instant::now()
    };
    let read = async { (second.await.unwrap(), Instant::now()) };
    // A reader that came first would keep the writer out for ever.
    let all = async { tokio::join!(release, written, read) };
    let (released, written, (second, read)) =
        timeout(ms(5_000), all).await.expect("the writer to come first");
    released.unwrap();
    assert!(written <= read + ONE_WAY, "the reader came first");
    second.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// It waits for itself, but not for long.
#[tokio::test(start_paused = true)]
async fn a_second_read_under_the_first_is_kept_out_for_a_moment_only() {
    for elsewhere in [false, true] {
        let world = World::new();
        let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
        let lock = sim.client.read_write_lock(LOCK);
        let outer = lock.read().await.unwrap();
        let writer = if elsewhere { &other } else { &sim };
        let writes = writer.client.read_write_lock(LOCK).write().into_future();
        let writes = tokio::spawn(writes);
        sleep(ms(50)).await;
        let begun = Instant::now();
        let inner = lock.read().await.unwrap();
        assert!(begun.elapsed() <= CLOSED, "{:?}", begun.elapsed());
        // For a while after that nobody is.
        let begun = Instant::now();
        let innermost = lock.read().await.unwrap();
        assert!(begun.elapsed() <= 4 * ONE_WAY, "{:?}", begun.elapsed());
        for read in [innermost, inner, outer] {
            read.unlock().await.unwrap();
        }
        writes.await.unwrap().unwrap().unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_is_cut_off_lets_readers_in_again() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let first = lock.read().await.unwrap();
    let writes = timeout(ms(20), lock.write().into_future());
    let second = async {
        sleep(ms(10)).await;
        let begun = Instant::now();
        let second = lock.read().await.unwrap();
        assert!(begun.elapsed() <= ms(10) + 6 * ONE_WAY, "{:?}", begun.elapsed());
        second
    };
    let (writes, second) = tokio::join!(writes, second);
    assert!(writes.is_err());
    for read in [first, second] {
        read.unlock().await.unwrap();
    }
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn all_who_share_a_lost_hold_are_told_and_nobody_joins_it() {
    let world = World::new();
    let sim = Sim::new(&world).await;
    let lock = sim.client.read_write_lock(LOCK);
    let reads = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    let [left, stays] = reads;
    world.forget(LOCK);
    sleep(ms(50)).await;
    let next = lock.read().await.unwrap();
    assert_ne!(next.holder(), stays.holder());
    let left = left.unlock().await;
    assert!(matches!(left, Err(Error::NotHeld { .. })), "{left:?}");
    let told = timeout(ms(1), stays.lost()).await;
    assert!(matches!(told, Ok(Loss::Removed | Loss::Taken)), "{told:?}");
    let stays = stays.unlock().await;
    assert!(matches!(stays, Err(Error::NotHeld { .. })), "{stays:?}");
    next.check().await.unwrap();
    next.unlock().await.unwrap();
    world.forget(&format!("{{{LOCK}}}"));
    drop(sim.left().await);
}

#[tokio::test(start_paused = true)]
async fn readers_cut_at_any_ms_leave_nothing_and_the_others_keep_the_hold() {
    let world = World::new();
    for cut in 0..40 {
        let sim = Sim::new(&world).await;
        let lock = sim.client.read_write_lock(LOCK);
        let turn = async |pause: u64, hold: u64| {
            sleep(ms(pause)).await;
            let guard = lock.read().await.unwrap();
            sleep(ms(hold)).await;
            guard.check().await.unwrap();
            guard.unlock().await.unwrap();
        };
        let cut_off = async |pause, hold| drop(timeout(ms(cut), turn(pause, hold)).await);
        tokio::join!(turn(0, 12), cut_off(7, 20), cut_off(9, 1), turn(20, 5), async {
            sleep(ms(8)).await;
            drop(timeout(ms(cut / 2), lock.write().into_future()).await);
        });
        let left = sim.left().await;
        assert!(left.is_empty(), "cut after {cut} ms, left {left:?}");
    }
}

static BEGUN: AtomicUsize = AtomicUsize::new(0);
static ENDED: Mutex<Vec<HoldEnd>> = Mutex::new(Vec::new());

struct Tally;

impl Observer for Tally {
    fn hold_begun(&self, _: &HoldBegun<'_>) {
        BEGUN.fetch_add(1, Ordering::Relaxed);
    }

    fn hold_ended(&self, hold: &HoldEnded<'_>) {
        ENDED.lock().unwrap().push(hold.end);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_sees_each_reader_of_a_shared_hold() {
    let sim = Sim::with(&World::new(), |config| config.observer(Tally)).await;
    let lock = sim.client.read_write_lock(LOCK);
    let mut reads = Vec::new();
    for _ in 0..3 {
        reads.push(lock.read().await.unwrap());
    }
    assert_eq!(sim.holders(LOCK).len(), 1);
    assert_eq!(BEGUN.load(Ordering::Relaxed), 3);
    assert_eq!(*ENDED.lock().unwrap(), []);
    reads.pop().unwrap().unlock().await.unwrap();
    assert_eq!(*ENDED.lock().unwrap(), [HoldEnd::Released]);
    sim.client.close().await.unwrap();
    assert_eq!(ENDED.lock().unwrap()[1..], [HoldEnd::Lost(Loss::Closed); 2]);
    assert!(reads.iter().all(|read| !read.is_held()));
}

/// It is the last one when its answer comes.
#[tokio::test(start_paused = true)]
async fn an_unlock_that_nobody_polls_keeps_no_writer_waiting() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.read_write_lock(LOCK);
    let [one, two] = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    sleep(ms(50)).await;
    let mut unlock = pin!(one.unlock());
    assert!((&mut unlock).now_or_never().is_none(), "the server is asked");
    drop(two);
    let writes = other.client.read_write_lock(LOCK).write().into_future();
    let writes = timeout(Duration::from_secs(5), writes).await.expect("its turn").unwrap();
    writes.unlock().await.unwrap();
    unlock.await.unwrap();
    assert!(sim.left().await.is_empty());
}

static ENDS: Mutex<Vec<HoldEnd>> = Mutex::new(Vec::new());
static FAILED: AtomicUsize = AtomicUsize::new(0);

struct Failures;

impl Observer for Failures {
    fn hold_ended(&self, hold: &HoldEnded<'_>) {
        ENDS.lock().unwrap().push(hold.end);
    }

    fn release_failed(&self, failure: &ReleaseFailed<'_>) {
        assert!(failure.given_up);
        FAILED.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test(start_paused = true)]
async fn an_observer_is_not_told_of_a_release_that_nobody_confirmed() {
    let sim = Sim::with(&World::new(), |config| config.observer(Failures)).await;
    let lock = sim.client.read_write_lock(LOCK);
    let (one, other) = (lock.read().await.unwrap(), lock.read().await.unwrap());
    assert_eq!(sim.holders(LOCK).len(), 1);
    sleep(ms(5_000)).await;
    outage(&sim);
    assert_timed_out(ends_within(RETRIES, "to unlock", one.unlock()).await);
    assert_eq!(*ENDS.lock().unwrap(), [HoldEnd::ReleaseGivenUp]);
    assert_eq!(FAILED.load(Ordering::Relaxed), 1);
    sim.network.heal();
    other.unlock().await.unwrap();
    assert_eq!(ENDS.lock().unwrap()[1..], [HoldEnd::Released]);
    assert!(sim.left().await.is_empty());
}
