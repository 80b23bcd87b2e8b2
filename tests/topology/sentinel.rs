//! Behind sentinels.

use std::time::Duration;

use harness::{Lang, Sentinel};

use crate::failover::{a_master_dies_before_its_replicas_hear_of_a_hold, masters_are_killed};
use crate::mixes;

const DOWN_AFTER: Duration = Duration::from_secs(1);

mixes! {
    a_master_is_killed_under_contention;
    a_hold_is_lost_unless_replicas_confirmed_it;
}

async fn a_master_is_killed_under_contention(langs: [Lang; 2]) {
    masters_are_killed(start(), langs).await;
}

async fn a_hold_is_lost_unless_replicas_confirmed_it(langs: [Lang; 2]) {
    a_master_dies_before_its_replicas_hear_of_a_hold(start, langs).await;
}

fn start() -> Sentinel {
    Sentinel::builder().down_after(DOWN_AFTER).start()
}
