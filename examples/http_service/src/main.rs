//! `cargo run --package http_service`, with a Redis server on this machine or its URL in `REDIS_URL`. Then
//! `curl -X POST http://127.0.0.1:3000/orders/42/pay`. It ends on Ctrl-C.

use std::{error::Error, time::Duration};

use http_service::Service;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let service = Service::connect(&url, Duration::from_millis(500)).await?;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:3000").await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, service.router())
        .with_graceful_shutdown(async { drop(tokio::signal::ctrl_c().await) })
        .await?;
    // Every request has been answered. Without this, a lock may stay held until its lease ends.
    service.client.close().await?;
    Ok(())
}
