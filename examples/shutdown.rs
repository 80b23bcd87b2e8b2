//! Ends a service cleanly: no lock of it stays held until its lease ends.
//!
//! `cargo run --example shutdown`, with a Redis server on this machine or its URL in `REDIS_URL`.
//! It ends on Ctrl-C, or after 3 s.

use std::time::Duration;

use redisson_lock::{Client, Config, Error};
use tokio::time::sleep;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = Client::connect(Config::from_url(url)?).await?;

    let workers: Vec<_> = (1..=3)
        .map(|worker| {
            let lock = client.lock("one-at-a-time");
            tokio::spawn(async move {
                loop {
                    let guard = lock.lock().await?;
                    println!("worker {worker} holds the lock");
                    sleep(Duration::from_millis(400)).await;
                    drop(guard); // does not wait: the release is sent in the background
                }
                #[allow(unreachable_code)]
                Ok::<(), Error>(())
            })
        })
        .collect();

    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        () = sleep(Duration::from_secs(3)) => {}
    }
    // A future may be dropped anywhere: what it acquired, or may still acquire, is released.
    for worker in &workers {
        worker.abort();
    }
    for worker in workers {
        let _ = worker.await;
    }
    client.close().await?; // waits until all of that has reached the server
    println!("everything is released");
    Ok(())
}
