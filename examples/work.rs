//! Runs fallible work under a lock, and tells apart what may have gone wrong with the work, the lock and the server.
//!
//! `cargo run --example work`, with a Redis server on this machine or its URL in `REDIS_URL`.

use std::{io, time::Duration};

use redisson_lock::{Client, Config, Error, Guard, RedisErrorKind, RunError};
use tokio::time::{sleep, timeout};

async fn pay(order: u64) -> Result<u64, io::Error> {
    sleep(Duration::from_millis(100)).await;
    if order == 43 { Err(io::Error::other("the card is refused")) } else { Ok(order * 100) }
}

/// For guards of every type.
async fn pay_under(guard: impl Guard, order: u64) {
    match guard.run(pay(order)).await {
        Ok(receipt) => println!("{order}: paid, receipt {receipt}"),
        Err(RunError::NotBegun { why }) => println!("{order}: not paid, try again: {why}"),
        Err(RunError::Failed(error)) => println!("{order}: not paid: {error}"),
        Err(RunError::ReleaseUnconfirmed { output: Ok(receipt), error }) => {
            println!("{order}: paid, receipt {receipt}; the lock may be held for a while: {error}")
        }
        // It may have run beside another holder's work.
        Err(error) => println!("{order}: look whether it was paid: {error}"),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = match Client::connect(Config::from_url(url)?).await {
        Ok(client) => client,
        Err(Error::Redis(error)) if error.kind() == RedisErrorKind::Unreachable => {
            println!("start a Redis server, or set REDIS_URL: {error}");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };

    // An acquisition without an owner borrows nothing, so it may be spawned.
    let plain = tokio::spawn(client.lock("order:42").lock().into_future());
    let fenced = tokio::spawn(client.fenced_lock("order:43").lock().into_future());
    pay_under(plain.await??, 42).await;
    pay_under(fenced.await??, 43).await;

    // A shorter bound for a release: it goes on in the background.
    let guard = client.lock("order:44").lock().await?;
    match timeout(Duration::from_millis(500), guard.unlock()).await {
        Ok(unlocked) => unlocked?,
        Err(_) => println!("the release is not confirmed yet"),
    }
    client.close().await?;
    Ok(())
}
