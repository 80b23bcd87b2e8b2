//! The last line of a test: nothing is left on the server.

use std::time::{Duration, Instant};

use crate::inspect::Inspector;
use crate::servers::Servers;

/// Some of it goes by itself: a subscription is given back after the answer, a latch key right behind the unlock.
const SETTLE: Duration = Duration::from_secs(3);

/// Redisson's own, with a TTL. Redisson removes it behind its unlock, unless it is killed or cut off before. This crate has none.
const LATCH: &str = "redisson_unlock_latch:";

/// This crate's own, with a TTL: the ids of the last requests to a semaphore or a latch.
const REQUESTS: &str = "redisson_lock_requests:";

/// This crate's own, with a TTL: the last questions to holders of a lock.
const ASKED: &str = "redisson_lock_asked:";

/// Where sentinels talk to each other.
const SENTINELS: &str = "__sentinel__:hello";

/// No key in any database and no channel with a listener, now or within three seconds. A latch of Redisson's unlock, the
/// ids of requests, and questions to holders may be left if they have a TTL.
///
/// # Panics
/// When something is left; the message says what.
pub async fn assert_nothing_left(servers: &dyn Servers) {
    assert_nothing_left_where(servers, |_| true).await;
}

/// The same, within this time.
///
/// # Panics
/// When something is left; the message says what.
pub async fn assert_nothing_left_within(servers: &dyn Servers, limit: Duration) {
    assert_none_left_within(servers, limit, |_| true).await;
}

/// The same, but for the keys and channels named.
///
/// # Panics
/// When something else is left; the message says what.
pub async fn assert_nothing_left_but(servers: &dyn Servers, expected: &[&str]) {
    assert_nothing_left_where(servers, |name| !expected.contains(&name)).await;
}

/// The same on a server shared by tests, for the keys and channels that are `ours`.
///
/// # Panics
/// When something of ours is left; the message says what.
pub async fn assert_nothing_left_where(servers: &dyn Servers, ours: impl Fn(&str) -> bool) {
    assert_none_left_within(servers, SETTLE, ours).await;
}

async fn assert_none_left_within(
    servers: &dyn Servers,
    limit: Duration,
    ours: impl Fn(&str) -> bool,
) {
    let inspector = servers.inspector();
    let started = Instant::now();
    loop {
        let left = leftovers(&inspector, &ours);
        if left.is_empty() {
            return;
        }
        assert!(
            started.elapsed() < limit,
            "left on the server after {limit:?}:\n  {}\nwho listens:\n  {}",
            left.join("\n  "),
            inspector.listeners().join("\n  ")
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn leftovers(inspector: &Inspector, ours: impl Fn(&str) -> bool) -> Vec<String> {
    let keys = inspector.keys().into_iter().filter(|key| ours(key)).filter_map(|key| {
        let ttl = inspector.pttl(&key);
        let may_end_by_itself = [LATCH, REQUESTS, ASKED].iter().any(|own| key.starts_with(own));
        let ends_by_itself = may_end_by_itself && ttl != -1;
        (!ends_by_itself).then(|| format!("key {key:?} with {ttl} ms to live"))
    });
    let left = |channel: &String| channel != SENTINELS && ours(channel);
    let channels = inspector.channels().into_iter().filter(left).map(|channel| {
        let listeners = inspector.subscribers(&channel);
        format!("channel {channel:?} with {listeners} listeners")
    });
    keys.chain(channels).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::RedisServer;

    #[tokio::test]
    async fn an_empty_server_passes_at_once() {
        let started = Instant::now();
        assert_nothing_left(&RedisServer::start()).await;
        assert!(started.elapsed() < SETTLE);
    }

    #[tokio::test]
    async fn what_goes_in_time_is_not_left() {
        let server = RedisServer::start();
        redis::cmd("SET").arg("late").arg(1).arg("PX").arg(200).exec(&mut server.client()).unwrap();
        assert_nothing_left(&server).await;
    }

    #[tokio::test]
    async fn a_latch_is_redissons_if_it_ends_by_itself() {
        let server = RedisServer::start();
        let latch = format!("{LATCH}{{lock}}:1");
        redis::cmd("SET").arg(&latch).arg(1).arg("EX").arg(60).exec(&mut server.client()).unwrap();
        assert_nothing_left(&server).await;
    }

    #[tokio::test]
    #[should_panic(expected = "redisson_unlock_latch")]
    async fn a_latch_that_stays_is_told() {
        let server = RedisServer::start();
        redis::cmd("SET").arg(format!("{LATCH}1")).arg(1).exec(&mut server.client()).unwrap();
        assert_nothing_left(&server).await;
    }

    #[tokio::test]
    #[should_panic(expected = "key \"forgotten\"")]
    async fn a_key_is_told() {
        let server = RedisServer::start();
        redis::cmd("SET").arg("forgotten").arg(1).exec(&mut server.client()).unwrap();
        redis::cmd("SET").arg("expected").arg(1).exec(&mut server.client()).unwrap();
        assert_nothing_left_but(&server, &["expected"]).await;
    }
}
