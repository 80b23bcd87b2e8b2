//! What is left on the servers when all have gone.

use std::time::Duration;

use harness::{queue_key, token_key};
use judge::{Kind, Left};
use tokio::time::{Instant, sleep};

use crate::world::World;

/// Where sentinels talk to each other.
const SENTINELS: &str = "__sentinel__:hello";

/// Waits until nothing is left but what stays by design, for as long as leases may last; what is left then.
pub(crate) async fn behind(world: &World) -> Vec<Left> {
    let options = &world.options;
    let longest = [
        options.watchdog_ms,
        options.lease_ms + 100,
        options.fair_wait_ms,
        options.redisson_fair_wait_ms,
    ];
    let limit = longest.into_iter().max().unwrap_or(0) + options.retry_timeout_ms + 3_000;
    let until = Instant::now() + Duration::from_millis(limit);
    loop {
        let left = now(world);
        if left.is_empty() || Instant::now() >= until {
            return left;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

fn now(world: &World) -> Vec<Left> {
    let mut stays: Vec<String> = vec![SENTINELS.into()];
    for (name, kinds) in &world.options.names {
        if kinds.contains(&Kind::Fenced) {
            stays.push(token_key(name));
        }
        // The waiters of who was killed: the next one who asks removes them.
        if kinds.iter().any(|kind| kind.is_fair()) {
            stays.push(queue_key(name));
            stays.push(harness::deadlines_key(name));
        }
    }
    tokio::task::block_in_place(|| {
        let inspector = world.stage.servers().inspector();
        let names = inspector.keys().into_iter().chain(inspector.channels());
        let left = names.filter(|name| !stays.contains(name));
        left.map(|key| Left { server: world.stage.label(&key), key }).collect()
    })
}
