//! Clerks on real servers, one of whom is stopped for longer than its lease.

use std::{path::Path, time::Duration};

use harness::{Lang, Peer, PeerError, Servers as _, skip_or_panic};
use patterns::{
    database,
    sale::{
        Sale, Stamp, Till, tables,
        trial::{Outcome, Plan, Way, run},
    },
    stage::Stage,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_patterns");

const PLAN: Plan = Plan {
    way: Way::WithTokens,
    stock: 60,
    clerks: 2,
    pauses: 3,
    sales_in_a_pause: 4,
    lease: Duration::from_secs(1),
};

async fn trial(way: Way) -> Outcome {
    run(Path::new(PROGRAM), Plan { way, ..PLAN }).await.expect("a run")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_tokens_each_stale_sale_is_refused_and_nothing_is_oversold() {
    let outcome = trial(Way::WithTokens).await;
    assert_eq!((outcome.late, outcome.refused), (0, PLAN.pauses));
    assert_eq!(outcome.oversold(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_the_lock_alone_each_stale_sale_undoes_those_of_the_pause() {
    let outcome = trial(Way::WithLock).await;
    assert_eq!((outcome.late, outcome.refused), (PLAN.pauses, 0));
    // More, if this machine stands still for a lease more often than it is told to.
    let undone = PLAN.pauses * PLAN.clerks as u64 * PLAN.sales_in_a_pause;
    assert!(outcome.oversold() >= undone as i64, "{} oversold", outcome.oversold());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_statement_of_the_database_needs_no_lock_and_none_does_without() {
    assert_eq!(trial(Way::ByOneStatement).await.oversold(), 0);
    let undone = PLAN.pauses * PLAN.clerks as u64;
    assert!(trial(Way::WithoutLock).await.oversold() >= undone as i64);
}

fn till() -> (tempfile::TempDir, Till) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("shop.sqlite");
    database::create(&path, &tables(10)).expect("a database");
    let till = Till::open(&path, "clerk").expect("a till");
    (directory, till)
}

const fn stamp(token: u64, holder: &'static str) -> Stamp<'static> {
    Stamp { token, holder }
}

#[test]
fn a_smaller_token_is_refused_and_an_equal_one_from_another_holder() {
    let (_directory, mut till) = till();
    assert_eq!(till.enter(stamp(5, "a")).unwrap(), Some(10));
    assert_eq!(till.enter(stamp(5, "a")).unwrap(), Some(10), "the same holder again");
    assert_eq!(till.enter(stamp(5, "b")).unwrap(), None, "after a failover of Redis");
    assert_eq!(till.enter(stamp(4, "a")).unwrap(), None);
    assert_eq!(till.sell(10, stamp(5, "b")).unwrap(), Sale::Refused);
    assert_eq!(till.sell(10, stamp(4, "a")).unwrap(), Sale::Refused);
    assert_eq!(
        (till.look().unwrap(), till.sales().unwrap()),
        (10, 0),
        "refused sales leave nothing"
    );
    assert_eq!(till.sell(10, stamp(5, "a")).unwrap(), Sale::Sold);
    assert_eq!((till.look().unwrap(), till.sales().unwrap()), (9, 1));
}

/// The later holder has only read. Were the earlier one allowed to write now, the later one would undo that.
#[test]
fn a_later_holder_that_has_only_read_shuts_the_earlier_one_out() {
    let (_directory, mut till) = till();
    let early = till.enter(stamp(1, "early")).unwrap().expect("the first");
    let late = till.enter(stamp(2, "late")).unwrap().expect("the second");
    assert_eq!(till.sell(early, stamp(1, "early")).unwrap(), Sale::Refused);
    assert_eq!(till.sell(late, stamp(2, "late")).unwrap(), Sale::Sold);
    assert_eq!((till.look().unwrap(), till.sales().unwrap()), (9, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_a_redisson_was_given_is_refused_when_it_comes_late() {
    let stage = Stage::set(Path::new(PROGRAM), &tables(10)).expect("servers");
    let java = match Peer::spawn(Lang::Java, &stage.redis.peer_args()).await {
        Ok(java) => java,
        Err(PeerError::Unavailable(why)) => return skip_or_panic("a token", &why),
        Err(error) => panic!("{error}"),
    };
    let client = stage.servers().locks(Duration::from_secs(30)).await.expect("a client");
    let mut till = Till::open(&stage.database(), "clerk").expect("a till");
    let party = java.party("thread", "fenced", "till");
    party.lock().await;
    let token = party.token().await.try_into().expect("a token");
    let javas = Stamp { token, holder: "a thread in Java" };
    let unsold = till.enter(javas).unwrap().expect("the first");
    // Somebody takes it away: as if its lease had ended in a long collection of garbage.
    assert!(client.lock("till").force_unlock().await.expect("to unlock"));
    let guard = client.fenced_lock("till").lock().await.expect("the lock");
    let ours = Stamp { token: guard.token().value(), holder: guard.holder() };
    assert!(ours.token > javas.token);
    assert_eq!(till.enter(ours).unwrap(), Some(10));
    assert_eq!(till.sell(unsold, javas).unwrap(), Sale::Refused);
    assert_eq!(till.sell(10, ours).unwrap(), Sale::Sold);
    drop(guard);
    client.close().await.expect("to close");
}
