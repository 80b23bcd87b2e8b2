//! Takes a lock from threads, without async code. The owner of a hold is its thread.
//!
//! `cargo run --example blocking`, with a Redis server on this machine or its URL in `REDIS_URL`.

use std::{thread, time::Duration};

use redisson_lock::{
    Config, Error,
    blocking::{Client, Lock},
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = Client::connect(Config::from_url(url)?)?;
    let account = client.lock("account:7");

    thread::scope(|scope| {
        let account = &account;
        let clerks: Vec<_> =
            (1..=3).map(|clerk| scope.spawn(move || transfer(account, clerk))).collect();
        clerks.into_iter().try_for_each(|clerk| clerk.join().expect("no panic"))
    })?;

    println!("locked at the end: {}", account.is_locked()?);
    client.close()?; // waits for the releases of dropped guards
    Ok(())
}

fn transfer(account: &Lock, clerk: u32) -> Result<(), Error> {
    let guard = account.lock().run()?; // waits for the other threads
    println!("clerk {clerk} holds it {} time(s)", guard.hold_count());
    thread::sleep(Duration::from_millis(200)); // the client's own thread renews the hold
    audit(account, clerk)?;
    guard.unlock() // tells if the hold was lost
}

fn audit(account: &Lock, clerk: u32) -> Result<(), Error> {
    let guard = account.lock().run()?; // the same thread re-enters
    println!("clerk {clerk} holds it {} time(s)", guard.hold_count());
    guard.unlock()
}
