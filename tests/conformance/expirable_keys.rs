//! The two keys of permits with leases: their names and their TTLs.

use harness::redis::cmd;
use harness::{Lang, permit_timeouts};

use crate::expirable::{give, set, start_take, take};
use crate::kind::EXPIRABLE;
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::SLACK;

scenarios! {
    a_prefix_stands_before_the_names_of_all_keys_of_leased_permits: EXPIRABLE;
    leased_permits_have_the_ttl_of_the_number_from_an_acquisition_on: EXPIRABLE;
}

/// An hour, in ms: no test lasts as long.
const HOUR: i64 = 3_600_000;

/// Issue 4708 of Redisson: the set of permits had a name without the prefix, on another node of a cluster.
async fn a_prefix_stands_before_the_names_of_all_keys_of_leased_permits(pair: &Pair) {
    let pair = pair.with(|args| args.prefix("shop:")).await;
    let name = format!("shop:{}", pair.name());
    let out = |name: &str| -> i64 { pair.redis().query(cmd("ZCARD").arg(permit_timeouts(name))) };
    set(&pair, 2).await;
    let (holder, waiter) = (pair.a("holder"), pair.b("waiter"));
    let ids = take(&holder, 1).await;
    assert_eq!(pair.redis().query::<i64>(cmd("GET").arg(&name)), 1);
    assert_eq!(out(&name), 1);
    assert!(!pair.redis().exists(pair.name()), "a number without the prefix");
    assert!(!pair.redis().exists(&permit_timeouts(pair.name())), "permits without the prefix");
    let turn = start_take(&waiter, 2);
    pair.listening_at(&name, 1).await;
    assert_eq!(pair.listeners(pair.name()), 0);
    assert_eq!(pair.b("other").with("acquired", 0).await, 1);
    assert!(turn.is_pending());
    give(&holder, &ids).await;
    let both = turn.granted_within(SLACK).await.value;
    assert_eq!(out(&name), 2);
    // By the side that did not take them.
    give(&holder, &both).await;
    assert_eq!(out(&name), 0);
    assert_eq!(pair.redis().query::<i64>(cmd("GET").arg(&name)), 2);
    pair.redis().query::<()>(cmd("DEL").arg(&name));
}

/// Each acquisition gives the set of permits the TTL of the number, if the number has one. Neither side makes the set last.
/// Redisson's `addPermits` makes the number last, and leaves the set as it is.
async fn leased_permits_have_the_ttl_of_the_number_from_an_acquisition_on(pair: &Pair) {
    let (number, permits) = (pair.name().to_owned(), permit_timeouts(pair.name()));
    let ttl = |key: &str| -> i64 { pair.redis().query(cmd("PTTL").arg(key)) };
    let expire = |key: &str, ms: i64| -> () { pair.redis().query(cmd("PEXPIRE").arg(key).arg(ms)) };
    let persist = |key: &str| -> () { pair.redis().query(cmd("PERSIST").arg(key)) };
    let is_about = |ttl: i64, hours: i64| (hours * HOUR - HOUR / 2..=hours * HOUR).contains(&ttl);
    for (one, other) in [(pair.a("one"), pair.b("other")), (pair.b("two"), pair.a("twin"))] {
        set(pair, 4).await;
        let first = take(&one, 1).await;
        assert_eq!((ttl(&number), ttl(&permits)), (-1, -1));
        expire(&number, 2 * HOUR);
        assert_eq!(ttl(&permits), -1, "until the next acquisition");
        let second = take(&other, 1).await;
        assert!(is_about(ttl(&permits), 2), "{}", ttl(&permits));
        expire(&number, 5 * HOUR);
        give(&one, &first).await;
        assert!(is_about(ttl(&permits), 2), "a release changes none: {}", ttl(&permits));

        one.with("add", 1).await;
        match one.peer().lang() == Lang::Java {
            true => assert_eq!(ttl(&number), -1),
            false => assert!(is_about(ttl(&number), 5), "{}", ttl(&number)),
        }
        assert!(is_about(ttl(&permits), 2), "{}", ttl(&permits));
        persist(&number);
        let third = take(&one, 1).await;
        assert_eq!(ttl(&number), -1);
        assert!(is_about(ttl(&permits), 2), "the set keeps its own: {}", ttl(&permits));
        for ids in [&second, &third] {
            give(&other, ids).await;
        }
        pair.redis().query::<()>(cmd("DEL").arg(&number));
    }
}
