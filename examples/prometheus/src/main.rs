//! `cargo run -p prometheus`, then `curl http://127.0.0.1:9000/metrics`. `REDIS_URL` names the server, `METRICS_ADDRESS` the
//! address of the page.

use std::{env, error::Error};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let redis = env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    let address = env::var("METRICS_ADDRESS").unwrap_or_else(|_| "127.0.0.1:9000".into());
    prometheus::export(address.parse()?)?;
    println!("metrics at http://{address}/metrics");
    Ok(prometheus::shop(&redis).await?)
}
