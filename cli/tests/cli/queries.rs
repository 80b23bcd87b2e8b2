//! `who`, `ls`, `watch`, `force-unlock`.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use harness::{
    PATIENCE, RedisCluster, eventually,
    redis::{Value, cmd},
};
use nix::sys::signal::Signal;

use crate::stage::{LOCK, Running, Stage, cli, code, err, json, members, out};

/// A command that holds a lock until it is told to end.
async fn holder(stage: &Stage, kind: &str, name: &str) -> Running {
    let (script, file) = stage.family(&name.replace(':', "-"), false);
    let line = ["run", "--kind", kind, name, "--", "sh", "-c", &script];
    let one = Running::start(stage.cli(&line));
    members(&file).await;
    one
}

async fn end(holders: Vec<Running>) {
    for one in holders {
        one.signal(Signal::SIGTERM);
        assert_eq!(code(&one.end().await), 143);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_shows_holders_and_waiters() {
    let stage = Stage::new();
    let free = stage.done(&["who", LOCK]);
    assert_eq!((code(&free), &*out(&free)), (0, "order:42: free (lock)\n"));
    let one = holder(&stage, "fair", LOCK).await;
    let id = stage.redis().holder(LOCK).unwrap().id();
    let waiter = Running::start(stage.cli(&["run", "--kind", "fair", LOCK, "--", "true"]));
    let redis = stage.redis();
    eventually(PATIENCE, "a waiter", || (redis.line(LOCK).len() == 1).then_some(())).await;
    let told = out(&stage.done(&["who", LOCK]));
    assert!(told.contains(&id) && told.contains("waiter 1") && told.contains("(fair)"), "{told}");
    let told = json(&stage.done(&["--json", "who", LOCK]));
    assert_eq!(told[0]["holders"][0]["id"], id);
    assert_eq!(told[0]["queue"].as_array().unwrap().len(), 1);
    assert_eq!((&told[0]["held"], &told[0]["waiters"]), (&true.into(), &1.into()));
    assert!(told[0]["ttl_ms"].as_u64().unwrap() > 0);
    waiter.signal(Signal::SIGTERM);
    waiter.end().await;
    end(vec![one]).await;
    // What is no lock is told to be none.
    let _: Value = stage.redis().query(cmd("SET").arg("text").arg("x"));
    let wrong = stage.done(&["who", "text"]);
    assert_eq!((code(&wrong), err(&wrong).lines().count()), (65, 1), "{wrong:?}");
}

/// Else nobody would find who has it.
#[test]
fn a_lock_is_one_whatever_has_the_names_beside_it() {
    let stage = Stage::new();
    let redis = stage.redis();
    let id = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:1";
    for beside in ["redisson_lock_queue", "redisson_lock_timeout"] {
        let _: Value = redis.query(cmd("HSET").arg(LOCK).arg(id).arg(1));
        let beside = format!("{beside}:{{{LOCK}}}");
        let _: Value = redis.query(cmd("SET").arg(&beside).arg("x"));
        let seen = json(&stage.done(&["ls", "--json"]));
        assert_eq!((seen.len(), &seen[0]["name"]), (1, &LOCK.into()), "{beside}");
        let who = stage.done(&["who", LOCK]);
        assert_eq!(code(&who), 0, "{beside}: {who:?}");
        assert!(out(&who).contains(id) && out(&who).contains("(lock)"), "{beside}: {who:?}");
        let freed = stage.done(&["force-unlock", LOCK, "--any"]);
        assert_eq!((code(&freed), &*out(&freed)), (0, "freed\n"), "{beside}: {freed:?}");
        let _: Value = redis.query(cmd("DEL").arg(&beside));
    }
}

/// The driver may take three fields of these names for a message, and give each later reply to the command before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hashes_of_others_do_not_mix_up_the_answers() {
    let stage = Stage::new();
    let redis = stage.redis();
    let of_others =
        [&["message", "level", "time"][..], &["pmessage", "a", "b", "c"], &["subscribe", "a", "b"]];
    for (n, fields) in of_others.iter().enumerate() {
        for field in *fields {
            redis.query::<()>(cmd("HSET").arg(format!("job:{n}")).arg(field).arg("x"));
        }
    }
    let holder = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";
    redis.query::<()>(cmd("HSET").arg(LOCK).arg(holder).arg(1));
    let done = stage.done(&["ls"]);
    assert_eq!(code(&done), 0, "{done:?}");
    assert!(out(&done).contains(holder) && out(&done).lines().count() == 2, "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ls_finds_the_locks_among_all_keys() {
    let stage = Stage::new();
    let mut redis = stage.server.client();
    let mut pipe = harness::redis::pipe();
    for n in 0..5_000 {
        pipe.hset(format!("user:{n}"), "name", "x").ignore();
        pipe.set(format!("text:{n}"), "x").ignore();
    }
    let () = pipe.query(&mut redis).unwrap();
    assert_eq!(out(&stage.done(&["ls"])).lines().count(), 1, "the heading");
    let holders = vec![
        holder(&stage, "lock", "a:1").await,
        holder(&stage, "fenced", "a:2").await,
        holder(&stage, "write", "b:1").await,
    ];
    let all = json(&stage.done(&["ls", "--json"]));
    let seen: Vec<_> = all
        .iter()
        .map(|lock| (lock["name"].as_str().unwrap(), lock["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(seen, [("a:1", "lock"), ("a:2", "fenced"), ("b:1", "write")]);
    let some = out(&stage.done(&["ls", "a:*"]));
    let names: Vec<_> = some.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(names, ["NAME", "a:1", "a:2"], "{some}");
    end(holders).await;
}

/// The server stands still for no hash of another program.
#[test]
fn a_hash_of_any_size_is_read_in_parts() {
    const FOREIGN: &str =
        "for i = 1, 1000000 do redis.call('hset', KEYS[1], 'field' .. i, 'value' .. i) end";
    const READERS: &str = "redis.call('hset', KEYS[1], 'mode', 'read') \
        for i = 1, 20000 do redis.call('hset', KEYS[1], '6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:' .. i, 1) end";
    let stage = Stage::new();
    let redis = stage.redis();
    for (key, fill) in [("foreign", FOREIGN), (LOCK, READERS)] {
        let _: Value = redis.query(cmd("EVAL").arg(fill).arg(1).arg(key));
    }
    let value = "x".repeat(10_000_000);
    let _: Value = redis.query(cmd("HSET").arg("document").arg("body").arg(value));
    let _: Value = redis.query(cmd("CONFIG").arg("RESETSTAT"));
    let seen = json(&stage.done(&["ls", "--json"]));
    assert_eq!((seen.len(), &seen[0]["name"]), (1, &LOCK.into()));
    assert_eq!(seen[0]["holders"].as_array().unwrap().len(), 20_000);
    let watched = json(&stage.done(&["watch", "--count", "1", "--json"]));
    assert_eq!(watched.len(), 1);
    for (key, more) in [(LOCK, 10_000..20_000), ("foreign", 990_000..1_000_000)] {
        let who = json(&stage.done(&["who", key, "--json"]));
        assert_eq!(who[0]["held"], true);
        assert!(more.contains(&who[0]["more_holders"].as_u64().unwrap()), "{key}");
        let told = out(&stage.done(&["who", key]));
        assert!(told.contains("more holders"), "{told}");
    }
    let info = |section: &str| -> String { redis.query(cmd("INFO").arg(section)) };
    let (stats, commands) = (info("stats"), info("commandstats"));
    assert!(!["hgetall", "hkeys"].iter().any(|whole| commands.contains(whole)), "{commands}");
    let sent = stats.lines().find_map(|line| line.strip_prefix("total_net_output_bytes:"));
    let sent: u64 = sent.unwrap().trim().parse().unwrap();
    assert!(sent < 9_000_000, "{sent} bytes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_lock_lists_its_readers() {
    let stage = Stage::new();
    let lock = "catalog";
    let (one, other) = {
        let start = |name: &str| {
            let (script, file) = stage.family(name, false);
            let line = ["run", "--kind", "read", lock, "--", "sh", "-c", &script];
            (Running::start(stage.cli(&line)), file)
        };
        let (one, other) = (start("one"), start("other"));
        members(&one.1).await;
        members(&other.1).await;
        (one.0, other.0)
    };
    let ids: Vec<_> = stage.redis().holders(lock).iter().map(|holder| holder.id()).collect();
    assert_eq!(ids.len(), 2);
    for line in [["ls", "*"], ["who", lock]] {
        let told = out(&stage.done(&line));
        assert!(ids.iter().all(|id| told.contains(id)), "{told}");
    }
    // One of them is freed, and the other stays.
    let freed = stage.done(&["force-unlock", lock, "--if-holder", &ids[0]]);
    assert_eq!((code(&freed), &*out(&freed)), (0, "freed\n"));
    let left: Vec<_> = stage.redis().holders(lock).iter().map(|holder| holder.id()).collect();
    assert_eq!(left, ids[1..]);
    drop((one, other));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn force_unlock_frees_the_holder_that_is_named_and_no_other() {
    let stage = Stage::new();
    let other = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";
    for kind in ["lock", "fair", "write", "fenced", "read"] {
        let one = holder(&stage, kind, kind).await;
        let id = json(&stage.done(&["who", kind, "--json"]))[0]["holders"][0]["id"].clone();
        let id = id.as_str().unwrap();
        let wrong = stage.done(&["--json", "force-unlock", kind, "--if-holder", other]);
        assert_eq!((code(&wrong), &json(&wrong)[0]["freed"]), (1, &false.into()), "{wrong:?}");
        assert!(stage.redis().exists(kind), "{kind}");
        let right = stage.done(&["--json", "force-unlock", kind, "--if-holder", id]);
        assert_eq!((code(&right), &json(&right)[0]["freed"]), (0, &true.into()), "{right:?}");
        assert!(!stage.redis().exists(kind), "{kind}");
        let again = stage.done(&["force-unlock", kind, "--if-holder", id]);
        assert_eq!(code(&again), 1, "{again:?}");
        drop(one);
    }
    assert_eq!(code(&stage.done(&["force-unlock", "free", "--any"])), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_shows_the_locks_again_and_again() {
    let stage = Stage::new();
    let one = holder(&stage, "lock", LOCK).await;
    let line = ["--json", "watch", "--interval", "100ms", "--count", "3"];
    let looks = json(&stage.done(&line));
    assert_eq!(looks.len(), 3);
    assert!(looks.iter().all(|look| look["locks"][0]["name"] == LOCK), "{looks:?}");
    assert_eq!(looks[2]["locks"][0]["new_holders_per_s"], 0.0);
    let text = out(&stage.done(&["watch", "--count", "1"]));
    assert!(text.starts_with("NAME") && text.contains(LOCK), "{text}");
    end(vec![one]).await;
}

/// `redisson-lock watch | head -1`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_ends_when_nobody_reads_it() {
    let stage = Stage::new();
    for line in [&["watch", "--interval", "100ms"][..], &["--json", "watch", "--interval", "100ms"]]
    {
        let mut child = stage.cli(line).stdout(Stdio::piped()).spawn().unwrap();
        let mut read = BufReader::new(child.stdout.take().unwrap());
        let mut first = String::new();
        read.read_line(&mut first).unwrap();
        drop(read);
        let status = eventually(PATIENCE, "the end of watch", || child.try_wait().unwrap()).await;
        assert_eq!(status.code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_masters_of_a_cluster_are_looked_at() {
    let cluster = tokio::task::spawn_blocking(RedisCluster::start).await.unwrap();
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let folder = tempfile::tempdir().unwrap();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let on: std::collections::BTreeSet<_> =
        names.iter().map(|name| cluster.master_of(name)).collect();
    assert!(on.len() > 1, "they are on several masters");
    let mut holders = Vec::new();
    for name in names {
        let file = folder.path().join(name);
        let script = format!("touch {}; exec sleep 600", file.display());
        holders.push(Running::start(cli(&url, &["run", name, "--", "sh", "-c", &script])));
    }
    for name in names {
        let begun = || folder.path().join(name).exists().then_some(());
        eventually(PATIENCE, "the command to start", begun).await;
    }
    let seen = json(&cli(&url, &["--json", "ls"]).output().unwrap());
    let seen: Vec<_> = seen.iter().map(|lock| lock["name"].as_str().unwrap()).collect();
    assert_eq!(seen, names);
    let doctor = cli(&url, &["doctor"]).output().unwrap();
    assert_eq!(code(&doctor), 0, "{doctor:?}");
    assert!(on.len() <= out(&doctor).lines().filter(|line| line.contains("version")).count());
    end(holders).await;

    let away = names.iter().find(|name| cluster.master_of(name) != cluster.master_of("a")).unwrap();
    let one = format!("redis://{}", cluster.addresses()[cluster.master_of("a")]);
    let done = cli(&one, &["who", away]).output().unwrap();
    assert!(err(&done).contains("use a redis-cluster:// URL"), "{done:?}");
}

#[test]
fn without_redis_there_is_nothing_to_show() {
    for line in
        [&["ls"][..], &["who", "x"], &["watch"], &["doctor"], &["force-unlock", "x", "--any"]]
    {
        let done = cli("redis://127.0.0.1:1", line).output().unwrap();
        assert_eq!((code(&done), err(&done).lines().count()), (69, 1), "{line:?}: {done:?}");
        assert_eq!(out(&done), "");
    }
}

#[test]
fn help_is_no_error() {
    let stage = Stage::new();
    for line in [&["--help"][..], &["run", "--help"], &["--version"]] {
        let done = stage.done(line);
        assert_eq!((code(&done), &*err(&done)), (0, ""));
        assert!(!out(&done).contains("__"), "{done:?}");
    }
}
