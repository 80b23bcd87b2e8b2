//! Acquires a lock only if it is free or becomes free in time, and holds it for a limited time.
//!
//! `cargo run --example try_lock`, with a Redis server on this machine or its URL in `REDIS_URL`.

use std::time::Duration;

use redisson_lock::{Client, Config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = Client::connect(Config::from_url(url)?).await?;
    let lock = client.lock("nightly-report");

    // Held for 2 s at most, and not renewed.
    let Some(first) = lock.try_lock().lease(Duration::from_secs(2)).await? else {
        println!("another holder makes the report");
        return Ok(());
    };
    println!("the first has it for {:?}", first.remaining());

    let at_once = lock.try_lock().await?;
    println!("another gets it at once: {}", at_once.is_some());

    // The first guard is not unlocked. Its lease ends by itself.
    let waited = lock.try_lock().wait(Duration::from_secs(5)).await?;
    println!("another gets it within 5 s: {}", waited.is_some());

    match first.unlock().await {
        Err(error) => println!("the first is told: {error}"),
        Ok(()) => println!("the first still had it"),
    }
    drop(waited);
    client.close().await?; // waits for the release of what was dropped
    Ok(())
}
