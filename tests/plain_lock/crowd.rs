//! Many owners of two processes count under one plain lock: no addition is lost.

use std::time::Duration;

use harness::{Lang, Load, redis::cmd};

use crate::{Stage, mixes};

mixes! {
    every_addition_counts;
}

const UNTIL: u64 = 200;

async fn every_addition_counts(test: &str, langs: [Lang; 2]) {
    let Some(stage) = Stage::of(test, langs).await else { return };
    count_together(&stage).await;
}

pub(crate) async fn count_together(stage: &Stage) {
    let [one, other] = stage.owners("lock:product:1");
    let load = Load::new(4, Duration::from_secs(60)).counter("sold").until(UNTIL);
    let (one, other) = tokio::join!(one.run(&load), other.run(&load));
    assert_eq!((one.errors, other.errors), (0, 0));
    assert_eq!(one.counted + other.counted, UNTIL, "{} and {}", one.counted, other.counted);
    let sold: u64 = stage.counters.inspector().query(cmd("GET").arg("sold"));
    assert_eq!(sold, UNTIL);
}
