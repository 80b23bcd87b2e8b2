//! Who holds a lock: what `run` announces, and what the other subcommands show of it.

use harness::{PATIENCE, eventually, redis::cmd};
use nix::sys::signal::Signal;
use serde_json::Value as Json;

use crate::stage::{LEASE, LOCK, Running, Stage, code, json, members, out};

/// The hashes in which clients announce themselves.
fn announcements(stage: &Stage) -> Vec<String> {
    let keys = stage.redis().keys().into_iter();
    keys.filter(|key| key.starts_with("redisson_lock_client:")).collect()
}

/// What `--json who` says about the holder, once the hold itself is announced.
async fn holder(stage: &Stage) -> Json {
    eventually(PATIENCE, "the hold to be announced", || {
        let told: Json = serde_json::from_str(&out(&stage.done(&["--json", "who", LOCK]))).ok()?;
        let announced = told["holders"][0]["announced"].clone();
        (announced["held_since_ms"] != Json::Null).then_some(announced)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn run_says_who_it_is_and_all_subcommands_show_it() {
    let stage = Stage::new();
    let (script, file) = stage.family("one", false);
    let line = ["run", "--watchdog", LEASE, "--note", "reindex of shop 7", LOCK, "--"];
    let line = [&line[..], &["sh", "-c", &script]].concat();
    let one = Running::start(stage.cli(&line));
    members(&file).await;
    let told = holder(&stage).await;
    assert_eq!(told["app"], "redisson-lock run");
    assert_eq!(told["pid"], one.pid());
    assert_eq!(told["note"], "reindex of shop 7");
    assert!(told["last_seen_ms"].as_u64().unwrap() < 30_000, "{told}");
    let pid = format!("process {}", one.pid());
    for line in [&["who", LOCK][..], &["ls"], &["watch", "--count", "1"]] {
        let text = out(&stage.done(line));
        for part in ["redisson-lock run", &pid, "reindex of shop 7", "seen "] {
            assert!(text.contains(part), "{line:?}: {text}");
        }
    }
    for line in [&["--json", "ls"][..], &["--json", "watch", "--count", "1"]] {
        let json: Json = serde_json::from_str(&out(&stage.done(line))).unwrap();
        let lock = if json["locks"] == Json::Null { &json } else { &json["locks"][0] };
        assert_eq!(lock["holders"][0]["announced"]["pid"], one.pid(), "{json}");
    }
    // An announcement is no lock.
    assert_eq!(announcements(&stage).len(), 1);
    assert_eq!(out(&stage.done(&["ls"])).lines().count(), 2);
    one.signal(Signal::SIGTERM);
    assert_eq!(code(&one.end().await), 143);
    assert!(stage.redis().keys().is_empty(), "{:?}", stage.redis().keys());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_announcement_of_a_run_that_was_killed_ends() {
    let stage = Stage::new();
    let (script, file) = stage.family("one", false);
    let secret = ["--watchdog", LEASE, LOCK, "--", "sh", "-c", &script, "s3cret"];
    let one = Running::start(stage.cli(&[&["run"][..], &secret].concat()));
    members(&file).await;
    let told = holder(&stage).await;
    assert_eq!(told["note"], "sh", "arguments may be secrets");
    one.signal(Signal::SIGKILL);
    assert_eq!(announcements(&stage).len(), 1, "nobody removes it");
    eventually(PATIENCE, "the end of all keys", || stage.redis().keys().is_empty().then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_that_announces_nothing_is_unknown() {
    let stage = Stage::new();
    let id = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:42";
    stage.redis().query::<()>(cmd("HSET").arg(LOCK).arg(id).arg(1));
    let told: Json = serde_json::from_str(&out(&stage.done(&["--json", "who", LOCK]))).unwrap();
    assert_eq!(told["holders"][0]["announced"], Json::Null);
    for line in [&["who", LOCK][..], &["ls"]] {
        let text = out(&stage.done(line));
        assert!(text.contains(id) && text.contains("unknown"), "{text}");
    }
}

/// The library asks about 2 000 holds at a time.
#[test]
fn each_holder_of_a_long_list_is_known() {
    const HOLDS: &str = "local client = ARGV[1] \
        redis.call('hset', 'redisson_lock_client:' .. client, 'app', 'indexer', 'since', 1, 'seen', 1) \
        for i = 1, 2100 do \
            redis.call('hset', 'shop:' .. i, client .. ':' .. i, 1) \
            redis.call('hset', 'redisson_lock_client:' .. client, 'hold:' .. i .. ':shop:' .. i, '7 shop ' .. i) \
        end";
    let stage = Stage::new();
    let client = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e";
    stage.redis().query::<()>(cmd("EVAL").arg(HOLDS).arg(0).arg(client));
    let watched = json(&stage.done(&["--json", "watch", "--count", "1"]));
    for locks in
        [json(&stage.done(&["--json", "ls"])), watched[0]["locks"].as_array().unwrap().clone()]
    {
        assert_eq!(locks.len(), 2_100);
        let is_known = |lock: &&Json| {
            let number = lock["name"].as_str().unwrap().strip_prefix("shop:").unwrap();
            lock["holders"][0]["announced"]["note"] == format!("shop {number}")
        };
        assert_eq!(locks.iter().filter(is_known).count(), 2_100);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_says_whether_a_client_may_announce_itself() {
    let stage = Stage::new();
    let checks = |output: &str| -> Vec<(String, String)> {
        let lines = output.lines().map(|line| serde_json::from_str::<Json>(line).unwrap());
        let text = |line: &Json, key: &str| line[key].as_str().unwrap().to_owned();
        let checks = lines.map(|line| (text(&line, "check"), text(&line, "verdict")));
        checks.filter(|(check, _)| check == "names" || check == "announcing").collect()
    };
    let both = |verdict: &str| {
        [("names".to_owned(), verdict.to_owned()), ("announcing".to_owned(), verdict.to_owned())]
    };
    assert_eq!(checks(&out(&stage.done(&["--json", "doctor"]))), both("ok"));
    let rules = "on >pw ~* &* +@all -client|setname -hset".split(' ');
    stage.redis().query::<()>(cmd("ACL").arg("SETUSER").arg("few").arg(rules.collect::<Vec<_>>()));
    let url = stage.server.url().replace("redis://", "redis://few:pw@");
    let done = crate::stage::cli(&url, &["--json", "doctor"]).output().unwrap();
    assert_eq!(checks(&out(&done)), both("warning"));
}
