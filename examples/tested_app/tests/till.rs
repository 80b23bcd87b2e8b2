//! The till, when all goes well and when not. No test needs a Redis server, and none waits in real time: tokio's clock is paused, and
//! moves on whenever all tasks wait.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use redisson_lock::test_util::{Refusal, TestServer};
use tested_app::{Declined, Outcome, WAIT, pay};
use tokio::time::{Instant, sleep};

/// A bank that takes a minute for a charge, and counts them.
#[derive(Debug, Default)]
struct Bank {
    charged: AtomicU64,
}

impl Bank {
    async fn charge(&self) -> Result<u64, Declined> {
        sleep(Duration::from_secs(60)).await;
        Ok(self.charged.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn charged(&self) -> u64 {
        self.charged.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_is_paid() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let client = server.client().await.unwrap();
    assert_eq!(pay(&client, 42, bank.charge()).await, Outcome::Paid(1));
    assert_eq!(server.holders("order:42"), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn an_order_that_is_declined_can_be_tried_again() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let client = server.client().await.unwrap();
    assert_eq!(pay(&client, 42, async { Err(Declined) }).await, Outcome::Declined);
    assert_eq!(pay(&client, 42, bank.charge()).await, Outcome::Paid(1));
}

#[tokio::test(start_paused = true)]
async fn an_order_on_which_another_service_works_is_busy() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let client = server.client().await.unwrap();
    let stranger = server.hold("order:42");
    let begun = Instant::now();
    assert_eq!(pay(&client, 42, bank.charge()).await, Outcome::Busy);
    assert!(begun.elapsed() >= WAIT);
    assert_eq!(pay(&client, 43, bank.charge()).await, Outcome::Paid(1), "another order is not");
    drop(stranger);
    assert_eq!(pay(&client, 42, bank.charge()).await, Outcome::Paid(2));
}

#[tokio::test(start_paused = true)]
async fn of_two_instances_one_pays() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let (a, b) = (server.client().await.unwrap(), server.client().await.unwrap());
    let (one, other) = tokio::join!(pay(&a, 42, bank.charge()), pay(&b, 42, bank.charge()));
    assert_eq!([one, other], [Outcome::Paid(1), Outcome::Busy]);
    assert_eq!(bank.charged(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_payment_whose_lock_is_lost_is_stopped() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let client = server.client().await.unwrap();
    let charge = async {
        server.take_away("order:42"); // as a failover does
        bank.charge().await
    };
    assert_eq!(pay(&client, 42, charge).await, Outcome::Look);
    assert_eq!(
        bank.charged(),
        0,
        "the charge was dropped at the next renewal, long before its end"
    );
}

#[tokio::test(start_paused = true)]
async fn a_redis_that_is_down_is_told_and_comes_back() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let client = server.client().await.unwrap();
    server.stop();
    assert_eq!(pay(&client, 42, bank.charge()).await, Outcome::TryLater);
    server.start();
    assert_eq!(pay(&client, 42, bank.charge()).await, Outcome::Paid(1));
}

#[tokio::test(start_paused = true)]
async fn a_redis_that_hangs_stops_a_payment_before_the_lease_ends() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let client = server.client().await.unwrap();
    let begun = Instant::now();
    let charge = async {
        server.stall();
        bank.charge().await
    };
    assert_eq!(pay(&client, 42, charge).await, Outcome::Look);
    assert!(begun.elapsed() < Duration::from_secs(30 + 10), "{:?}", begun.elapsed());
    assert_eq!(bank.charged(), 0);
    server.resume();
}

#[tokio::test(start_paused = true)]
async fn a_redis_without_memory_is_told() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let client = server.client().await.unwrap();
    server.refuse(Refusal::OutOfMemory);
    assert_eq!(pay(&client, 42, bank.charge()).await, Outcome::TryLater);
    server.accept();
    assert_eq!(pay(&client, 42, bank.charge()).await, Outcome::Paid(1));
}

/// The charge counts, though the answer to the release never comes.
#[tokio::test(start_paused = true)]
async fn a_lost_answer_does_not_undo_a_payment() {
    let (server, bank) = (TestServer::new(), Bank::default());
    let client = server.client().await.unwrap();
    let charge = async {
        let receipt = bank.charge().await;
        server.lose_replies(1);
        receipt
    };
    assert_eq!(pay(&client, 42, charge).await, Outcome::Paid(1));
    assert_eq!(server.holders("order:42"), [""; 0]);
}
