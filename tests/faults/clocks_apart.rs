//! Servers of one lock whose clocks differ: those of a majority, and a master and its replica.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use harness::{PATIENCE, Proxy, RedisServer, ServerClock, assert_nothing_left, eventually};
use redisson_lock::{Client, Config, Error, Loss, MultiGuard, MultiLock};
use tokio::time::sleep;

use crate::clock_steps::{LARGE, SMALL, longest_overlap, set};
use crate::held::{SLACK, all_told, one_of_each, rival_of};
use crate::stage::{LOCK, SHORT, connect, renewed, soon};

/// Three servers, each with a clock.
struct Fleet {
    clocks: [ServerClock; 3],
    servers: Vec<RedisServer>,
}

impl Fleet {
    fn start() -> Self {
        let clocks = [(); 3].map(|()| ServerClock::running(1.0));
        let start = |clock| RedisServer::builder().clock(clock).start();
        let servers = clocks.iter().map(start).collect();
        Self { clocks, servers }
    }

    async fn user(&self) -> Vec<Client> {
        let config = |server: &RedisServer| Config::from_url(server.url()).unwrap().watchdog(SHORT);
        join_all(self.servers.iter().map(|server| connect(config(server)))).await
    }
}

fn majority(user: &[Client]) -> MultiLock {
    MultiLock::majority(user.iter().map(|client| client.lock(LOCK)))
}

/// One of three is a minority; of two it is what it is for one server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_majority_outlives_the_clock_of_one_server_and_is_told_of_two() {
    let each = [(true, SMALL), (true, LARGE), (false, SMALL), (false, LARGE)];
    let each = each.map(|(ahead, step)| {
        tokio::spawn(async move {
            let fleet = Fleet::start();
            let (one, other) = (fleet.user().await, fleet.user().await);
            let held: MultiGuard = soon("a lock", majority(&one).lock()).await.unwrap();
            // A grant that joins late would outlive the step.
            let all = || (held.held_members() == 3).then_some(());
            eventually(PATIENCE, "all servers", all).await;
            set(&fleet.clocks[0], ahead, step);
            let tried = soon("an answer", majority(&other).try_lock()).await.unwrap();
            assert!(tried.is_none(), "two have a majority");
            sleep(SHORT).await;
            assert!(held.is_held() && held.held_members() >= 2);
            set(&fleet.clocks[1], ahead, step);
            let stepped = Instant::now();
            // A server that answers late may count as one that refuses, once.
            let tried = majority(&other);
            let tried = soon("an answer", tried.try_lock().wait(SLACK)).await.unwrap();
            match tried {
                Some(next) => {
                    assert!(ahead, "freed too early");
                    soon("to be told", held.lost()).await;
                    let overlap = stepped.elapsed();
                    println!("majority, two clocks {step:?} ahead: told after {overlap:?}");
                    assert!(overlap < longest_overlap(step) + SLACK, "told after {overlap:?}");
                    let unlocked = held.unlock().await;
                    assert!(matches!(unlocked, Err(Error::NotHeld { .. })), "{unlocked:?}");
                    assert!(next.is_held());
                    next.unlock().await.unwrap();
                }
                None => {
                    assert!(!ahead, "kept too long");
                    held.unlock().await.unwrap();
                }
            }
            let again = soon("a lock", majority(&other).lock()).await.unwrap();
            again.unlock().await.unwrap();
            for client in one.into_iter().chain(other) {
                soon("to close", client.close()).await.unwrap();
            }
            for server in &fleet.servers {
                assert_nothing_left(server).await;
            }
        })
    });
    for one in each {
        one.await.unwrap();
    }
}

/// A replica whose clock is ahead frees what is held when it becomes master; one whose clock is behind keeps what is dead for longer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_with_another_clock_becomes_master() {
    for ahead in [true, false] {
        let clock = ServerClock::running(1.0);
        let master = RedisServer::start();
        let port = master.port().to_string();
        let heir = RedisServer::builder().clock(&clock).arg("--replicaof").arg("127.0.0.1");
        let heir = heir.arg(port).arg("--repl-diskless-sync-delay").arg("0").start();
        let proxy = Proxy::start(master.port()).await;
        // Where all holds are to survive the change, a busy machine has time for it.
        let watchdog = if ahead { SHORT } else { 3 * SHORT };
        let config = Config::from_url(proxy.url()).unwrap().watchdog(watchdog);
        let (client, other) = (connect(config.clone()).await, connect(config).await);
        set(&clock, ahead, SMALL);
        let held = one_of_each(&client, "held").await;
        let confirmed: u32 = master.inspector().query(cmd("WAIT").arg(1).arg(10_000));
        assert_eq!(confirmed, 1, "the replica has the locks");
        let () = heir.inspector().query(cmd("REPLICAOF").arg("NO").arg("ONE"));
        proxy.lead_to(heir.port());
        let changed = Instant::now();
        proxy.cut_all();
        drop(master);
        if ahead {
            let mut longest = Duration::ZERO;
            for told in all_told(held).await.unwrap() {
                longest = longest.max(told.at - changed);
                assert!(matches!(told.why, Loss::Removed | Loss::Taken), "{}", told.held.name);
                told.held.stays_lost().await;
            }
            println!("heir {SMALL:?} ahead: told {longest:?} after it became master");
            assert!(longest < longest_overlap(SMALL) + SLACK, "told after {longest:?}");
        } else {
            for held in held {
                renewed(&held.guard).await;
                let rival = rival_of(&other, held.kind, &held.name);
                assert!(rival.try_lock().await.unwrap().is_none(), "{}", held.name);
                held.guard.unlock().await.unwrap();
            }
        }
        let guard = soon("a lock", other.lock(LOCK).lock()).await.unwrap();
        guard.unlock().await.unwrap();
        for client in [client, other] {
            soon("to close", client.close()).await.unwrap();
        }
    }
}
