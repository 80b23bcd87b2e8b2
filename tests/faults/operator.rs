//! What an operator does to a lock's keys: they are renamed, moved, swapped, made to last, or cut short.

use std::time::{Duration, Instant};

use harness::redis::{Cmd, cmd};
use harness::{PATIENCE, eventually};
use redisson_lock::{LockGuard, Loss, Remaining};
use tokio::time::sleep;

use crate::held::{self, SLACK, all_told, hold, lock_of, one_of_each, rival_of};
use crate::stage::{LOCK, SHORT, Stage, WATCHDOG, connect, soon, why_not_held};

/// A holder is told so soon that its key is gone, or the key is put right.
const NOTICED: Duration =
    Duration::from_millis(SHORT.as_millis() as u64 / 3 + SLACK.as_millis() as u64);

fn does(stage: &Stage, command: &Cmd) {
    let _: harness::redis::Value = stage.redis().query(command);
}

/// What takes all keys from where they are.
#[derive(Clone, Copy, Debug)]
enum Taken {
    Renamed,
    Moved,
    Swapped,
    Unlinked,
    Flushed,
}

impl Taken {
    fn take(self, stage: &Stage, name: &str) {
        match self {
            Self::Renamed => does(stage, cmd("RENAME").arg(name).arg(format!("{name}:of old"))),
            Self::Moved => does(stage, cmd("MOVE").arg(name).arg(1)),
            Self::Unlinked => does(stage, cmd("UNLINK").arg(name)),
            Self::Swapped | Self::Flushed => {}
        }
    }

    fn take_all(self, stage: &Stage) {
        match self {
            Self::Swapped => does(stage, cmd("SWAPDB").arg(0).arg(1)),
            Self::Flushed => does(stage, &cmd("FLUSHALL")),
            _ => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_whose_keys_are_taken_away_are_told_by_their_next_renewal() {
    use Taken::{Flushed, Moved, Renamed, Swapped, Unlinked};
    let each = [Renamed, Moved, Swapped, Unlinked, Flushed].map(|taken| {
        tokio::spawn(async move {
            let stage = Stage::new().await;
            let client = connect(stage.config().watchdog(SHORT)).await;
            let other = stage.client().await;
            let held = one_of_each(&client, "held").await;
            let names: Vec<_> = held.iter().map(|held| (held.kind, held.name.clone())).collect();
            let at = Instant::now();
            names.iter().for_each(|(_, name)| taken.take(&stage, name));
            taken.take_all(&stage);
            let told = all_told(held);
            let mut guards = Vec::new();
            for (kind, name) in &names {
                let rival = rival_of(&other, kind, name);
                let guard = soon("an answer", rival.try_lock()).await.unwrap();
                guards.push(guard.unwrap_or_else(|| panic!("{taken:?}: {name} is held")));
            }
            let mut longest = Duration::ZERO;
            for told in told.await.unwrap() {
                let after = told.at - at;
                assert!(matches!(told.why, Loss::Removed | Loss::Taken), "{taken:?}");
                assert!(after < NOTICED, "{taken:?}, {}: told after {after:?}", told.held.name);
                longest = longest.max(after);
                told.held.stays_lost().await;
            }
            println!("{taken:?}: the last was told after {longest:?}");
            for guard in guards {
                guard.unlock().await.expect("its key is where it was made");
            }
            // What was put elsewhere ends with its lease.
            eventually(PATIENCE, "an end of the old keys", || {
                stage.redis().keys().iter().all(|key| key.contains("_token:")).then_some(())
            })
            .await;
            does(&stage, &cmd("FLUSHALL"));
            held::end(&stage, [client, other]).await;
        })
    });
    for one in each {
        one.await.unwrap();
    }
}

/// A dead hold comes back, and is in the way for the rest of its lease, not for longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_that_are_swapped_back_bring_a_hold_back_for_the_rest_of_its_lease() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let held = hold(&client, "lock", LOCK.into()).await;
    does(&stage, cmd("SWAPDB").arg(0).arg(1));
    assert_eq!(soon("to be told", held.guard.lost()).await, Loss::Removed);
    does(&stage, cmd("SWAPDB").arg(0).arg(1));
    let back = Instant::now();
    assert_eq!(held.stays_lost().await, Loss::Removed);
    let next = soon("its end", client.lock(LOCK).lock()).await.unwrap();
    println!("the next holder {:?} after the old hold was back", back.elapsed());
    assert!(back.elapsed() < SHORT + SLACK);
    next.unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_made_to_last_has_a_ttl_again_after_the_next_renewal() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let held = one_of_each(&client, "held").await;
    for held in &held {
        does(&stage, cmd("PERSIST").arg(&held.name));
    }
    let lasts = Instant::now();
    for held in &held {
        let what = format!("{} to have a TTL", held.name);
        let ttl = eventually(PATIENCE, &what, || {
            Some(stage.redis().pttl(&held.name)).filter(|&ttl| ttl != -1)
        })
        .await;
        assert!(lasts.elapsed() < NOTICED, "{}", held.name);
        assert!(ttl > 0, "{}", held.name);
    }
    for held in held {
        held.guard.check().await.unwrap();
        held.guard.unlock().await.unwrap();
    }
    held::end(&stage, [client]).await;
}

/// Nobody renews it: it stays for ever, unless its holder gives it back. It may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leased_key_that_is_made_to_last_is_gone_when_its_holder_gives_it_back() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let mut guards = Vec::new();
    for kind in held::KINDS {
        let lock = lock_of(&client, kind, &format!("leased:{kind}"));
        guards.push(lock.lock().lease(Duration::from_millis(500)).await.unwrap());
        does(&stage, cmd("PERSIST").arg(format!("leased:{kind}")));
    }
    for guard in &guards {
        assert_eq!(soon("its end", guard.lost()).await, Loss::Expired);
    }
    let lock = client.lock("leased:lock");
    assert_eq!(lock.ttl().await.unwrap(), Remaining::WithoutExpiry, "{lock:?}");
    for guard in guards {
        let _ = guard.unlock().await;
    }
    for kind in held::KINDS {
        let name = format!("leased:{kind}");
        let gone = || (!stage.redis().exists(&name)).then_some(());
        eventually(PATIENCE, &format!("an end of {name}"), gone).await;
    }
    held::end(&stage, [client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_hold_that_is_made_to_last_keeps_writers_out_when_others_leave() {
    let stage = Stage::new().await;
    let (client, other) = (stage.client().await, stage.far_client().await);
    let (lock, theirs) = (client.read_write_lock(LOCK), other.read_write_lock(LOCK));
    let make_reads_last = || {
        let keys = stage.redis().keys().into_iter().filter(|key| key.contains("rwlock_timeout"));
        assert_eq!(keys.map(|key| does(&stage, cmd("PERSIST").arg(key))).count(), 1);
    };
    let is_read = async |guard: &LockGuard| {
        guard.check().await.expect("nobody has ended it");
        let writer = soon("an answer", theirs.write_lock().try_lock()).await.unwrap();
        assert!(writer.is_none(), "a writer beside a reader");
    };
    let reading = lock.read().await.unwrap();
    make_reads_last();
    theirs.read().await.unwrap().unlock().await.unwrap();
    is_read(&reading).await;
    reading.unlock().await.unwrap();
    // A writer's own.
    let mut me = client.owner();
    let writing = lock.write().by(&mut me).await.unwrap();
    let reading = lock.read().by(&mut me).await.unwrap();
    make_reads_last();
    writing.unlock().await.unwrap();
    is_read(&reading).await;
    reading.unlock().await.unwrap();
    stage.end([client, other]).await;
}

/// The lease of a re-entry, or of one more reader, may be far shorter than that of the hold before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_made_to_last_is_not_cut_to_the_lease_of_a_re_entry_or_of_another_reader() {
    let short = Duration::from_millis(100);
    let stage = Stage::new().await;
    let (client, other) = (stage.client().await, stage.far_client().await);
    for kind in ["lock", "fair", "write", "fenced", "read"] {
        let (lock, name) = (lock_of(&client, kind, kind), kind);
        let mut me = client.owner();
        let outer = lock.lock().by(&mut me).lease(WATCHDOG).await.unwrap();
        does(&stage, cmd("PERSIST").arg(name));
        let inner = lock.lock().by(&mut me).lease(short).await.unwrap();
        let beside = match kind {
            "read" => Some(lock_of(&other, kind, kind).lock().lease(short).await.unwrap()),
            _ => None,
        };
        sleep(2 * short).await;
        outer.check().await.unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert!(rival_of(&other, kind, name).try_lock().await.unwrap().is_none(), "{kind}");
        drop(beside);
        inner.unlock().await.unwrap();
        outer.unlock().await.unwrap();
    }
    held::end(&stage, [client, other]).await;
}

/// A server that is asked whether the hold may go to a local waiter leaves the key as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leased_key_that_is_made_to_last_has_one_holder_after_a_hand_off() {
    let stage = Stage::new().await;
    let (client, other) = (stage.client().await, stage.far_client().await);
    let take = || client.lock(LOCK).lock().lease(WATCHDOG).into_future();
    for _ in 0..20 {
        let first = soon("a lock", take()).await.unwrap();
        does(&stage, cmd("PERSIST").arg(LOCK));
        let waiters = [(); 2].map(|()| {
            let (waiting, rival) = (take(), other.lock(LOCK));
            tokio::spawn(async move {
                let guard = waiting.await.unwrap();
                sleep(Duration::from_millis(5)).await;
                let beside = rival.try_lock().await.unwrap();
                assert!(beside.is_none(), "two holders");
                guard.unlock().await.unwrap();
            })
        });
        // The server is asked after 2 ms, and the lock is free for others after 32 ms.
        sleep(Duration::from_millis(5)).await;
        first.unlock().await.unwrap();
        for waiter in waiters {
            soon("a turn", waiter).await.unwrap();
        }
    }
    stage.end([client, other]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_ttl_that_is_cut_short_or_drawn_out_is_put_right_or_told() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(2 * SHORT)).await;
    let other = stage.client().await;
    // Renewed before it ends.
    let held = one_of_each(&client, "longer").await;
    for held in &held {
        does(&stage, cmd("PEXPIRE").arg(&held.name).arg(SHORT.as_millis() as u64));
    }
    sleep(SHORT + SLACK).await;
    for held in &held {
        held.guard.check().await.unwrap_or_else(|error| panic!("{}: {error}", held.name));
        // And not cut by us: given back long before.
        does(&stage, cmd("PEXPIRE").arg(&held.name).arg(10 * WATCHDOG.as_millis() as u64));
    }
    for held in held {
        held.guard.unlock().await.unwrap();
        assert!(!stage.redis().exists(&held.name), "{}", held.name);
    }
    // Gone before the next renewal.
    let held = one_of_each(&client, "shorter").await;
    let names: Vec<_> = held.iter().map(|held| (held.kind, held.name.clone())).collect();
    let at = Instant::now();
    for (_, name) in &names {
        does(&stage, cmd("PEXPIRE").arg(name).arg(1));
    }
    let told = all_told(held);
    sleep(Duration::from_millis(5)).await;
    for (kind, name) in &names {
        let guard = rival_of(&other, kind, name).try_lock().await.unwrap();
        guard.expect("it is free").unlock().await.unwrap();
    }
    for told in told.await.unwrap() {
        let after = told.at - at;
        assert!(after < 2 * SHORT / 3 + SLACK, "{}: told after {after:?}", told.held.name);
        assert_eq!(why_not_held(told.held.guard.check().await), told.why);
        told.held.stays_lost().await;
    }
    held::end(&stage, [client, other]).await;
}

/// A lock under the name of another: its holder is told, and what it gives back is nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_that_is_renamed_to_another_lock_takes_that_from_its_holder() {
    let stage = Stage::new().await;
    let client = connect(stage.config().watchdog(SHORT)).await;
    let (one, other) =
        (hold(&client, "lock", "one".into()).await, hold(&client, "lock", "other".into()).await);
    does(&stage, cmd("RENAME").arg("one").arg("other"));
    assert_eq!(soon("to be told", one.guard.lost()).await, Loss::Removed);
    assert_eq!(soon("to be told", other.guard.lost()).await, Loss::Taken);
    assert_eq!(other.stays_lost().await, Loss::Taken);
    assert_eq!(one.stays_lost().await, Loss::Removed);
    // With the lease of a holder who does not know of it.
    let next = soon("its end", client.lock("other").lock()).await.unwrap();
    next.unlock().await.unwrap();
    stage.end([client]).await;
}
