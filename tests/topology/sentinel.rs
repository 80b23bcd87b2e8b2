//! Behind sentinels.

use std::time::Duration;

use harness::{Lang, Sentinel, assert_nothing_left};

use crate::contest::{BEFORE, Contest};
use crate::mixes;

const DOWN_AFTER: Duration = Duration::from_secs(1);
/// Until a replica is made master, and the peers have found it.
const FAILOVER: Duration = Duration::from_secs(12);

mixes! {
    a_master_is_killed_under_contention;
}

async fn a_master_is_killed_under_contention(langs: [Lang; 2]) {
    let mut sentinel = Sentinel::builder().down_after(DOWN_AFTER).start();
    let Some(contest) = Contest::new(&sentinel, langs).await else { return };
    let lost = sentinel.master();
    let contended = contest.run("lock", "lock", BEFORE + FAILOVER);
    let (count, ()) = tokio::join!(contended, async {
        tokio::time::sleep(BEFORE).await;
        sentinel.kill(lost);
        sentinel.failed_over(lost).await;
    });
    println!("{langs:?}: {count:#?}");
    count.assert_exclusive();
    // All is as ever with the new master.
    let after = contest.run("lock", "lock", BEFORE).await;
    after.assert_exclusive();
    after.assert_undisturbed();
    assert_nothing_left(&sentinel).await;
}
