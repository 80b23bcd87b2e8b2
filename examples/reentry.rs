//! Re-enters a lock that the owner already holds, as a thread does with Redisson's `RLock`.
//!
//! `cargo run --example reentry`, with a Redis server on this machine or its URL in `REDIS_URL`.

use redisson_lock::{Client, Config, Error, Lock, Owner};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = Client::connect(Config::from_url(url)?).await?;
    let account = client.lock("account:7");

    let mut me = client.owner();
    transfer(&account, &mut me).await?;

    println!("locked at the end: {}", account.is_locked().await?);
    client.close().await?;
    Ok(())
}

async fn transfer(account: &Lock, me: &mut Owner) -> Result<(), Error> {
    let guard = account.lock().by(me).await?;
    println!("transfer holds it {} time(s)", guard.hold_count());
    audit(account, me).await?; // takes the same lock: for another owner it would wait for ever
    println!("transfer holds it {} time(s)", guard.hold_count());
    guard.unlock().await
}

async fn audit(account: &Lock, me: &mut Owner) -> Result<(), Error> {
    let guard = account.lock().by(me).await?;
    println!("audit holds it {} time(s)", guard.hold_count());
    guard.unlock().await
}
