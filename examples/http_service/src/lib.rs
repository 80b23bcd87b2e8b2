//! `POST /orders/{id}/pay` pays an order, one payment at a time. The lock `order:{id}` is the one that
//! the Java service beside it takes by `redisson.getLock("order:" + id)`.
//!
//! | answer | when |
//! |---|---|
//! | 200 | the order is paid |
//! | 409 | another payment of the order went on for 2 s |
//! | 503 | Redis does not answer: nothing was paid |
//! | 500 | the lock was lost during the payment: whether it was paid has to be looked up |

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{StatusCode, header::RETRY_AFTER},
    response::{IntoResponse, Response},
    routing::post,
};
use redisson_lock::{Client, Config, Error};
use serde::Serialize;
use tokio::time::sleep;

/// How long a caller waits for another payment.
pub const WAIT: Duration = Duration::from_secs(2);

/// What the handlers share.
#[derive(Clone, Debug)]
pub struct Service {
    pub client: Client,
    /// How long a payment takes.
    pub work: Duration,
    payments: Arc<Mutex<HashMap<String, u32>>>,
}

#[derive(Debug, Serialize)]
struct Paid {
    order: String,
    /// How many times it was paid, this one included.
    payments: u32,
}

/// Why an order was not paid.
#[derive(Debug)]
enum Refusal {
    Busy,
    Lock(Error),
}

impl Service {
    /// # Errors
    /// The URL cannot be used, or Redis does not answer.
    pub async fn connect(url: &str, work: Duration) -> Result<Self, Error> {
        // A caller of this service does not wait longer than these for a Redis that is away.
        let config = Config::from_url(url)?
            .command_timeout(Duration::from_secs(1))
            .retry_timeout(Duration::from_secs(2));
        Ok(Self { client: Client::connect(config).await?, work, payments: Arc::default() })
    }

    pub fn router(&self) -> Router {
        Router::new().route("/orders/{id}/pay", post(pay)).with_state(self.clone())
    }

    async fn book(&self, order: &str) -> u32 {
        sleep(self.work).await;
        let mut payments = self.payments.lock().expect("the payments");
        let count = payments.entry(order.to_owned()).or_default();
        *count += 1;
        *count
    }
}

/// A caller that goes away drops this future: the lock is released in the background.
async fn pay(
    State(service): State<Service>,
    Path(order): Path<String>,
) -> Result<Json<Paid>, Refusal> {
    let lock = service.client.lock(format!("order:{order}"));
    let guard = lock.try_lock().wait(WAIT).await?.ok_or(Refusal::Busy)?;
    let payments = guard.while_held(service.book(&order)).await?;
    // Whether or not the release is confirmed, the order is paid.
    drop(guard);
    Ok(Json(Paid { order, payments }))
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::Lock(error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let later = [(RETRY_AFTER, "2")];
        match self {
            Self::Busy => (StatusCode::CONFLICT, later, "another payment goes on").into_response(),
            Self::Lock(error @ Error::NotHeld { .. }) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}: look up the order"))
                    .into_response()
            }
            Self::Lock(error) => {
                // The text names servers: it is for the log, not for callers.
                eprintln!("{error}");
                (StatusCode::SERVICE_UNAVAILABLE, later, "try again later").into_response()
            }
        }
    }
}
