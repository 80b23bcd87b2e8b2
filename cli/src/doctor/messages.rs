//! How long a message takes.

use std::time::Duration;

use redisson_lock::{Client, Config, servers::Names};
use tokio::time::{Instant, sleep, timeout};

use super::finding::{Finding, judge};
use crate::{connection::connect, duration::shown, outcome::Failure};

/// A message that takes longer deserves a look.
const ROUND_TRIP: Duration = Duration::from_millis(500);

/// How long a message may take. Waiters look by themselves every 3 s.
const MESSAGE: Duration = Duration::from_secs(10);

/// How long a release takes to wake a waiter of another process.
pub(super) async fn round_trip(
    client: &Client,
    config: &Config,
    name: &str,
) -> Result<Finding, Failure> {
    let check = "messages";
    let advice = "waiters are woken late, or only by their own looks: check the rights for channels (docs/operations.md) and the network";
    let held = match client.lock(name).lock().lease(3 * MESSAGE).await {
        Ok(held) => held,
        Err(error) => {
            let (verdict, advice) = judge(&error);
            return Ok(Finding::new("all", check, error.to_string()).judged(true, verdict, advice));
        }
    };
    let other = connect(config).await?;
    let lock = other.lock(name);
    let waiter = tokio::spawn(async move {
        let guard = lock.try_lock().wait(MESSAGE).await;
        (Instant::now(), guard)
    });
    listens(client, config, name).await;
    let freed = Instant::now();
    let released = held.unlock().await;
    let finding = match (released, waiter.await) {
        (Ok(()), Ok((at, Ok(Some(guard))))) => {
            let _ = guard.unlock().await;
            let took = at - freed;
            Finding::new("all", check, shown(took)).warn_if(took > ROUND_TRIP, advice)
        }
        (Err(error), _) | (_, Ok((_, Err(error)))) => {
            Finding::new("all", check, error.to_string()).bad_if(true, advice)
        }
        _ => Finding::new("all", check, "none came").bad_if(true, advice),
    };
    let _ = timeout(Duration::from_secs(2), other.close()).await;
    Ok(finding)
}

/// Waits until the waiter has subscribed, for a while.
async fn listens(client: &Client, config: &Config, name: &str) {
    let key = format!("{}{name}", config.get_prefix());
    let channel = Names::of(&key).channel;
    for _ in 0..100 {
        let Some(server) = client.server_of(&key) else { return };
        let count: &[u8] = if server.is_sharded() { b"SHARDNUMSUB" } else { b"NUMSUB" };
        match server.command("PUBSUB", &[count, channel.as_bytes()]).await {
            Ok(reply) if reply.parts().get(1).and_then(|n| n.int()) == Some(1) => return,
            Ok(_) => sleep(Duration::from_millis(20)).await,
            // It may not ask: the waiter has had its time by then.
            Err(_) => return sleep(Duration::from_millis(500)).await,
        }
    }
}
