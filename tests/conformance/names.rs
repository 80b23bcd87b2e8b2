//! Unusual names: both sides must use the same key and the same channel.

use harness::{Party, slot};
use tokio::sync::Mutex;

use crate::kind::{Kind, NAMED};
use crate::pair::Pair;
use crate::scenario::scenarios;
use crate::shared::SLACK;
use crate::topology::Topology;

scenarios! {
    odd_names_meet_on_one_key_and_one_channel: NAMED;
    a_prefix_stands_before_the_name: NAMED;
}

/// Some of the names are too short to carry that of the scenario, so one test at a time uses them.
static ODD_NAMES: Mutex<()> = Mutex::const_new(());

async fn odd_names_meet_on_one_key_and_one_channel(pair: &Pair) {
    let long = "k".repeat(1_024);
    let names = [
        "x",
        "{x}",
        "{x}y",
        "a{b}c",
        "{",
        "}",
        "{}",
        "a{b",
        "a}b{c}d",
        " ",
        "two words",
        "a:b::c",
        "naïve Übergrößen",
        "замок",
        "锁",
        "🔒",
        "e\u{301}",
        "line\nfeed\ttab",
        "quo\"te \\ back'slash",
        "*?[a-z]%s${x}#",
        "0",
        &long,
    ];
    let _alone = ODD_NAMES.lock().await;
    let is_usable =
        |name: &&str| pair.topology() != Topology::Cluster || is_for_a_cluster(pair.kind(), name);
    for name in names.into_iter().filter(is_usable) {
        let (holder, waiter) = (pair.a("holder").at(name), rival(pair).at(name));
        holder.lock().await;
        assert_eq!(
            pair.redis().holder(name).expect(name).client,
            holder.peer().client(),
            "{name:?}"
        );
        assert!(!waiter.try_lock().await, "{name:?}");
        let turn = waiter.start_lock();
        pair.listening_at(name, 1).await;
        holder.unlock().await;
        turn.granted_within(SLACK).await;
        assert_eq!(
            pair.redis().holder(name).expect(name).client,
            waiter.peer().client(),
            "{name:?}"
        );
        waiter.unlock().await;
        assert!(!pair.redis().exists(name), "{name:?}");
        pair.listening_at(name, 0).await;
        pair.forget_tokens(name);
    }
}

async fn a_prefix_stands_before_the_name(pair: &Pair) {
    let pair = pair.with(|args| args.prefix("shop:")).await;
    let (holder, waiter) = (pair.a("holder"), rival(&pair));
    let name = format!("shop:{}", pair.name());
    holder.lock().await;
    assert!(pair.redis().exists(&name));
    assert!(!pair.redis().exists(pair.name()));
    let turn = waiter.start_lock();
    pair.listening_at(&name, 1).await;
    assert_eq!(pair.listeners(pair.name()), 0);
    holder.unlock().await;
    turn.granted_within(SLACK).await;
    waiter.unlock().await;
    pair.forget_tokens(&name);
}

/// The lock and its channel are in one slot, and Redisson knows in which: before a brace that closes it finds none that
/// opens, and asks the wrong node for the channel.
fn is_for_a_cluster(kind: Kind, name: &str) -> bool {
    let is_misread = name.find('}') < name.find('{') && name.contains('}');
    slot(name) == slot(kind.channel(name)) && !is_misread
}

/// Someone who has to wait: for readers that is a writer.
fn rival(pair: &Pair) -> Party {
    let waiter = pair.b("waiter");
    if pair.kind() == Kind::Read { waiter.of_kind(Kind::Write.name()) } else { waiter }
}
