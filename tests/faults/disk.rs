//! A disk that fails or is full, until it does not any more: `MISCONF`.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use harness::redis::{RedisResult, cmd};
use harness::{PATIENCE, RedisServer, eventually, within};
use redisson_lock::{Client, Error, LockGuard, Loss};
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::held::{self, KINDS, SLACK, all_told, lock_of, one_of_each, rival_of};
use crate::stage::{LOCK, SHORT, Stage, assert_redis_error, connect, renewed, soon, waiter};

/// A lock that could not be released is free so soon after the disk works again.
const FREE: Duration = Duration::from_secs(2);

/// A disk, as far as a server has to do with it.
trait Disk {
    /// A server whose writes fail as soon as the disk does.
    fn server(&self) -> harness::RedisServerBuilder;
    /// Returns when writes are refused.
    async fn fail(&mut self, stage: &Stage);
    /// Returns when writes are taken.
    async fn heal(&mut self, stage: &Stage);
}

/// A snapshot cannot be written: a directory has the name of its file.
#[derive(Default)]
struct Snapshots {
    in_the_way: PathBuf,
}

impl Disk for Snapshots {
    fn server(&self) -> harness::RedisServerBuilder {
        RedisServer::builder().arg("--save").arg("900 1")
    }

    async fn fail(&mut self, stage: &Stage) {
        let setting = |name: &str| {
            let pair: Vec<String> = stage.redis().query(cmd("CONFIG").arg("GET").arg(name));
            pair[1].clone()
        };
        self.in_the_way = Path::new(&setting("dir")).join(setting("dbfilename"));
        let _ = fs::remove_file(&self.in_the_way);
        fs::create_dir_all(self.in_the_way.join("a directory that is not empty")).unwrap();
        save(stage, "err").await;
        writes(stage, false).await;
    }

    async fn heal(&mut self, stage: &Stage) {
        fs::remove_dir_all(&self.in_the_way).unwrap();
        save(stage, "ok").await;
        writes(stage, true).await;
    }
}

async fn save(stage: &Stage, status: &str) {
    let () = stage.redis().query(&cmd("BGSAVE"));
    let status = format!("rdb_last_bgsave_status:{status}");
    eventually(PATIENCE, &status, || {
        let info: String = stage.redis().query(cmd("INFO").arg("persistence"));
        (info.contains("rdb_bgsave_in_progress:0") && info.contains(&status)).then_some(())
    })
    .await;
}

/// The append-only file cannot grow.
struct Log {
    fsync: &'static str,
}

impl Disk for Log {
    fn server(&self) -> harness::RedisServerBuilder {
        let server = RedisServer::builder().files_may_be_limited();
        server.arg("--appendonly").arg("yes").arg("--appendfsync").arg(self.fsync)
    }

    async fn fail(&mut self, stage: &Stage) {
        stage.server.limit_files(Some(1));
        writes(stage, false).await;
    }

    async fn heal(&mut self, stage: &Stage) {
        stage.server.limit_files(None);
        writes(stage, true).await;
    }
}

/// Waits until the server takes writes, or refuses them.
async fn writes(stage: &Stage, are_taken: bool) {
    eventually(PATIENCE, &format!("writes to be taken: {are_taken}"), || {
        let set: RedisResult<()> = stage.redis().try_query(cmd("SET").arg("canary").arg("sings"));
        (set.is_ok() == are_taken).then_some(())
    })
    .await;
    if are_taken {
        let () = stage.redis().query(cmd("DEL").arg("canary"));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_save_costs_an_outage_and_two_seconds() {
    an_outage(Snapshots::default()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_log_fills_the_disk_costs_an_outage_and_two_seconds() {
    an_outage(Log { fsync: "everysec" }).await;
}

/// Longer than the lease of those who are renewed meanwhile in vain.
async fn an_outage(mut disk: impl Disk) {
    let stage = Stage::with(disk.server()).await;
    let holder = connect(stage.config().watchdog(SHORT)).await;
    // It gives its releases up before the disk works again; its leases are longer than that by far.
    let leaver = connect(stage.config().retry_timeout(Duration::from_millis(300))).await;
    let client = stage.client().await;
    let held = one_of_each(&holder, "held").await;
    let mut released = Vec::new();
    for way in ["unlocked", "dropped"] {
        released.extend(one_of_each(&leaver, way).await.into_iter().map(|held| (way, held)));
    }
    let waits = |(_, held): &(&str, held::Held)| {
        let lock = rival_of(&client, held.kind, &held.name);
        (held.name.clone(), tokio::spawn(turn(lock)))
    };
    let waiting: Vec<_> = released.iter().map(waits).collect();
    // Until each has asked once, and listens.
    sleep(Duration::from_millis(300)).await;

    disk.fail(&stage).await;
    held.iter().for_each(|held| held.assert_trusted_for_less_than_it_is_kept(&stage));
    let failed = Instant::now();
    let told = all_told(held);
    for (way, held) in released {
        match way {
            "unlocked" => assert_redis_error(soon("to be told", held.guard.unlock()).await),
            _ => drop(held),
        }
    }
    assert_redis_error(client.lock("tried").try_lock().await);
    let new = KINDS.map(|kind| {
        let name = format!("new:{kind}");
        (name.clone(), tokio::spawn(turn(lock_of(&client, kind, &name))))
    });
    let told = told.await.unwrap();
    for told in &told {
        assert_eq!(told.why, Loss::Expired, "{}", told.held.name);
        assert!(told.at - failed < SHORT + SLACK, "{}: {:?}", told.held.name, told.at - failed);
    }
    let all = waiting.into_iter().chain(new);
    let all: Vec<(String, JoinHandle<Instant>)> = all.collect();
    assert!(all.iter().all(|(_, turn)| !turn.is_finished()), "nothing can be released or taken");

    disk.heal(&stage).await;
    let healed = Instant::now();
    let mut longest = Duration::ZERO;
    for (name, turn) in all {
        let free = soon(&format!("for {name}"), turn).await.unwrap() - healed;
        assert!(free < FREE + SLACK / 2, "{name}: free after {free:?}");
        longest = longest.max(free);
    }
    println!("all locks free {longest:?} after the disk");
    for told in told {
        assert_eq!(told.held.stays_lost().await, Loss::Expired);
    }
    held::end(&stage, [holder, leaver, client]).await;
}

/// When it has the lock; it gives it back at once.
async fn turn(lock: redisson_lock::Lock) -> Instant {
    let guard: LockGuard = lock.lock().await.unwrap();
    let now = Instant::now();
    guard.unlock().await.unwrap();
    now
}

/// With `appendfsync always` a server that cannot write its log ends, rather than to forget what it has said.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_ends_when_its_disk_is_full_comes_back_with_all_locks() {
    let disk = Log { fsync: "always" };
    let mut stage = Stage::with(disk.server()).await;
    let client = connect(stage.config().watchdog(2 * SHORT)).await;
    let held = one_of_each(&client, "held").await;
    let other = stage.client().await;
    let turn = waiter(&other, LOCK);
    let mine = soon("a lock", turn).await.unwrap().unwrap();

    stage.server.limit_files(Some(1));
    let set: RedisResult<()> = stage.redis().try_query(cmd("SET").arg("canary").arg("sings"));
    set.expect_err("the server ends");
    sleep(Duration::from_millis(500)).await;
    stage.restart_server();

    for held in held {
        let rival = rival_of(&other, held.kind, &held.name);
        let tried = soon("an answer", tried(&rival)).await;
        assert!(tried.is_none(), "{}: two hold it", held.name);
        renewed(&held.guard).await;
        held.guard.unlock().await.unwrap();
    }
    mine.unlock().await.unwrap();
    held::end(&stage, [client, other]).await;
}

/// One that does not wait may meet a connection that is not back yet.
async fn tried(lock: &redisson_lock::Lock) -> Option<LockGuard> {
    loop {
        match lock.try_lock().await {
            Ok(tried) => return tried,
            Err(Error::Redis(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Not only at the end of an outage, but through many: a disk that comes and goes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_comes_and_goes_is_nobodys_error() {
    let mut disk = Snapshots::default();
    let stage = Stage::with(disk.server()).await;
    let clients: [Client; 2] = [stage.client().await, stage.client().await];
    let lock = clients[0].fenced_lock(LOCK);
    let visits = clients.iter().map(|client| {
        let lock = client.fenced_lock(LOCK);
        tokio::spawn(async move {
            let mut tokens = Vec::new();
            while tokens.len() < 100 {
                let guard = lock.lock().await.unwrap();
                tokens.push(guard.token().value());
                guard.unlock().await.unwrap();
            }
            tokens
        })
    });
    let visits: Vec<_> = visits.collect();
    for _ in 0..4 {
        disk.fail(&stage).await;
        sleep(Duration::from_millis(200)).await;
        disk.heal(&stage).await;
        sleep(Duration::from_millis(20)).await;
    }
    let mut tokens = Vec::new();
    for visit in visits {
        let mine = within(2 * PATIENCE, "for all visits", visit).await.unwrap();
        assert!(mine.is_sorted(), "{mine:?}");
        tokens.extend(mine);
    }
    tokens.sort();
    tokens.dedup();
    assert_eq!(tokens.len(), 200, "each visit has a token of its own");
    assert_eq!(lock.latest_token().await.unwrap().unwrap().value(), tokens[199]);
    held::end(&stage, clients).await;
}
