//! How long a message takes.

use std::time::Duration;

use redisson_lock::{Client, Config, servers::Names};
use tokio::time::{Instant, sleep, timeout};

use super::finding::{Finding, judge};
use crate::duration::shown;

/// A message that takes longer deserves a look.
const ROUND_TRIP: Duration = Duration::from_millis(500);

/// How long a message may take. A waiter that listens looks by itself every 3 s, another one every 0.25 s.
const MESSAGE: Duration = Duration::from_secs(10);

/// A waiter that does not listen is as fast as a message, with luck.
const UNKNOWN: &str = "who listens cannot be asked: check the rights to `PUBSUB NUMSUB`, in a cluster with \
                       sharded channels to `PUBSUB SHARDNUMSUB`, and those for channels \
                       (docs/operations.md)";

/// How long a release takes to wake a waiter of another process.
pub(super) async fn round_trip(client: &Client, config: &Config, name: &str) -> Finding {
    let check = "messages";
    let advice = "waiters are woken late, or only by their own looks: check the rights for channels \
                  (docs/operations.md) and the network";
    let judged = |value, error| {
        let (verdict, advice) = judge(error);
        Finding::new("all", check, value).judged(true, verdict, advice)
    };
    let held = match client.lock(name).lock().lease(3 * MESSAGE).await {
        Ok(held) => held,
        Err(error) => return judged(error.to_string(), &error),
    };
    let other = match Client::connect(config.clone()).await {
        Ok(other) => other,
        Err(error) => {
            let _ = held.unlock().await;
            return judged(format!("a second client: {error}"), &error);
        }
    };
    let lock = other.lock(name);
    let waiter = tokio::spawn(async move {
        let guard = lock.try_lock().wait(MESSAGE).await;
        (Instant::now(), guard)
    });
    let listened = listens(client, config, name).await;
    let freed = Instant::now();
    let released = held.unlock().await;
    let finding = match (released, waiter.await) {
        (Ok(()), Ok((at, Ok(Some(guard))))) => {
            let _ = guard.unlock().await;
            let took = at - freed;
            let (how, advice) = match listened {
                Some(true) => ("", advice),
                Some(false) => (", without a message", advice),
                None => (", perhaps without a message", UNKNOWN),
            };
            let value = format!("{}{how}", shown(took));
            Finding::new("all", check, value)
                .warn_if(listened != Some(true) || took > ROUND_TRIP, advice)
        }
        (Err(error), _) | (_, Ok((_, Err(error)))) => {
            Finding::new("all", check, error.to_string()).bad_if(true, advice)
        }
        _ => Finding::new("all", check, "none came").bad_if(true, advice),
    };
    let _ = timeout(Duration::from_secs(2), other.close()).await;
    finding
}

/// Waits until the waiter has subscribed, for a while. Whether it has; `None`: that could not be asked.
async fn listens(client: &Client, config: &Config, name: &str) -> Option<bool> {
    let key = format!("{}{name}", config.get_prefix());
    let channel = Names::of(&key).channel;
    for _ in 0..100 {
        let server = client.server_of(&key)?;
        let count: &[u8] = if server.is_sharded() { b"SHARDNUMSUB" } else { b"NUMSUB" };
        match server.command("PUBSUB", &[count, channel.as_bytes()]).await {
            Ok(reply) if reply.parts().get(1).and_then(|n| n.int()) == Some(1) => {
                return Some(true);
            }
            Ok(_) => sleep(Duration::from_millis(20)).await,
            Err(_) => {
                // The waiter has had its time by then.
                sleep(Duration::from_millis(500)).await;
                return None;
            }
        }
    }
    Some(false)
}
