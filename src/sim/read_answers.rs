//! What readers who share a hold are told, and when: beside a server that does not answer, beside writers,
//! and after their client was closed.

use std::pin::pin;

use futures::FutureExt;
use tokio::time::{Instant, sleep};

use super::{
    Fault, LOCK, ONE_WAY, Sim, World,
    bounds::{COMMAND, RETRIES, assert_timed_out, ends_within, outage},
    ms,
};
use crate::{Config, Error};

/// The request that asks about a shared hold takes time, and so does the one for a hold of its own.
#[tokio::test(start_paused = true)]
async fn a_reader_beside_a_silent_server_has_an_answer_in_time() {
    for wait in [Some(0), Some(1), Some(500), None] {
        let sim = Sim::new(&World::new()).await;
        let lock = sim.client.read_write_lock(LOCK);
        let first = lock.read().await.unwrap();
        sleep(ms(50)).await;
        outage(&sim);
        match wait {
            Some(wait) => {
                let (asking, bound) = (lock.try_read().wait(ms(wait)), ms(wait) + COMMAND);
                let what = format!("a wait of {wait} ms");
                assert_timed_out(ends_within(bound, &what, asking.into_future()).await);
            }
            None => {
                let asking = lock.read().into_future();
                assert_timed_out(ends_within(RETRIES, "read()", asking).await);
            }
        }
        sim.network.heal();
        first.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
}

/// The time for retries is short, and the server is far. It has answered all the same.
#[tokio::test(start_paused = true)]
async fn a_reader_that_has_heard_of_a_lost_hold_has_the_time_of_its_own_request() {
    let config = |config: Config| config.retry_timeout(ms(10));
    let sim = Sim::with(&World::new(), config).await;
    let lock = sim.client.read_write_lock(LOCK);
    let lost = lock.read().await.unwrap();
    sim.world.forget(LOCK);
    sleep(ms(50)).await;
    sim.network.fail("extend", [Fault::SlowReply(ms(20))]);
    let read = lock.read().await.unwrap();
    assert_ne!(read.holder(), lost.holder());
    read.unlock().await.unwrap();
    drop(lost);
    sim.world.forget(&format!("{{{LOCK}}}"));
    drop(sim.left().await);
}

/// It is the head of the line, because a writer has been waiting.
#[tokio::test(start_paused = true)]
async fn a_reader_in_line_beside_a_silent_server_has_an_answer_in_time() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let first = lock.read().await.unwrap();
    let writes = lock.try_write().wait(ms(20)).into_future();
    let reads = async {
        sleep(ms(10)).await;
        let silence = async {
            sleep(ms(5)).await;
            outage(&sim);
        };
        let asking = lock.try_read().wait(ms(500)).into_future();
        tokio::join!(ends_within(ms(500) + COMMAND, "try_read()", asking), silence).0
    };
    assert_timed_out(tokio::join!(writes, reads).1);
    sim.network.heal();
    first.unlock().await.unwrap();
    assert!(sim.left().await.is_empty());
}

/// As one who releases a hold of its own does.
#[tokio::test(start_paused = true)]
async fn a_reader_that_leaves_asks_until_there_is_an_answer() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let stays = lock.read().await.unwrap();
    let leaves = lock.read().await.unwrap();
    sleep(ms(50)).await;
    sim.network.fail("extend", [Fault::LoseRequest]);
    sim.network.fail("inspect", [Fault::LoseRequest]);
    leaves.unlock().await.unwrap();
    // Newcomers do not join one that the server was silent about.
    let [stays_too, leaves] = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    assert_eq!(leaves.holder(), stays_too.holder());
    sleep(ms(50)).await;
    outage(&sim);
    assert_timed_out(ends_within(RETRIES, "unlock()", leaves.unlock()).await);
    sim.network.heal();
    for read in [stays, stays_too] {
        read.unlock().await.unwrap();
    }
    assert!(sim.left().await.is_empty());
}

/// A question that nobody answers is asked by no one who has no time for more than one request.
#[tokio::test(start_paused = true)]
async fn a_reader_without_time_to_wait_does_not_ask_about_the_others() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let first = lock.read().await.unwrap();
    sleep(ms(50)).await;
    sim.network.fail("extend", [Fault::LoseRequest]);
    let begun = Instant::now();
    let apart = lock.try_read().await.unwrap().unwrap();
    assert!(begun.elapsed() <= 4 * ONE_WAY, "{:?}", begun.elapsed());
    assert_ne!(apart.holder(), first.holder());
    sim.network.heal();
    for read in [first, apart] {
        read.unlock().await.unwrap();
    }
    assert!(sim.left().await.is_empty());
}

/// The server has not said that another holder keeps it out: a local writer does.
#[tokio::test(start_paused = true)]
async fn a_reader_that_was_kept_out_to_the_end_asks_the_server() {
    for behind in [false, true] {
        let sim = Sim::new(&World::new()).await;
        let lock = sim.client.read_write_lock(LOCK);
        let mut me = sim.client.owner();
        let owned = lock.read().by(&mut me).await.unwrap();
        let again = lock.read().by(&mut me).await.unwrap();
        let shared = lock.read().await.unwrap();
        let mut writes = pin!(lock.write().into_future());
        assert!((&mut writes).now_or_never().is_none());
        sleep(ms(2)).await;
        let mut head = pin!(lock.read().into_future());
        if behind {
            assert!((&mut head).now_or_never().is_none());
        }
        let release = async {
            sleep(ms(30)).await;
            again.unlock().await.unwrap();
        };
        let (read, ()) = tokio::join!(lock.try_read().wait(ms(60)), release);
        let read = read.unwrap().expect("only readers hold the lock");
        for read in [read, owned, shared] {
            read.unlock().await.unwrap();
        }
    }
}

/// An owner's answer is about the hold that others would join.
#[tokio::test(start_paused = true)]
async fn nobody_joins_a_hold_beside_which_a_writer_was_seen() {
    let world = World::new();
    let (sim, other) = (Sim::new(&world).await, Sim::new(&world).await);
    let lock = sim.client.read_write_lock(LOCK);
    let shared = lock.read().await.unwrap();
    world.forget(LOCK);
    let writes = async {
        let writes = other.client.read_write_lock(LOCK).write().await.unwrap();
        sleep(ms(20)).await;
        writes.unlock().await.unwrap();
    };
    // While one asks about the hold, others join it for longer.
    sim.network.fail("extend", [Fault::SlowRequest(ms(4))]);
    let asks = async {
        sleep(ms(3)).await;
        lock.read().await.unwrap().unlock().await.unwrap();
    };
    let sees = async {
        sleep(ms(1)).await;
        let mut me = sim.client.owner();
        let refused = lock.read_lock().try_lock().by(&mut me).await.unwrap();
        assert!(refused.is_none(), "the writer came first");
        let joined = lock.read().into_future().now_or_never();
        assert!(joined.is_none(), "{joined:?}");
    };
    tokio::join!(writes, asks, sees);
    drop(shared);
    world.forget(&format!("{{{LOCK}}}"));
    drop(sim.left().await);
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_a_shared_hold_of_a_closed_client_is_told_that_it_is_closed() {
    let sim = Sim::new(&World::new()).await;
    let lock = sim.client.read_write_lock(LOCK);
    let reads = [lock.read().await.unwrap(), lock.read().await.unwrap()];
    sim.client.close().await.unwrap();
    for read in reads {
        let left = read.unlock().await;
        assert!(matches!(left, Err(Error::Closed)), "{left:?}");
    }
}
