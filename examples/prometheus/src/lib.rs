//! A small shop whose locks are seen from outside: two clients contend for a few locks, and a page for Prometheus shows what
//! happens to them.

use std::{error::Error, net::SocketAddr, time::Duration};

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};
use redisson_lock::{Client, Config, metrics::MetricsObserver};
use tokio::{task::JoinSet, time::sleep};

/// Upper bounds of the histograms, in seconds: from a local hand-off to the longest lease.
const BUCKETS: [f64; 13] =
    [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Those of what is left of a hold when it is renewed, in seconds. They are fine around the limit of the alert: a quantile is
/// interpolated between two bounds.
const MARGINS: [f64; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0];

/// Serves the page at `http://<address>/metrics`. Call it before the first [`MetricsObserver`] is made.
pub fn export(address: SocketAddr) -> Result<(), Box<dyn Error>> {
    PrometheusBuilder::new()
        .with_http_listener(address)
        // Appends the unit to the names of histograms, and `_total` to those of counters.
        .with_recommended_naming(true)
        .set_buckets_for_metric(Matcher::Prefix("redisson_lock".into()), &BUCKETS)?
        // The whole name goes before the prefix.
        .set_buckets_for_metric(Matcher::Full("redisson_lock.renewal.margin".into()), &MARGINS)?
        .install()?;
    Ok(())
}

/// Works on the server at `redis` until the future is dropped.
pub async fn shop(redis: &str) -> Result<(), redisson_lock::Error> {
    // A short watchdog, so that renewals are seen soon.
    let config = Config::from_url(redis)?.watchdog(Duration::from_secs(3));
    let config = config.retry_timeout(Duration::from_secs(2)).observer(MetricsObserver::new());
    // As if there were two processes.
    let (front, back) = (Client::connect(config.clone()).await?, Client::connect(config).await?);
    let mut tasks = JoinSet::new();
    for client in [&front, &back] {
        for n in 0..6 {
            tasks.spawn(buyers(client.clone(), n));
        }
        tasks.spawn(readers(client.clone()));
        tasks.spawn(accountant(client.clone()));
    }
    tasks.spawn(operator(back.clone()));
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no task panics");
    }
    Ok(())
}

/// Each order has a lock of its own. All have one label: `order:*`.
async fn buyers(client: Client, seed: u64) {
    for n in 0.. {
        let lock = client.lock(format!("order:{}", 1000 + (n * 7 + seed) % 4));
        match lock.try_lock().wait(Duration::from_millis(40)).await {
            Ok(Some(guard)) => {
                sleep(Duration::from_millis(3 + seed * 2)).await;
                let _ = guard.unlock().await;
            }
            Ok(None) => {}
            Err(error) => eprintln!("order: {error}"),
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn readers(client: Client) {
    let catalog = client.read_write_lock("catalog");
    for n in 0_u64.. {
        let guard = match n % 20 {
            0 => catalog.write().await,
            _ => catalog.read().await,
        };
        match guard {
            Ok(guard) => {
                sleep(Duration::from_millis(10)).await;
                let _ = guard.unlock().await;
            }
            Err(error) => eprintln!("catalog: {error}"),
        }
    }
}

/// Works for so long that its hold is renewed.
async fn accountant(client: Client) {
    loop {
        match client.fair_lock("report").lock().await {
            Ok(guard) => {
                let _ = guard.while_held(sleep(Duration::from_millis(2_500))).await;
                let _ = guard.unlock().await;
            }
            Err(error) => eprintln!("report: {error}"),
        }
    }
}

/// Frees the report now and then, whoever has it: a loss.
async fn operator(client: Client) {
    loop {
        sleep(Duration::from_secs(7)).await;
        let _ = client.fair_lock("report").force_unlock().await;
    }
}
