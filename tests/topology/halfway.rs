//! A slot that stops moving halfway, with keys of a lock on both sides.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{
    Lang, PATIENCE, RedisCluster, Servers, assert_nothing_left, eventually, read_hold_key, within,
};
use redisson_lock::{Client, Config, Error, LockGuard};
use serde_json::Value;

use crate::contest::Contest;
use crate::mixes;

const WATCHDOG: Duration = Duration::from_secs(3);
const RETRY: Duration = Duration::from_secs(2);
/// No operation takes longer, but one that waits for a lock.
pub(crate) const BOUND: Duration = Duration::from_secs(15);
const LONG: Duration = Duration::from_secs(60);

/// A cluster whose slots are moved, and its clients.
pub(crate) struct MovingCluster {
    pub(crate) cluster: RedisCluster,
    pub(crate) clients: Vec<Client>,
}

impl MovingCluster {
    pub(crate) async fn new(clients: usize, watchdog: Duration) -> Self {
        Self::on(RedisCluster::start(), clients, watchdog).await
    }

    /// One of the masters serves no slot.
    async fn grown(clients: usize, watchdog: Duration) -> Self {
        let cluster = RedisCluster::start();
        cluster.make_an_empty_master();
        Self::on(cluster, clients, watchdog).await
    }

    async fn on(cluster: RedisCluster, clients: usize, watchdog: Duration) -> Self {
        let clients = (0..clients).map(async |_| {
            let config = config(&cluster).watchdog(watchdog).retry_timeout(RETRY);
            Client::connect(config).await.unwrap()
        });
        let clients = futures::future::join_all(clients).await;
        Self { cluster, clients }
    }

    /// Begins to move the slot of this lock, and moves these keys.
    pub(crate) fn halfway(&self, name: &str, keys: &[&str]) -> Halfway<'_> {
        halfway(&self.cluster, name, keys)
    }

    pub(crate) async fn end(self) {
        for client in self.clients {
            // What was refused may still be tried again: it is on the server that nothing is to be left.
            drop(client.close().await);
        }
        assert_nothing_left(&self.cluster).await;
    }
}

fn config(cluster: &RedisCluster) -> Config {
    let [first, others @ ..] = &cluster.addresses()[..] else { panic!("no nodes") };
    let others: Vec<_> = others.iter().map(|node| format!("node={node}")).collect();
    Config::from_url(format!("redis-cluster://{first}?{}", others.join("&"))).unwrap()
}

fn halfway<'a>(cluster: &'a RedisCluster, name: &str, keys: &[&str]) -> Halfway<'a> {
    let from = cluster.master_of(name);
    let to = cluster.masters().into_iter().find(|&node| node != from).expect("another master");
    cluster.begin_to_move_slot_of(name, to);
    if !keys.is_empty() {
        cluster.move_keys(keys, to);
    }
    Halfway { cluster, name: name.to_owned(), to }
}

/// A slot that stands still.
pub(crate) struct Halfway<'a> {
    cluster: &'a RedisCluster,
    name: String,
    to: usize,
}

impl Halfway<'_> {
    /// A hash, on whatever side it is.
    pub(crate) fn hash(&self, key: &str) -> BTreeMap<String, String> {
        let mut target = self.cluster.node(self.to).client();
        let () = cmd("ASKING").query(&mut target).unwrap();
        let there: BTreeMap<_, _> = cmd("HGETALL").arg(key).query(&mut target).unwrap();
        let mut source = self.cluster.client_of(key);
        match there.is_empty() {
            // Sent over there when there is none.
            true => cmd("HGETALL").arg(key).query(&mut source).unwrap_or_default(),
            false => there,
        }
    }

    /// Refused when a key that is to follow is there already.
    pub(crate) fn goes_on(self) {
        self.cluster.move_slot_of(&self.name, self.to);
    }

    pub(crate) fn turns_back(self) {
        self.cluster.move_back_slot_of(&self.name, self.to);
    }
}

async fn reads(client: &Client, name: &str) -> LockGuard {
    client.read_write_lock(name).read().lease(LONG).await.unwrap()
}

fn timeout_key(name: &str, guard: &LockGuard) -> String {
    read_hold_key(name, guard.holder(), 1)
}

pub(crate) async fn bounded<T>(what: &str, done: impl Future<Output = T>) -> T {
    within(BOUND, what, done).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_whose_timeout_key_is_elsewhere_is_not_taken_for_dead() {
    let moving = MovingCluster::new(3, WATCHDOG).await;
    let [one, other, writer] = &moving.clients[..] else { unreachable!() };
    for (name, with_its_key) in [("only the lock", false), ("the lock and one key", true)] {
        let (leaving, staying) = (reads(one, name).await, reads(other, name).await);
        let key = timeout_key(name, &leaving);
        let keys = [name, &key];
        let halfway = moving.halfway(name, if with_its_key { &keys } else { &keys[..1] });
        let left = bounded("unlock", leaving.unlock()).await;
        println!("{name}: {left:?}");
        assert!(!with_its_key || left.is_ok(), "{left:?}");
        let writing = bounded("try_write", tries_to_write(writer, name)).await;
        println!("{name}: {writing:?}");
        staying.check().await.expect("a hold that nobody has ended");
        assert!(!matches!(writing, Ok(Some(_))), "a writer beside a reader");
        halfway.goes_on();
        staying.unlock().await.unwrap();
        let written = writer.read_write_lock(name).try_write().wait(PATIENCE).await.unwrap();
        written.expect("a lock that is free").unlock().await.unwrap();
    }
    moving.end().await;
}

async fn tries_to_write(client: &Client, name: &str) -> Result<Option<LockGuard>, Error> {
    client.read_write_lock(name).try_write().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_reader_waits_until_its_slot_has_moved() {
    let mut moving = MovingCluster::new(1, WATCHDOG).await;
    // The slot may take its time to move.
    let patient = config(&moving.cluster).retry_timeout(PATIENCE);
    moving.clients.push(Client::connect(patient).await.unwrap());
    let [one, other] = &moving.clients[..] else { unreachable!() };
    let name = "nothing moved";
    let first = reads(one, name).await;
    let halfway = moving.halfway(name, &[]);
    let lock = other.read_write_lock(name);
    let second = tokio::spawn(async move { lock.read().lease(LONG).await });
    tokio::time::sleep(RETRY / 3).await;
    assert!(!second.is_finished(), "{:?}", second.await);
    halfway.goes_on();
    let second = within(2 * PATIENCE, "to be granted", second).await.unwrap().unwrap();
    for guard in [first, second] {
        guard.unlock().await.unwrap();
    }
    moving.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unlock_is_not_half_done() {
    let moving = MovingCluster::new(2, WATCHDOG).await;
    let [one, other] = &moving.clients[..] else { unreachable!() };
    let name = "only a timeout key moved";
    let guard = reads(one, name).await;
    let id = guard.holder().to_owned();
    let halfway = moving.halfway(name, &[&timeout_key(name, &guard)]);
    let unlocked = bounded("unlock", guard.unlock()).await;
    println!("{unlocked:?}");
    let fields = moving.cluster.inspector().hash(name);
    assert!(fields.is_empty() || fields.contains_key(&id), "read, and by nobody: {fields:?}");
    halfway.goes_on();
    let written = other.read_write_lock(name).try_write().wait(PATIENCE).await.unwrap();
    written.expect("a lock that is given back").unlock().await.unwrap();
    moving.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_makes_no_second_copy_of_a_key() {
    let moving = MovingCluster::new(1, WATCHDOG).await;
    let name = "renewed";
    let guard = moving.clients[0].read_write_lock(name).read().await.unwrap();
    let halfway = moving.halfway(name, &[name]);
    // More than one renewal, and less than the lease.
    tokio::time::sleep(WATCHDOG * 3 / 4).await;
    halfway.goes_on();
    let renewed = || moving.cluster.inspector().pttl(name) > WATCHDOG.as_millis() as i64 / 2;
    eventually(PATIENCE, "a renewal", || renewed().then_some(())).await;
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
    moving.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_whose_keys_are_apart_is_renewed() {
    let moving = MovingCluster::new(1, WATCHDOG).await;
    let mut guards = Vec::new();
    for name in ["renewed here", "renewed there"] {
        guards.push((name, moving.clients[0].read_write_lock(name).read().await.unwrap()));
    }
    let halves: Vec<_> = guards
        .iter()
        .zip([true, false])
        .map(|((name, guard), lock)| match lock {
            true => moving.halfway(name, &[name]),
            false => moving.halfway(name, &[&timeout_key(name, guard)]),
        })
        .collect();
    tokio::time::sleep(2 * WATCHDOG).await;
    for (name, guard) in &guards {
        assert!(guard.is_held(), "{name}: lost");
        guard.check().await.unwrap();
    }
    halves.into_iter().for_each(Halfway::goes_on);
    for (_, guard) in guards {
        guard.unlock().await.unwrap();
    }
    moving.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_whose_hold_is_gone_is_told_so_halfway() {
    let moving = MovingCluster::new(2, WATCHDOG).await;
    let [one, other] = &moving.clients[..] else { unreachable!() };
    let name = "gone";
    let (gone, staying) = (reads(one, name).await, reads(other, name).await);
    let inspector = moving.cluster.inspector();
    inspector.query::<()>(cmd("HDEL").arg(name).arg(gone.holder()));
    inspector.query::<()>(cmd("DEL").arg(timeout_key(name, &gone)));
    let halfway = moving.halfway(name, &[]);
    let unlocked = bounded("unlock", gone.unlock()).await;
    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
    halfway.goes_on();
    staying.unlock().await.unwrap();
    moving.end().await;
}

/// Where a cluster grows, the first slot goes to a master that serves no other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_goes_to_a_master_that_has_none_yet() {
    let watchdog = 2 * WATCHDOG;
    let moving = MovingCluster::grown(2, watchdog).await;
    let [one, other] = &moving.clients[..] else { unreachable!() };
    let to = moving.cluster.empty_master();
    let (moved, free) = ("{grown}:moved", "{grown}:free");
    let guard = one.lock(moved).lock().await.unwrap();
    moving.cluster.begin_to_move_slot_of(moved, to);
    moving.cluster.move_keys(&[moved], to);
    tokio::time::sleep(watchdog * 3 / 2).await;
    assert!(guard.is_held(), "a hold that is not renewed");
    guard.check().await.unwrap();
    let refused = bounded("try_lock", async { other.lock(moved).try_lock().await }).await;
    assert!(matches!(refused, Ok(None)), "{refused:?}");
    // Its connections are made again.
    let _: usize = cmd("CLIENT")
        .arg("KILL")
        .arg("TYPE")
        .arg("normal")
        .arg("SKIPME")
        .arg("yes")
        .query(&mut moving.cluster.node(to).client())
        .unwrap();
    let taken = bounded("lock", async { other.lock(free).lock().await }).await.unwrap();
    bounded("unlock", taken.unlock()).await.unwrap();
    bounded("unlock", guard.unlock()).await.unwrap();
    moving.cluster.move_slot_of(moved, to);
    moving.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_future_that_nobody_polls_keeps_nobody_from_a_master_that_has_no_slot_yet() {
    let moving = MovingCluster::grown(1, WATCHDOG).await;
    let client = &moving.clients[0];
    let to = moving.cluster.empty_master();
    let (one, other) = (client.lock("{grown}:one"), client.lock("{grown}:other"));
    moving.cluster.begin_to_move_slot_of("{grown}:one", to);
    moving.cluster.node(to).pause();
    let mut alone = std::pin::pin!(one.lock().into_future());
    // By then it connects.
    assert!(tokio::time::timeout(RETRY / 4, &mut alone).await.is_err());
    moving.cluster.node(to).resume();
    let taken = bounded("lock", other.lock().into_future()).await.unwrap();
    bounded("unlock", taken.unlock()).await.unwrap();
    bounded("the other lock", alone).await.unwrap().unlock().await.unwrap();
    moving.cluster.move_slot_of("{grown}:one", to);
    moving.end().await;
}

mixes! {
    a_reader_leaves_while_the_key_of_another_is_elsewhere;
}

/// Redisson's read/write scripts name keys that are never there: in a slot that moves all of them are refused (`TRYAGAIN`)
/// until it has moved. Its `unlock` fails after some seconds (and the lock is still held then), its renewals fail, and its
/// `tryLock` has no answer as long as the slot stands still.
async fn a_reader_leaves_while_the_key_of_another_is_elsewhere(langs: [Lang; 2]) {
    let cluster = RedisCluster::start();
    let Some(contest) = Contest::new(&cluster, langs).await else { return };
    let inspector = cluster.inspector();
    for (leaver, stayer) in [(0, 1), (1, 0)] {
        let name = &format!("left by {leaver}");
        let [leaving, staying] = [leaver, stayer].map(|peer| contest.party(peer, "read", name));
        let writer = contest.party(leaver, "write", name);
        leaving.lock().await;
        staying.lock().await;
        let client = leaving.peer().client();
        let with_it = |key: &String| key.contains(&format!("{{{name}}}")) && key.contains(client);
        let key = inspector.keys().into_iter().find(with_it).expect("a timeout key");
        let halfway = halfway(&cluster, name, &[name, &key]);
        let began = Instant::now();
        let unlocked = leaving.start("unlock", Value::Null).within(2 * PATIENCE).await;
        let fields = halfway.hash(name);
        let mix = format!("{} leaves {}", langs[leaver], langs[stayer]);
        println!("{mix}: unlock: {unlocked:?} after {:?}, {fields:?}", began.elapsed());
        // One of Redisson's has no answer before the slot has moved.
        let writing = writer.start("try_lock", Value::Null);
        let written = match langs[leaver] {
            Lang::Rust => {
                let written = writing.within(PATIENCE).await;
                halfway.goes_on();
                written
            }
            _ => {
                halfway.goes_on();
                writing.within(2 * PATIENCE).await
            }
        };
        println!("{mix}: try_lock to write: {written:?}");
        if langs[leaver] == Lang::Rust {
            unlocked.as_ref().expect("an unlock that does not mind");
        }
        if langs.contains(&Lang::Rust) {
            let stays = fields.keys().any(|field| field.contains(staying.peer().client()));
            assert!(stays, "{mix}: {fields:?}");
            let got = written.as_ref().is_ok_and(|written| written.is_granted());
            assert!(!got, "{mix}: a writer beside a reader");
        }
        // A Redisson peer may still hold what it could not give back, or have lost what it could not renew.
        let parties = [(staying, langs[stayer]), (leaving, langs[leaver]), (writer, langs[leaver])];
        for (party, lang) in parties {
            let unlocked = party.ask("unlock", Value::Null).await;
            println!("{mix}: {lang} unlocks in the end: {unlocked:?}");
        }
    }
    let gone = || inspector.keys().is_empty().then_some(());
    eventually(PATIENCE, "nothing to be left", gone).await;
    assert_nothing_left(&cluster).await;
}
