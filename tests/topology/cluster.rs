//! Contests on a cluster.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::{Lang, PATIENCE, RedisCluster, Servers, assert_nothing_left, eventually};

use crate::contest::Contest;
use crate::failover::{a_master_dies_before_its_replicas_hear_of_a_hold, masters_are_killed};
use crate::mixes;

const NODE_TIMEOUT: Duration = Duration::from_millis(1_500);

const SHORT_WATCHDOG: Duration = Duration::from_secs(6);
const MANY: usize = 12;

mixes! {
    a_master_is_killed_under_contention;
    a_hold_is_lost_unless_a_replica_confirmed_it;
    a_slot_moves_while_its_lock_is_held_and_waited_for;
    many_locks_in_as_many_slots_are_kept_alive;
}

async fn a_master_is_killed_under_contention(langs: [Lang; 2]) {
    masters_are_killed(short_of_patience(), langs).await;
}

async fn a_hold_is_lost_unless_a_replica_confirmed_it(langs: [Lang; 2]) {
    a_master_dies_before_its_replicas_hear_of_a_hold(short_of_patience, langs).await;
}

/// A master that is silent is soon replaced.
fn short_of_patience() -> RedisCluster {
    RedisCluster::builder().node_timeout(NODE_TIMEOUT).start()
}

/// What Redisson says of a server that it has not heard of.
const NOT_KNOWN_YET: &str = "hasn't been discovered yet";

/// The waiter has subscribed with the old master, where nobody will publish any more. Redisson's sleeps until the TTL it
/// was told of is over, and is granted the lock then. A Redisson whose waiter was on a slot that moved sometimes subscribes
/// to nothing any more, in this slot or another: each kind has a slot and processes of its own.
async fn a_slot_moves_while_its_lock_is_held_and_waited_for(langs: [Lang; 2]) {
    let cluster = RedisCluster::start();
    for (kind, name) in [("lock", "moving"), ("fair", "moving in line")] {
        a_slot_moves(&cluster, langs, kind, name).await;
    }
    assert_nothing_left(&cluster).await;
}

async fn a_slot_moves(cluster: &RedisCluster, langs: [Lang; 2], kind: &'static str, name: &str) {
    let Some(contest) = Contest::new(cluster, langs).await else { return };
    let inspector = cluster.inspector();
    let (holder, waiter) = (contest.party(0, kind, name), contest.party(1, kind, name));
    holder.lock().await;
    let mut turn = waiter.start_lock();
    let braced = format!("{{{name}}}");
    let listening = || inspector.channels().iter().any(|channel| channel.contains(&braced));
    eventually(PATIENCE, "a waiter that listens", || listening().then_some(())).await;
    let from = cluster.master_of(name);
    let to = cluster.masters().into_iter().find(|&node| node != from).expect("another master");
    cluster.move_slot_of(name, to);
    assert!(turn.is_pending());
    assert_eq!(inspector.holder(name).expect("a holder").client, holder.peer().client());
    let unlock = holder.unlock().await;
    let lock = loop {
        match turn.answer().await {
            // Redisson may not know the new master for a moment, and fails whoever waits.
            Err(error) if langs[1] == Lang::Java && error.to_string().contains(NOT_KNOWN_YET) => {
                turn = waiter.start_lock();
            }
            answer => break answer.expect("the lock"),
        }
    };
    assert!(lock.is_granted(), "{kind}: {lock:?}");
    println!("{langs:?}: {kind}: handed over in {:?}", lock.after_start_of(&unlock));
    waiter.unlock().await;
}

/// Each slot takes a renewal of its own.
async fn many_locks_in_as_many_slots_are_kept_alive(langs: [Lang; 2]) {
    let cluster = RedisCluster::start();
    let args = cluster.peer_args().watchdog(SHORT_WATCHDOG);
    let Some(contest) = Contest::with(args, langs).await else { return };
    let inspector = cluster.inspector();
    let names: Vec<_> = (0..MANY).map(|i| format!("lock:{i}")).collect();
    for (peer, lang) in langs.into_iter().enumerate() {
        let holders = names.iter().map(|name| contest.party(peer, "lock", name));
        let holders: Vec<_> = holders.collect();
        for holder in &holders {
            holder.lock().await;
        }
        let began = Instant::now();
        let mut lost = BTreeMap::new();
        while began.elapsed() < 2 * SHORT_WATCHDOG {
            for name in &names {
                if !inspector.exists(name) {
                    lost.entry(name).or_insert(began.elapsed());
                }
            }
            tokio::time::sleep(SHORT_WATCHDOG / 10).await;
        }
        assert!(lost.is_empty(), "{lang} lost {} of {MANY}: {lost:?}", lost.len());
        for holder in &holders {
            holder.unlock().await;
        }
    }
    assert_nothing_left(&cluster).await;
}
