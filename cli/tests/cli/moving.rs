//! What `who`, `ls`, `ask` and `force-unlock` say of a lock that changes while they look: its slot moves, or its
//! holders do.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use harness::{
    PATIENCE, RedisCluster, Servers, eventually,
    redis::{Value, cmd},
};

use crate::stage::{LOCK, Running, Stage, cli, code, err, json, out};

const ID: &str = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";

/// The key of the lock has gone before the others of its slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_in_a_slot_that_moves_is_seen_asked_and_freed() {
    let cluster = tokio::task::spawn_blocking(RedisCluster::start).await.unwrap();
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let redis = cluster.inspector();
    for kind in ["fenced", "write", "fair"] {
        let line = ["run", "--kind", kind, kind, "--", "sleep", "600"];
        let holder = Running::start(cli(&url, &line));
        let held = || redis.holder(kind).filter(|_| redis.pttl(kind) > 0);
        let id = eventually(PATIENCE, "a hold", held).await.id();
        let waiter = Running::start(cli(&url, &["run", "--kind", kind, kind, "--", "true"]));
        let done = |line: &[&str]| cli(&url, line).output().unwrap();
        let listed = || {
            let listed = json(&done(&["--json", "ls"]));
            listed.into_iter().find(|lock| lock["name"] == kind && lock["waiters"] == 1)
        };
        eventually(PATIENCE, "a waiter", listed).await;
        let from = cluster.master_of(kind);
        let to = cluster.masters().into_iter().find(|&node| node != from).expect("another master");
        cluster.begin_to_move_slot_of(kind, to);
        cluster.move_keys(&[kind], to);

        let lists = done(&["--json", "ls"]);
        let lock = json(&lists).into_iter().find(|lock| lock["name"] == kind);
        let lock = lock.unwrap_or_else(|| panic!("{kind} is not listed: {lists:?}"));
        assert_eq!((&lock["kind"], &lock["waiters"]), (&kind.into(), &1.into()), "{lock}");
        assert!(lock["holders"][0]["id"].as_str().unwrap().starts_with(&id), "{lock}");
        let watched = json(&done(&["--json", "watch", "--count", "1"]));
        assert!(watched[0]["locks"].as_array().unwrap().iter().any(|lock| lock["name"] == kind));
        let who = done(&["--json", "who", kind]);
        assert_eq!(code(&who), 0, "{who:?}");
        let who = json(&who);
        assert_eq!((&who[0]["kind"], &who[0]["waiters"]), (&kind.into(), &1.into()), "{who:?}");
        let asked = done(&["ask", kind]);
        assert_eq!(code(&asked), 0, "{asked:?}");
        drop(waiter);
        let freed = done(&["force-unlock", kind, "--any"]);
        if kind == "fair" {
            // Its keys are on two servers.
            assert_eq!(code(&freed), 69, "{freed:?}");
            assert!(err(&freed).contains("TRYAGAIN"), "{freed:?}");
        } else {
            assert_eq!((code(&freed), &*out(&freed)), (0, "freed\n"), "{freed:?}");
        }
        drop(holder);
        cluster.move_slot_of(kind, to);
    }
}

/// Between two holders it is free, and then it is not.
#[test]
fn a_lock_that_is_passed_on_all_the_time_is_a_lock() {
    let stage = Stage::new();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let redis = stage.redis();
            while !ends.load(Ordering::Relaxed) {
                let _: Value = redis.query(cmd("HSET").arg(LOCK).arg(ID).arg(1));
                thread::sleep(Duration::from_millis(1));
                let _: Value = redis.query(cmd("DEL").arg(LOCK));
                thread::sleep(Duration::from_millis(1));
            }
        });
        let other = ID.replace("17", "18");
        let run = || {
            for _ in 0..40 {
                let asked = stage.done(&["ask", LOCK]);
                let freed = stage.done(&["force-unlock", LOCK, "--if-holder", &other]);
                for done in [asked, freed] {
                    let told = err(&done);
                    let is_told = told.contains("nobody holds") || told.contains("does not hold");
                    if code(&done) != 0 && !(code(&done) == 1 && is_told) {
                        return Err(done);
                    }
                }
            }
            Ok(())
        };
        let said = run();
        ends.store(true, Ordering::Relaxed);
        assert!(said.is_ok(), "{said:?}");
    });
}
