//! The ways of a local hand-off: a hold is adopted by the next caller, or swapped for one of that caller.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Wake, Waker},
    time::Duration,
};

use futures::{FutureExt, future::join_all};
use tokio::time::{Instant, sleep, timeout};

use super::{Fault, LOCK, ONE_WAY, Sim, World};
use crate::{Acquire, Client, Error, Lock, LockGuard, Loss, Owner};

/// Who comes after whom, and so by which way the hold goes over.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It goes on as it is.
    Free,
    /// It goes on under another name.
    Owned,
    /// It gets another token.
    Fenced,
    /// It is too long for the next.
    Leased,
}

const WAYS: [Way; 4] = [Way::Free, Way::Owned, Way::Fenced, Way::Leased];

impl Way {
    fn lock(self, client: &Client) -> Lock {
        match self {
            Self::Fenced => client.fenced_lock(LOCK).into(),
            _ => client.lock(LOCK),
        }
    }

    fn ask<'a>(self, lock: &Lock, me: &'a mut Owner) -> Acquire<'a, LockGuard> {
        match self {
            Self::Free | Self::Fenced => lock.lock(),
            Self::Owned => lock.lock().by(me),
            Self::Leased => lock.lock().lease(Duration::from_secs(10)),
        }
    }

    /// What somebody who waits for the lock does: takes it, works for a while, releases it.
    async fn turn(self, client: &Client, work: Duration) {
        let lock = self.lock(client);
        let mut me = client.owner();
        let guard = self.ask(&lock, &mut me).await.unwrap();
        sleep(work).await;
        match guard.unlock().await {
            // A reply was lost, and nothing else says that the hold was there until then.
            Err(Error::NotHeld { why: Loss::Unknown }) if matches!(self, Self::Leased) => {}
            unlocked => unlocked.unwrap(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hold_goes_to_the_next_who_waits_with_no_word_to_the_server() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.lock(LOCK);
    let first = lock.lock().await.unwrap();
    let holder = first.holder().to_owned();
    let mut second = pin!(lock.lock().into_future());
    assert!((&mut second).now_or_never().is_none());
    let calls = sim.network.calls();
    first.unlock().await.unwrap();
    let second = second.now_or_never().expect("at once").unwrap();
    assert_eq!(sim.network.calls(), calls);
    assert_eq!((second.holder(), second.hold_count()), (holder.as_str(), 1));
    second.check().await.unwrap();
    second.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn owners_and_tokens_change_with_one_call() {
    for way in WAYS {
        let sim = Sim::new(&World::new()).await;
        let first = way.lock(&sim.client).lock().await.unwrap();
        let turn = way.turn(&sim.client, Duration::ZERO);
        let before = sim.network.calls();
        let release = async {
            sleep(Duration::from_millis(1)).await;
            first.unlock().await.unwrap();
        };
        tokio::join!(turn, release);
        // One adopts or swaps, the last one releases.
        let expected = if matches!(way, Way::Free) { 1 } else { 2 };
        assert_eq!(sim.network.calls() - before, expected, "{way:?}");
        assert!(sim.left().await.is_empty(), "{way:?}");
    }
}

/// Passes wakes on, and notes them.
struct Noted {
    waker: Waker,
    woken: AtomicBool,
}

impl Wake for Noted {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Relaxed);
        self.waker.wake_by_ref();
    }
}

/// Returns also whether the future was woken by its own last poll. A runtime then wakes a thread to poll the task
/// again.
async fn wakes_itself_last<T>(future: impl Future<Output = T>) -> (T, bool) {
    let mut future = pin!(future);
    poll_fn(|context| {
        let noted = Noted { waker: context.waker().clone(), woken: AtomicBool::new(false) };
        let noted = Arc::new(noted);
        let waker = Waker::from(noted.clone());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        polled.map(|output| (output, noted.woken.load(Ordering::Relaxed)))
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn who_gets_a_hold_does_not_wake_itself() {
    for way in WAYS {
        let sim = Sim::new(&World::new()).await;
        let first = way.lock(&sim.client).lock().await.unwrap();
        let lock = way.lock(&sim.client);
        let mut me = sim.client.owner();
        let next = wakes_itself_last(way.ask(&lock, &mut me).into_future());
        let release = async {
            sleep(Duration::from_millis(1)).await;
            first.unlock().await.unwrap();
        };
        let ((granted, wakes_itself), ()) = tokio::join!(next, release);
        assert!(!wakes_itself, "{way:?}");
        granted.unwrap().unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_grow_from_hand_to_hand() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.fenced_lock(LOCK);
    let last = Cell::new(0);
    join_all((0..100).map(|i| {
        let (lock, last) = (&lock, &last);
        async move {
            // They come one after the other, and some together.
            sleep(Duration::from_millis(i / 10)).await;
            let guard = lock.lock().await.unwrap();
            assert!(guard.token().value() > last.replace(guard.token().value()));
            guard.unlock().await.unwrap();
        }
    }))
    .await;
    assert_eq!(lock.latest_token().await.unwrap().unwrap().value(), last.get());
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_caller_cut_at_any_ms_leaves_nothing_and_the_one_behind_it_gets_the_lock() {
    let world = World::new();
    let faults: &[(&str, &[Fault])] = &[
        ("", &[]),
        ("swap", &[Fault::LoseReply]),
        ("swap", &[Fault::LoseReply, Fault::LoseReply]),
        ("swap", &[Fault::LoseRequest]),
        ("swap", &[Fault::Linger(Duration::from_millis(40))]),
        ("extend", &[Fault::LoseReply]),
        ("extend", &[Fault::Linger(Duration::from_millis(40))]),
        ("release", &[Fault::LoseReply]),
    ];
    for (way, (script, faults)) in WAYS.iter().flat_map(|way| faults.iter().map(move |f| (way, f)))
    {
        for after in 0..45 {
            let sim = Sim::new(&world).await;
            sim.network.fail(script, faults.iter().copied());
            let what =
                format!("{way:?}, {} faults in {script}, cut after {after} ms", faults.len());
            cut_between(&sim, *way, after, &what).await;
            let left = sim.left().await;
            assert!(left.is_empty(), "{what}, left {left:?}");
        }
    }
}

/// Three want the lock, each for a few ms, and the one in the middle goes away.
async fn cut_between(sim: &Sim, way: Way, after: u64, what: &str) {
    let inside = Cell::new(0);
    let work = async |ms: u64| {
        inside.set(inside.get() + 1);
        assert_eq!(inside.get(), 1, "{what}: two hold it");
        sleep(Duration::from_millis(ms)).await;
        inside.set(inside.get() - 1);
    };
    let first = async {
        let guard = way.lock(&sim.client).lock().await.unwrap();
        work(5).await;
        drop(guard);
    };
    let cut = async {
        sleep(Duration::from_millis(1)).await;
        let cut = Duration::from_millis(after) + Duration::from_micros(500);
        let _ = timeout(cut, way.turn(&sim.client, Duration::from_millis(3))).await;
    };
    let last = async {
        sleep(Duration::from_millis(2)).await;
        way.turn(&sim.client, Duration::from_millis(3)).await;
    };
    let all = async { tokio::join!(first, cut, last) };
    assert!(timeout(Duration::from_secs(5), all).await.is_ok(), "{what}: somebody hangs");
}

#[tokio::test(start_paused = true)]
async fn a_hold_left_to_a_future_that_nobody_polls_is_released() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.lock(LOCK);
    let guard = lock.lock().await.unwrap();
    let mut forgotten = Box::pin(lock.lock().into_future());
    assert!((&mut forgotten).now_or_never().is_none());
    guard.unlock().await.unwrap();
    // Far sooner than any lease ends.
    let elsewhere = other.client.lock(LOCK);
    let elsewhere = timeout(Duration::from_secs(4), elsewhere.lock().into_future()).await;
    elsewhere.expect("released").unwrap().unlock().await.unwrap();
    drop(forgotten);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_lost_hold_is_not_handed_off() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.lock(LOCK);
    let guard = lock.lock().await.unwrap();
    let next = async {
        let guard = lock.lock().await.unwrap();
        guard.check().await.unwrap();
        guard.unlock().await.unwrap();
    };
    let meanwhile = async {
        sleep(Duration::from_millis(20)).await;
        assert!(other.client.lock(LOCK).force_unlock().await.unwrap());
        let unlocked = guard.unlock().await;
        assert!(matches!(unlocked, Err(Error::NotHeld { why: Loss::Removed | Loss::Taken })));
    };
    tokio::join!(next, meanwhile);
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn callers_elsewhere_have_their_turns() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let turn = async |client: &Client| Way::Free.turn(client, Duration::ZERO).await;
    assert_turns_elsewhere(&sim, &other, turn).await;
}

/// While callers of one client take turns without a pause, one of the other client has its turns too.
pub(super) async fn assert_turns_elsewhere(sim: &Sim, other: &Sim, turn: impl AsyncFn(&Client)) {
    let done = Cell::new(false);
    let turns = Cell::new(0);
    let busy = join_all((0..4).map(|_| async {
        while !done.get() {
            turn(&sim.client).await;
            turns.set(turns.get() + 1);
        }
    }));
    let elsewhere = async {
        sleep(Duration::from_millis(50)).await;
        for _ in 0..20 {
            let begun = Instant::now();
            timeout(60 * ONE_WAY, turn(&other.client)).await.expect("a turn");
            // It looks, subscribes, looks again, is told and looks: that is five round trips, beside a
            // few tenures of theirs.
            assert!(begun.elapsed() < 60 * ONE_WAY, "{:?}", begun.elapsed());
        }
        done.set(true);
    };
    tokio::join!(busy, elsewhere);
    assert!(turns.get() > 100, "{turns:?}");
    assert!(sim.left().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_hold_whose_swap_the_server_refuses_is_released() {
    let world = World::new();
    for cut in 0..12 {
        let sim = Sim::new(&world).await;
        let lock = sim.client.fenced_lock(LOCK);
        let first = lock.lock().await.unwrap();
        // No next token can be given.
        let token = format!("redisson_lock_token:{{{LOCK}}}");
        world.write(&token, "many");
        let second = timeout(Duration::from_micros(cut * 1_000 + 500), lock.lock());
        let release = async {
            sleep(Duration::from_millis(1)).await;
            first.unlock().await.unwrap();
        };
        let (second, ()) = tokio::join!(second, release);
        if let Ok(second) = second {
            assert!(matches!(second, Err(Error::WrongKind { .. })), "{second:?}");
        }
        world.forget(&token);
        let left = sim.left().await;
        assert!(left.is_empty(), "cut after {cut} ms, left {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn closed_at_any_ms_nothing_is_left_with_those_who_wait() {
    let world = World::new();
    for after in 0..30 {
        let sim = Sim::new(&world).await;
        let turns = join_all((0..4).map(|_| async {
            let lock = sim.client.lock(LOCK);
            while let Ok(guard) = lock.lock().await {
                sleep(Duration::from_millis(1)).await;
                drop(guard);
            }
        }));
        let close = async {
            sleep(Duration::from_millis(after)).await;
            sim.client.close().await.unwrap();
        };
        let both = timeout(Duration::from_secs(20), async { tokio::join!(turns, close) }).await;
        assert!(both.is_ok(), "closed after {after} ms: somebody hangs");
        let left = sim.left().await;
        assert!(left.is_empty(), "closed after {after} ms, left {left:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn told_not_to_it_hands_nothing_off() {
    let sim = Sim::with(&World::new(), |config| config.reuse_holds(false)).await;
    let before = sim.network.calls();
    let turns = (0..4).map(|_| Way::Free.turn(&sim.client, Duration::from_millis(1)));
    join_all(turns).await;
    assert!(sim.network.calls() - before >= 8);
    assert!(sim.left().await.is_empty());
}
