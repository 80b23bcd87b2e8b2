//! Take a lock, work, give it back.
//!
//! `cargo run --example quickstart`, with a Redis on this machine or `REDIS_URL` set.

use redisson_lock::{Client, Config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = Client::connect(Config::from_url(url)?).await?;
    let lock = client.lock("order:42"); // in Java: redisson.getLock("order:42")

    let guard = lock.lock().await?; // waits; renewed while the guard lives
    println!("locked as {}", guard.holder());
    println!("a look from outside: {:?}", lock.inspect().await?);
    guard.unlock().await?; // says if the lock had been lost meanwhile

    println!("locked now: {}", lock.is_locked().await?);
    client.close().await?;
    Ok(())
}
