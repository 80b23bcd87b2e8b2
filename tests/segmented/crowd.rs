//! Many callers of several clients at few segments.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::SeqCst},
};

use harness::{RedisServer, assert_nothing_left};
use tokio::{task::JoinSet, time::timeout};

use crate::{PROMPT, SEGMENTS, connect, stock};

/// In each segment.
const STOCK: u32 = 100;

/// A segment of a stock, and who is at it.
#[derive(Default)]
struct Shelf {
    sold: AtomicU32,
    inside: AtomicU32,
}

impl Shelf {
    async fn sell(&self) -> bool {
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "two at one segment");
        let sold = self.sold.load(SeqCst);
        tokio::task::yield_now().await;
        let is_left = sold < STOCK;
        self.sold.store(sold + u32::from(is_left), SeqCst);
        self.inside.fetch_sub(1, SeqCst);
        is_left
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_sells_each_segment_to_the_end_and_no_more() {
    let server = RedisServer::start();
    let shelves: Arc<[Shelf]> = (0..SEGMENTS).map(|_| Shelf::default()).collect();
    let clients = [connect(server.url()).await, connect(server.url()).await];
    let mut sellers = JoinSet::new();
    for seller in 0..16 {
        let (stock, shelves) = (stock(&clients[seller % 2]), shelves.clone());
        sellers.spawn(async move {
            let mut sold = 0;
            let mut any = stock.any().starting_at(seller % SEGMENTS);
            while !any.is_empty() {
                let guard = any.lock().await.unwrap();
                match shelves[guard.segment()].sell().await {
                    true => sold += 1,
                    false => any = any.except([guard.segment()]),
                }
                guard.unlock().await.unwrap();
            }
            sold
        });
    }
    let sold = timeout(12 * PROMPT, sellers.join_all()).await.expect("nobody sleeps for ever");
    assert_eq!(sold.iter().sum::<u32>(), STOCK * SEGMENTS as u32, "{sold:?}");
    assert!(shelves.iter().all(|shelf| shelf.sold.load(SeqCst) == STOCK));
    for client in clients {
        client.close().await.unwrap();
    }
    assert_nothing_left(&server).await;
}
