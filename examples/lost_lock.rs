//! Stops the work under a lock when the lock is lost.
//!
//! `cargo run --example lost_lock`, with a Redis server on this machine or its URL in `REDIS_URL`.

use std::time::Duration;

use redisson_lock::{Client, Config, Error};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    // A short watchdog: renewals every half second find the loss soon.
    let config = Config::from_url(url)?.watchdog(Duration::from_millis(1500));
    let client = Client::connect(config).await?;
    let lock = client.lock("import");

    let guard = lock.lock().await?;
    let operator = tokio::spawn({
        let lock = lock.clone();
        async move {
            sleep(Duration::from_millis(700)).await;
            println!("an operator frees the lock: {:?}", lock.force_unlock().await);
        }
    });

    let work = async {
        for line in 1.. {
            println!("importing line {line}");
            sleep(Duration::from_millis(200)).await;
        }
    };
    match guard.while_held(work).await {
        Err(Error::NotHeld { why }) => println!("stopped: {why}"),
        other => println!("{other:?}"),
    }
    operator.await?;
    client.close().await?;
    Ok(())
}
