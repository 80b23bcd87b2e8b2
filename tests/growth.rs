//! A client keeps nothing of locks that are no longer used.
//!
//! This is a program of its own, because it measures its own memory.

use std::{fs, ops::Range, time::Duration};

use futures::future::join_all;
use harness::{RedisServer, assert_nothing_left};
use redisson_lock::{Client, Config};
use tokio::time::timeout;

/// Locks of a name that was never used before: `GROWTH_NAMES=1000000` takes more than the default.
fn names() -> usize {
    std::env::var("GROWTH_NAMES").map_or(20_000, |names| names.parse().expect("a number"))
}

/// What the process has in memory, in bytes.
fn resident() -> Option<usize> {
    let pages: usize =
        fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

/// Each of these locks is taken, waited for by another, passed on and released.
async fn use_up(client: &Client, names: Range<usize>) {
    let task = |part: usize| {
        let (client, names) = (client.clone(), names.clone());
        tokio::spawn(async move {
            for name in names.skip(part).step_by(64) {
                let lock = client.lock(format!("once:{name}"));
                let guard = lock.lock().await.unwrap();
                let next = lock.lock().into_future();
                let release = guard.unlock();
                let (next, released) = tokio::join!(next, release);
                released.unwrap();
                next.unwrap().unlock().await.unwrap();
            }
        })
    };
    join_all((0..64).map(task)).await.into_iter().for_each(Result::unwrap);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_are_not_used_any_more_are_forgotten() {
    let server = RedisServer::start();
    let client = Client::connect(Config::from_url(server.url()).unwrap()).await.unwrap();
    let names = names();
    let limit = Duration::from_secs(60) + Duration::from_millis(names as u64);
    timeout(limit, use_up(&client, 0..names / 2)).await.expect("the first half");
    let before = resident();
    timeout(limit, use_up(&client, names / 2..names)).await.expect("the second half");
    if let (Some(before), Some(after)) = (before, resident()) {
        let grown = after.saturating_sub(before);
        println!("{} names more: {grown} bytes more", names / 2);
        // Where there are many names, a word for each would be more than this.
        assert!(grown < 4 << 20, "{grown} bytes for {} names", names / 2);
    }
    client.close().await.unwrap();
    assert_nothing_left(&server).await;
}
