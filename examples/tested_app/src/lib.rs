//! A till that charges each order once, under the lock `order:{id}`. `tests/till.rs` tests it without a Redis server. The guide is
//! `docs/testing-your-app.md`.

use std::time::Duration;

use redisson_lock::{Client, Error, RunError};

/// How long a caller waits for another payment of the same order.
pub const WAIT: Duration = Duration::from_secs(2);

/// What became of an order.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is paid, with this receipt.
    Paid(u64),
    /// The bank has declined. Nothing was paid.
    Declined,
    /// Another payment of it goes on. Nothing was paid.
    Busy,
    /// Redis does not answer, or refuses. Nothing was paid.
    TryLater,
    /// The lock was lost during the payment. Somebody has to look whether it was paid.
    Look,
}

/// The bank has declined.
#[derive(Debug)]
pub struct Declined;

/// Charges an order once.
pub async fn pay(
    client: &Client,
    order: u32,
    charge: impl Future<Output = Result<u64, Declined>>,
) -> Outcome {
    let lock = client.lock(format!("order:{order}"));
    let guard = match lock.try_lock().wait(WAIT).await {
        Ok(Some(guard)) => guard,
        Ok(None) => return Outcome::Busy,
        Err(error) => return refused(&error),
    };
    match guard.run(charge).await {
        Ok(receipt) | Err(RunError::ReleaseUnconfirmed { output: Ok(receipt), .. }) => {
            Outcome::Paid(receipt)
        }
        Err(
            RunError::Failed(Declined) | RunError::ReleaseUnconfirmed { output: Err(Declined), .. },
        ) => Outcome::Declined,
        Err(RunError::NotBegun { .. }) => Outcome::TryLater,
        Err(_) => Outcome::Look,
    }
}

fn refused(error: &Error) -> Outcome {
    eprintln!("{error}");
    Outcome::TryLater
}

/// The code of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/testing-your-app.md")]
struct Guide;
