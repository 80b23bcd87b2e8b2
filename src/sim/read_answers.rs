//! What readers who share a hold are told, and when: beside a server that does not answer, beside writers,
//! and after their client was closed.

use std::{iter::repeat_n, pin::pin, time::Duration};

use futures::FutureExt;
use tokio::time::{Instant, sleep};

use super::{Fault, LOCK, ONE_WAY, Sim, World};
use crate::Error;

/// The defaults of `Config::command_timeout` and `Config::retry_timeout`.
const COMMAND: Duration = Duration::from_secs(3);
const RETRIES: Duration = Duration::from_secs(10);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The request that asks about a shared hold takes time, and so does the one for a hold of its own.
#[tokio::test(start_paused = true)]
async fn a_reader_beside_a_silent_server_has_an_answer_in_time() {
    for wait in [Some(0), Some(1), Some(500), None] {
        let sim = Sim::new(&World::new()).await;
        let lock = sim.client.read_write_lock(LOCK);
        let first = lock.read().await.unwrap();
        sleep(ms(50)).await;
        sim.network.fail("", repeat_n(Fault::Silent(COMMAND), 500));
        let begun = Instant::now();
        let (answer, bound) = match wait {
            Some(wait) => (lock.try_read().wait(ms(wait)).await.map(|_| ()), ms(wait) + COMMAND),
            None => (lock.read().await.map(drop), RETRIES),
        };
        assert!(matches!(answer, Err(Error::Redis(_))), "{answer:?}");
        let took = begun.elapsed();
        assert!(took <= bound + ms(50), "a wait of {wait:?} ms took {took:?}");
        sim.network.heal();
        first.unlock().await.unwrap();
        assert!(sim.left().await.is_empty());
    }
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
        let begun = Instant::now();
        let silence = async {
            sleep(ms(5)).await;
            sim.network.fail("", repeat_n(Fault::Silent(COMMAND), 500));
        };
        let (answer, ()) = tokio::join!(lock.try_read().wait(ms(500)), silence);
        (answer, begun.elapsed())
    };
    let (_, (answer, took)) = tokio::join!(writes, reads);
    assert!(matches!(answer, Err(Error::Redis(_))), "{answer:?}");
    assert!(took <= ms(550) + COMMAND, "{took:?}");
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
    sim.network.fail("", repeat_n(Fault::Silent(COMMAND), 500));
    let begun = Instant::now();
    let left = leaves.unlock().await;
    assert!(matches!(left, Err(Error::Redis(_))), "{left:?}");
    assert!(begun.elapsed() <= RETRIES + ms(50), "{:?}", begun.elapsed());
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
