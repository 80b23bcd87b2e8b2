//! Two callers that list the same locks in opposite orders, without a deadlock.
//!
//! `cargo run --example multi_lock`, with a Redis server on this machine or its URL in `REDIS_URL`.

use std::time::Duration;

use redisson_lock::{Client, Config, Error, MultiLock};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = Client::connect(Config::from_url(url)?).await?;
    let transfer = async |from: &str, to: &str| -> Result<(), Error> {
        let accounts =
            MultiLock::all([from, to].map(|name| client.lock(format!("account:{name}"))));
        for _ in 0..3 {
            let guard = accounts.lock().lease(Duration::from_secs(10)).await?;
            println!("{from} -> {to}: holds {} locks", guard.held_members());
            tokio::time::sleep(Duration::from_millis(20)).await;
            guard.unlock().await?;
        }
        Ok(())
    };
    tokio::try_join!(transfer("ann", "bob"), transfer("bob", "ann"))?;
    client.close().await?;
    Ok(())
}
