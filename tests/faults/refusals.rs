//! Servers that refuse for a while, in each of their ways. What cannot be done then is done later.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, eventually, lock_channel};
use redisson_lock::{Client, Config, Error, Lock, LockGuard};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::stage::{LOCK, SHORT, Stage, assert_redis_error, connect, gets_it, soon, waiter};
use crate::warnings::listen;

/// Much longer than any refusal here lasts, and than anything waits.
const LEASE: Duration = Duration::from_secs(60);

/// Why a server refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It cannot save what it has: `MISCONF`.
    Disk,
    /// It is full: `OOM`.
    Memory,
    /// Too few replicas are there: `NOREPLICAS`.
    Replicas,
    /// It is a replica, as a master is that was replaced: `READONLY`.
    Role,
    /// The user may run no script: `NOPERM`.
    Rights,
}

impl Refusal {
    /// Of a server that refuses so, or does not any more. Takes no time.
    pub(crate) fn set(self, stage: &Stage, on: bool) {
        let word = |on_word, off_word| if on { on_word } else { off_word };
        match self {
            Self::Disk => configure(stage, "stop-writes-on-bgsave-error", word("yes", "no")),
            Self::Memory => configure(stage, "maxmemory", word("1", "0")),
            Self::Replicas => configure(stage, "min-replicas-to-write", word("1", "0")),
            Self::Role => {
                let (host, port) = if on { ("127.0.0.1", "1") } else { ("NO", "ONE") };
                stage.redis().query::<()>(cmd("REPLICAOF").arg(host).arg(port));
            }
            Self::Rights => {
                let rights = if on { ["-eval", "-evalsha"] } else { ["+eval", "+evalsha"] };
                set_user(stage, &rights);
            }
        }
    }
}

fn configure(stage: &Stage, what: &str, value: &str) {
    stage.redis().query::<()>(cmd("CONFIG").arg("SET").arg(what).arg(value));
}

pub(crate) fn set_user(stage: &Stage, rules: &[&str]) {
    stage.redis().query::<()>(cmd("ACL").arg("SETUSER").arg("service").arg(rules));
}

/// A server that can refuse in each of these ways, and a user whose rights can be taken.
pub(crate) async fn stage() -> Stage {
    let stage = Stage::new().await;
    set_user(&stage, &["on", ">secret", "~*", "&*", "+@all"]);
    // A save fails where a directory has the name of its file.
    let setting = |name: &str| {
        let pair: Vec<String> = stage.redis().query(cmd("CONFIG").arg("GET").arg(name));
        pair[1].clone()
    };
    let file = Path::new(&setting("dir")).join(setting("dbfilename"));
    fs::create_dir(&file).unwrap();
    fs::write(file.join("in the way"), "").unwrap();
    Refusal::Disk.set(&stage, false);
    configure(&stage, "save", "100000 1000000");
    let () = stage.redis().query(&cmd("BGSAVE"));
    eventually(PATIENCE, "a save to fail", || {
        let info: String = stage.redis().query(cmd("INFO").arg("persistence"));
        info.contains("rdb_last_bgsave_status:err").then_some(())
    })
    .await;
    stage
}

pub(crate) fn config(stage: &Stage) -> Config {
    let url = format!("redis://service:secret@127.0.0.1:{}", stage.proxy.port());
    Config::from_url(url).unwrap().command_timeout(Duration::from_secs(2))
}

/// All kinds of lock, one of each.
pub(crate) fn locks(client: &Client, name: &str) -> [Lock; 7] {
    let both = client.read_write_lock(format!("{name}:rw"));
    [
        client.lock(name),
        client.fair_lock(format!("{name}:fair")),
        both.read_lock().clone(),
        both.write_lock().clone(),
        client.fenced_lock(format!("{name}:fenced")).into(),
        client.spin_lock(format!("{name}:spin")),
        client.plain_lock(format!("{name}:plain")),
    ]
}

fn waits(lock: Lock) -> JoinHandle<Result<LockGuard, Error>> {
    tokio::spawn(async move { lock.lock().await })
}

/// The locks that are held, and the lines before them.
fn held(stage: &Stage) -> Vec<String> {
    let mut keys = stage.redis().keys();
    keys.retain(|key| !key.contains("_token:") && !key.contains(":rwlock_timeout:"));
    keys.into_iter().collect()
}

/// Waits until nothing is held, and begins the fencing tokens anew.
async fn nothing_but_tokens(stage: &Stage) {
    eventually(PATIENCE, "an end of all holds", || held(stage).is_empty().then_some(())).await;
    for token in stage.redis().keys().iter().filter(|key| key.contains("_token:")) {
        let () = stage.redis().query(cmd("DEL").arg(token));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_is_refused_for_a_while_is_done_when_it_is_not_any_more() {
    for refusal in [Refusal::Disk, Refusal::Replicas, Refusal::Role, Refusal::Rights] {
        let stage = stage().await;
        // Callers are told long before the server takes writes again.
        let client = connect(config(&stage).retry_timeout(Duration::from_millis(300))).await;
        for way in ["unlocked", "dropped"] {
            let mut guards = Vec::new();
            for lock in locks(&client, way) {
                // The reader is in the writer's way.
                if let Some(guard) = lock.try_lock().lease(LEASE).await.unwrap() {
                    guards.push(guard);
                }
            }
            assert_eq!(guards.len(), 6);
            refusal.set(&stage, true);
            let begun = Instant::now();
            for guard in guards {
                match way {
                    "unlocked" => assert_redis_error(soon("to be told", guard.unlock()).await),
                    _ => drop(guard),
                }
            }
            sleep(Duration::from_secs(1).saturating_sub(begun.elapsed())).await;
            if refusal != Refusal::Role {
                // Nobody looks at the keys of a replica.
                assert_eq!(held(&stage).len(), 6, "{refusal:?}: nothing was released");
            }
            refusal.set(&stage, false);
            let back = Instant::now();
            nothing_but_tokens(&stage).await;
            println!("{refusal:?}, {way}: released {:?} after the refusals", back.elapsed());
        }
        stage.end([client]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes_for_a_while_is_waited_for() {
    for refusal in [Refusal::Disk, Refusal::Memory, Refusal::Replicas, Refusal::Role] {
        let stage = stage().await;
        let client = connect(config(&stage).watchdog(2 * SHORT)).await;
        refusal.set(&stage, true);
        let turns = locks(&client, LOCK)
            .map(|lock| tokio::spawn(async move { lock.lock().await?.unlock().await }));
        sleep(Duration::from_secs(1)).await;
        for (turn, lock) in turns.iter().zip(locks(&client, LOCK)) {
            assert!(!turn.is_finished(), "{refusal:?}, {lock:?}");
        }
        refusal.set(&stage, false);
        for turn in turns {
            soon("to be served", turn).await.unwrap().unwrap();
        }
        // One that does not wait is told what is the matter.
        refusal.set(&stage, true);
        let tried = soon("to be told", client.lock(LOCK).try_lock()).await;
        assert_redis_error(tried);
        refusal.set(&stage, false);
        nothing_but_tokens(&stage).await;
        stage.end([client]).await;
    }
}

/// The script may put a hold there, but not finish; and what it did may not be undone for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquisition_that_is_refused_in_its_middle_is_undone_however_long_that_is_refused_too() {
    let stage = stage().await;
    let client = connect(config(&stage)).await;
    set_user(&stage, &["-pexpire", "-hdel"]);
    for lock in [client.lock(LOCK), client.fair_lock("fair")] {
        assert_redis_error(lock.try_lock().await);
        let key = lock.name().unwrap();
        assert_eq!(stage.redis().pttl(key), -1, "held without an end");
    }
    sleep(Duration::from_secs(1)).await;
    set_user(&stage, &["+hdel"]);
    stage.nothing_held().await;
    set_user(&stage, &["+pexpire"]);
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_in_line_whose_withdrawal_is_refused_for_a_while_goes_after_that() {
    for refusal in [Refusal::Disk, Refusal::Role, Refusal::Rights] {
        let stage = stage().await;
        let timeout = Duration::from_millis(300);
        // A place outlives its waiter by far.
        let patient = |config: Config| config.fair_wait(LEASE);
        let client = connect(patient(config(&stage)).retry_timeout(timeout)).await;
        let far = connect(patient(Config::from_url(stage.server.url()).unwrap())).await;
        let held = far.fair_lock(LOCK).lock().await.unwrap();
        let first = waits(client.fair_lock(LOCK));
        in_line(&stage, 1).await;
        let second = waits(far.fair_lock(LOCK));
        in_line(&stage, 2).await;
        refusal.set(&stage, true);
        first.abort();
        sleep(Duration::from_secs(1)).await;
        let line: Vec<String> = queue(&stage);
        assert_eq!(line.len(), 2, "{refusal:?}: it could not leave");
        refusal.set(&stage, false);
        let back = Instant::now();
        held.unlock().await.unwrap();
        let (guard, _) = gets_it(second).await;
        println!("{refusal:?}: the next in line ran {:?} after the refusals", back.elapsed());
        guard.unlock().await.unwrap();
        stage.end([client, far]).await;
    }
}

fn queue(stage: &Stage) -> Vec<String> {
    let key = format!("redisson_lock_queue:{{{LOCK}}}");
    stage.redis().query(cmd("LRANGE").arg(key).arg(0).arg(-1))
}

async fn in_line(stage: &Stage, count: usize) {
    let what = format!("{count} waiters in line");
    eventually(PATIENCE, &what, || (queue(stage).len() == count).then_some(())).await;
}

/// It answers `PING` with an error then, by which subscriptions are confirmed and connections looked after.
#[tokio::test]
async fn a_waiter_listens_to_a_server_that_cannot_save() {
    let warnings = listen();
    let stage = stage().await;
    let client = connect(config(&stage)).await;
    let far = stage.far_client().await;
    let held = far.lock(LOCK).lock().await.unwrap();
    Refusal::Disk.set(&stage, true);
    let turn = waiter(&client, LOCK);
    stage.listening(LOCK, 1).await;
    // Longer than a connection may be quiet before it is looked after.
    sleep(Duration::from_secs(6)).await;
    Refusal::Disk.set(&stage, false);
    held.unlock().await.unwrap();
    gets_it(turn).await.0.unlock().await.unwrap();
    warnings.assert_without("could not subscribe");
    warnings.assert_without("the subscriber connection does not answer");
    stage.end([client, far]).await;
}

/// After a gap the channels of all who wait are subscribed to together.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_a_user_may_not_hear_keeps_no_other_from_being_heard() {
    let stage = Stage::new().await;
    set_user(&stage, &["on", ">secret", "~*", "resetchannels", "&redisson_lock__*", "+@all"]);
    let (client, other) = (connect(config(&stage)).await, stage.client().await);
    let both = other.read_write_lock("not heard of");
    let held = [other.lock(LOCK).lock().await.unwrap(), both.write().await.unwrap()];
    let unheard = waits(client.read_write_lock("not heard of").read_lock().clone());
    let waiting = waits(client.lock(LOCK));
    let channel = lock_channel(LOCK);
    let heard = || (stage.redis().subscribers(&channel) > 0).then_some(());
    for round in 0..3 {
        eventually(PATIENCE, &format!("a waiter that listens, {round}"), heard).await;
        sleep(Duration::from_millis(300)).await;
        stage.proxy.refuse(true);
        stage.proxy.cut_all();
        let gone = || (stage.redis().subscribers(&channel) == 0).then_some(());
        eventually(PATIENCE, "the connection to be cut", gone).await;
        stage.proxy.refuse(false);
    }
    eventually(PATIENCE, "a waiter that listens", heard).await;
    unheard.abort();
    for guard in held {
        guard.unlock().await.unwrap();
    }
    soon("a lock", waiting).await.unwrap().unwrap().unlock().await.unwrap();
    stage.end([client, other]).await;
}
