//! `run`: exit codes, environment, waiting, bad input.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    process::Stdio,
};

use harness::redis::{Value, cmd};

use crate::stage::{LOCK, Running, Stage, cli, code, err, members, out, with_signals};

#[test]
fn the_exit_code_of_the_command_is_handed_on() {
    let stage = Stage::new();
    for (script, expected) in
        [("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143), ("exit 255", 255)]
    {
        let done = stage.done(&["run", LOCK, "--", "sh", "-c", script]);
        assert_eq!(code(&done), expected, "{script}: {done:?}");
        assert_eq!(err(&done), "", "{script}");
        assert!(!stage.redis().exists(LOCK), "{script}");
    }
}

#[test]
fn a_command_that_cannot_be_run_is_told_as_in_shells() {
    let stage = Stage::new();
    let done = stage.done(&["run", LOCK, "--", "no-such-command"]);
    assert_eq!(code(&done), 127);
    assert!(err(&done).contains("no-such-command"), "{done:?}");
    let plain = stage.file("plain");
    fs::write(&plain, "x").unwrap();
    let done = stage.done(&["run", LOCK, "--", plain.to_str().unwrap()]);
    assert_eq!(code(&done), 126, "{done:?}");
    assert!(!stage.redis().exists(LOCK));
}

#[test]
fn the_command_knows_its_lock_and_holds_it() {
    let stage = Stage::new();
    let program = env!("CARGO_BIN_EXE_redisson-lock");
    let script = format!(
        "echo $REDISSON_LOCK_NAME $REDISSON_LOCK_HOLDER ${{REDISSON_LOCK_TOKEN-none}}; {program} --json ls"
    );
    for (kind, token) in [
        ("lock", "none"),
        ("fair", "none"),
        ("read", "none"),
        ("write", "none"),
        ("spin", "none"),
        ("fenced", "1"),
        ("fenced", "2"),
    ] {
        // One of an outer `run` is not its own.
        let mut command = stage.cli(&["run", "--kind", kind, kind, "--", "sh", "-c", &script]);
        let done = command.env("REDISSON_LOCK_TOKEN", "77").output().unwrap();
        assert_eq!(code(&done), 0, "{done:?}");
        let (out, listed) = (out(&done), out(&done));
        let words: Vec<_> = out.lines().next().unwrap().split(' ').collect();
        assert_eq!((words[0], words[2]), (kind, token), "{out}");
        let listed: serde_json::Value =
            serde_json::from_str(listed.lines().nth(1).unwrap()).unwrap();
        assert_eq!(listed["name"], kind);
        assert_eq!(listed["holders"][0]["id"], words[1]);
        assert!(!stage.redis().exists(kind), "{kind}");
    }
}

#[test]
fn input_and_output_are_the_commands() {
    let stage = Stage::new();
    let mut command = stage.cli(&["--json", "run", LOCK, "--", "cat"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through").unwrap();
    let done = child.wait_with_output().unwrap();
    assert_eq!((code(&done), &*out(&done)), (0, "through"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_held_is_not_got() {
    let stage = Stage::new();
    let (script, file) = stage.family("holder", false);
    let holder = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    members(&file).await;
    let marker = stage.file("started");
    for wait in ["0", "300ms"] {
        let line = ["run", "--wait", wait, LOCK, "--", "touch", marker.to_str().unwrap()];
        let done = stage.done(&line);
        assert_eq!(code(&done), 75, "{done:?}");
        assert!(err(&done).contains(LOCK), "{done:?}");
    }
    let done = stage.done(&["--json", "run", "--wait", "0", LOCK, "--", "true"]);
    let told: serde_json::Value = serde_json::from_str(&err(&done)).unwrap();
    assert_eq!(told["code"], 75);
    assert!(!marker.exists());
    holder.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(code(&holder.end().await), 143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_is_told_once_with_the_holder() {
    let stage = Stage::new();
    let (script, file) = stage.family("holder", false);
    let holder = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    members(&file).await;
    let id = stage.redis().holder(LOCK).unwrap().id();
    let waiters = [&["run", LOCK][..], &["--json", "run", "--wait", "1h", LOCK]];
    let waiters = waiters.map(|line| {
        let mut command = stage.cli(&[line, &["--", "true"]].concat());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut told = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        told.read_line(&mut line).unwrap();
        (child, told, line)
    });
    holder.signal(nix::sys::signal::Signal::SIGTERM);
    holder.end().await;
    let said = format!("waiting for the lock {LOCK:?}, held by {id}");
    assert_eq!(waiters[0].2, format!("redisson-lock: {said}\n"));
    let told: serde_json::Value = serde_json::from_str(&waiters[1].2).unwrap();
    assert_eq!(told["message"], *said);
    for (mut child, mut told, _) in waiters {
        let mut rest = String::new();
        told.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(child.wait().unwrap().success());
    }
}

/// The holder need not use this crate.
#[test]
fn a_wait_for_a_plain_lock_is_told_with_the_token_of_the_holder() {
    let stage = Stage::new();
    let redis = stage.redis();
    let _: Value = redis.query(cmd("SET").arg(LOCK).arg("job-7").arg("PX").arg(600_000));
    let mut command = stage.cli(&["run", "--kind", "plain", LOCK, "--", "true"]);
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut told = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut told).unwrap();
    let _: Value = redis.query(cmd("DEL").arg(LOCK));
    assert!(child.wait().unwrap().success());
    assert_eq!(told, format!("redisson-lock: waiting for the lock {LOCK:?}, held by job-7\n"));
}

/// As where /dev/fd is missing.
#[test]
fn a_gate_that_cannot_be_opened_is_told() {
    let stage = Stage::new();
    let done = stage.done(&["__launch", "987", "--", "true"]);
    assert_eq!(code(&done), 126, "{done:?}");
    assert!(err(&done).contains("/dev/fd/987"), "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_is_started_when_the_one_before_has_ended() {
    let stage = Stage::new();
    let log = stage.file("log");
    let log = log.to_str().unwrap();
    // Each says when it begins and ends: nothing comes between.
    let script = format!("echo begin $$ >> {log}; sleep 0.1; echo end $$ >> {log}");
    let all: Vec<_> = (0..5)
        .map(|n| {
            let kind = if n % 2 == 0 { "fair" } else { "lock" };
            Running::start(stage.cli(&["run", "--kind", kind, LOCK, "--", "sh", "-c", &script]))
        })
        .collect();
    for one in all {
        assert_eq!(code(&one.end().await), 0);
    }
    let text = fs::read_to_string(log).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 10, "{text}");
    for pair in lines.chunks(2) {
        assert_eq!(pair[0].strip_prefix("begin"), pair[1].strip_prefix("end"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share_a_lock_and_a_writer_does_not() {
    let stage = Stage::new();
    let (script, file) = stage.family("reader", false);
    let reader =
        Running::start(stage.cli(&["run", "--kind", "read", LOCK, "--", "sh", "-c", &script]));
    members(&file).await;
    let line = |kind| stage.done(&["run", "--wait", "0", "--kind", kind, LOCK, "--", "true"]);
    assert_eq!(code(&line("read")), 0);
    assert_eq!(code(&line("write")), 75);
    reader.signal(nix::sys::signal::Signal::SIGTERM);
    reader.end().await;
    assert_eq!(code(&line("write")), 0);
}

#[test]
fn without_redis_nothing_is_started() {
    let stage = Stage::new();
    let marker = stage.file("started");
    let line = ["run", LOCK, "--", "touch", marker.to_str().unwrap()];
    // Nobody listens there.
    let done = cli("redis://:hush@127.0.0.1:1", &line).output().unwrap();
    assert_eq!(code(&done), 69, "{done:?}");
    assert!(!err(&done).is_empty() && !err(&done).contains("hush"), "{done:?}");
    assert!(!marker.exists());
}

/// For wrappers, 75 is a command that runs elsewhere.
#[test]
fn a_lock_that_no_replica_confirms_is_not_held_by_another() {
    let stage = Stage::new();
    let (file, marker) = (stage.file("config.json"), stage.file("started"));
    let text =
        format!("{{\"url\": \"{}\", \"replicas\": {{\"at_least\": 1}}}}", stage.server.url());
    fs::write(&file, text).unwrap();
    let line = ["--config", file.to_str().unwrap(), "run", "--wait", "0", LOCK, "--", "touch"];
    let done = stage.done(&[&line[..], &[marker.to_str().unwrap()]].concat());
    assert_eq!(code(&done), 69, "{done:?}");
    assert!(err(&done).contains("0 of 1 required replicas"), "{done:?}");
    assert!(!err(&done).contains("held by"), "by itself: {done:?}");
    assert!(!marker.exists() && !stage.redis().exists(LOCK));
}

#[test]
fn a_command_line_that_makes_no_sense_is_one_sentence_and_nothing_is_sent() {
    let stage = Stage::new();
    let connections = || -> String {
        let info: String = stage.redis().query(cmd("INFO").arg("stats"));
        let line = info.lines().find(|line| line.starts_with("total_connections_received:"));
        line.unwrap().rsplit_once(':').unwrap().1.trim().to_owned()
    };
    let before: usize = connections().parse().unwrap();
    let cases: [&[&str]; 13] = [
        &[],
        &["walk"],
        &["run", LOCK],
        &["run", LOCK, "true"],
        &["run", "--wait", "soon", LOCK, "--", "true"],
        &["run", "--lease", "1ms", LOCK, "--", "true"],
        &["run", "--watchdog", "0", LOCK, "--", "true"],
        &["run", "--watchdog", "25h", LOCK, "--", "true"],
        &["run", "", "--", "true"],
        &["force-unlock", LOCK],
        &["force-unlock", LOCK, "--if-holder", "mode"],
        &["force-unlock", LOCK, "--any", "--if-holder", "x"],
        &["watch", "--interval", "1ms"],
    ];
    for line in cases {
        let done = stage.done(line);
        assert_eq!(code(&done), 64, "{line:?}: {done:?}");
        assert_eq!(err(&done).lines().count(), 1, "{line:?}: {done:?}");
        assert_eq!(out(&done), "", "{line:?}");
    }
    let url = ["--redis", "http://:hush@h", "ls"];
    let done = stage.done(&url);
    assert_eq!((code(&done), err(&done).contains("hush")), (64, false), "{done:?}");
    // Only the two looks of this test.
    assert_eq!(connections().parse::<usize>().unwrap(), before + 1);
}

#[test]
fn a_configuration_comes_from_a_file() {
    let stage = Stage::new();
    let (yaml, json, bad) = (stage.file("a.yaml"), stage.file("b.json"), stage.file("c.yaml"));
    let url = stage.server.url();
    fs::write(&yaml, format!("singleServerConfig:\n  address: \"{url}\"\n")).unwrap();
    fs::write(&json, format!("{{\"url\": \"{url}\", \"prefix\": \"app:\"}}")).unwrap();
    fs::write(&bad, "singleServerConfig: 7\n").unwrap();
    let run = |file: &std::path::Path| {
        let line = ["--config", file.to_str().unwrap(), "run", LOCK, "--", "true"];
        // It comes before the variable.
        cli("redis://127.0.0.1:1", &line).output().unwrap()
    };
    assert_eq!(code(&run(&yaml)), 0, "{:?}", run(&yaml));
    assert_eq!(code(&run(&json)), 0, "{:?}", run(&json));
    for file in [bad, stage.file("none.yaml")] {
        let done = run(&file);
        assert_eq!((code(&done), err(&done).lines().count()), (78, 1), "{done:?}");
        assert!(err(&done).contains(file.to_str().unwrap()), "{done:?}");
    }
}

#[test]
fn a_prefix_is_part_of_the_key_and_not_of_the_name() {
    let stage = Stage::new();
    let json = stage.file("b.json");
    let url = stage.server.url();
    fs::write(&json, format!("{{\"url\": \"{url}\", \"prefix\": \"a*p:\"}}")).unwrap();
    let _: Value = stage.redis().query(cmd("HSET").arg("axp:other").arg("f").arg("1"));
    let program = env!("CARGO_BIN_EXE_redisson-lock");
    let file = json.to_str().unwrap();
    let script = format!("{program} --config {file} --json ls 'or*'");
    let done = stage.done(&["--config", file, "run", LOCK, "--", "sh", "-c", &script]);
    let listed: serde_json::Value = serde_json::from_str(&out(&done)).unwrap();
    assert_eq!(listed["name"], LOCK);
    assert_eq!(listed["key"], format!("a*p:{LOCK}"));
}

/// A shell that ignores SIGCHLD, as some daemons do, has its children reaped by the system.
#[test]
fn an_inherited_disregard_for_children_costs_no_exit_code() {
    let stage = Stage::new();
    let line = ["run", LOCK, "--", "sh", "-c", "exit 7"];
    let done = with_signals("--ignore-signal=CHLD", &stage.server.url(), &line).output().unwrap();
    assert_eq!(code(&done), 7, "{done:?}");
}
