//! Acquires a lock, works, and releases the lock.
//!
//! `cargo run --example quickstart`, with a Redis server on this machine or its URL in `REDIS_URL`.

use redisson_lock::{Client, Config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = Client::connect(Config::from_url(url)?).await?;
    let lock = client.lock("order:42"); // in Java: redisson.getLock("order:42")

    let guard = lock.lock().await?; // waits; renewed while the guard lives
    println!("locked as {}", guard.holder());
    println!("the server says: {:?}", lock.inspect().await?);
    guard.unlock().await?; // fails if the lock was lost meanwhile

    println!("locked now: {}", lock.is_locked().await?);
    client.close().await?;
    Ok(())
}
