//! One name as several locks: beside a JVM that takes the segments by `getLock(name + ":" + i)`, from
//! several processes, in a cluster, and behind a server that goes down.

mod cluster;
mod crowd;
mod down;
mod java;

use std::time::Duration;

use redisson_lock::{Client, Config, SegmentedLock};

const NAME: &str = "stock:42";
const SEGMENTS: usize = 4;

/// Longer than a waiter may sleep, with slack for a busy machine.
const PROMPT: Duration = Duration::from_secs(10);

async fn connect(url: impl Into<String>) -> Client {
    Client::connect(Config::from_url(url).unwrap()).await.unwrap()
}

fn stock(client: &Client) -> SegmentedLock {
    client.segmented(NAME, SEGMENTS)
}
