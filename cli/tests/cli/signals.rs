//! `run` and signals: what consul's lock command does wrong, among others.

use std::{fs, time::Duration};

use harness::{PATIENCE, eventually};
use nix::sys::signal::Signal;

use crate::stage::{
    LOCK, Running, Stage, all_ended, any_runs, code, err, members, out, runs, standby_of,
    watch_the_end, where_numbers_are_of_others, with_signals,
};

/// A standby that waits for the end of trust would leave less of a lease of 30 s, in ms.
const LONG: i64 = 8_000;

/// hashicorp/consul#4439: deaf while it waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_wait_and_nothing_is_started() {
    let stage = Stage::new();
    let (script, file) = stage.family("holder", false);
    let holder = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    members(&file).await;
    let marker = stage.file("started");
    for (signal, expected) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGINT, 130),
        (Signal::SIGHUP, 129),
        (Signal::SIGQUIT, 131),
    ] {
        let line = ["run", "--kind", "fair", LOCK, "--", "touch", marker.to_str().unwrap()];
        let waiter = Running::start(stage.cli(&line));
        let redis = stage.redis();
        let waits = || (redis.line(LOCK).len() == 1).then_some(());
        harness::eventually(harness::PATIENCE, "a waiter", waits).await;
        waiter.signal(signal);
        let done = waiter.end().await;
        assert_eq!(code(&done), expected, "{done:?}");
        assert_eq!(err(&done).lines().count(), 1, "{done:?}");
        assert!(redis.line(LOCK).is_empty(), "it has left the line");
    }
    assert!(!marker.exists());
    holder.signal(Signal::SIGTERM);
    holder.end().await;
}

/// The signal comes between the grant and the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_before_the_start_is_not_said_to_come_before_the_lock() {
    let stage = Stage::new();
    let marker = stage.file("started");
    let (proxy, one) = stage.about_to_start(&marker).await;
    let standby = standby_of(one.pid()).await;
    one.signal(Signal::SIGTERM);
    all_ended(&[standby]).await;
    assert!(stage.redis().exists(LOCK));
    proxy.release_held();
    let done = one.end().await;
    assert_eq!((code(&done), err(&done).lines().count()), (143, 1), "{done:?}");
    assert!(err(&done).contains("came before the command was started"), "{done:?}");
    assert!(err(&done).contains("released"), "{done:?}");
    assert!(!marker.exists() && !stage.redis().exists(LOCK));
}

/// hashicorp/consul#800: the command is started at shutdown.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_beside_the_grant_leaves_nothing_behind() {
    let stage = Stage::new();
    for round in 0..30 {
        let (script, file) = stage.family(&format!("family {round}"), false);
        let one = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
        // From before the program handles signals to after the start.
        tokio::time::sleep(Duration::from_millis(round * 3)).await;
        one.signal(Signal::SIGTERM);
        let done = one.end().await;
        assert_ne!(done.status.code(), Some(0), "{done:?}");
        let begun = crate::stage::numbers(&file).unwrap_or_default();
        assert!(!any_runs(&begun), "round {round}: {done:?}");
        // A signal before its handler is there may leave the hold to its lease. There is none then.
        assert!(!stage.redis().exists(LOCK), "round {round}: {done:?}");
    }
}

/// hashicorp/consul#2022: a grandchild survives.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signal_ends_the_whole_group_before_the_lock_is_free() {
    let stage = Stage::new();
    for (signal, expected) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let (script, file) = stage.family(&format!("{signal}"), false);
        let one = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
        let members = members(&file).await;
        assert_eq!(members.len(), 2);
        let redis = stage.redis();
        one.signal(signal);
        let seen = watch_the_end(&redis, LOCK, &members).await;
        assert!(!seen.violated);
        assert_eq!(code(&one.end().await), expected);
    }
}

/// hashicorp/consul#9788: it may take long until the command is told. Here it is told at once, and killed after a grace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_ignores_the_signal_is_killed_before_the_lock_is_free() {
    let stage = Stage::new();
    let (script, file) = stage.family("stubborn", true);
    let line = ["run", "--grace", "500ms", LOCK, "--", "sh", "-c", &script];
    let one = Running::start(stage.cli(&line));
    let members = members(&file).await;
    let redis = stage.redis();
    one.signal(Signal::SIGTERM);
    assert!(!watch_the_end(&redis, LOCK, &members).await.violated);
    assert_eq!(code(&one.end().await), 143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_may_end_in_its_own_way_when_it_is_told_to() {
    let stage = Stage::new();
    let ready = stage.file("ready");
    let script = format!(
        "trap 'echo told; exit 9' TERM; touch {}; while :; do sleep 0.05; done",
        ready.display()
    );
    let one = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    let begun = || ready.exists().then_some(());
    harness::eventually(harness::PATIENCE, "the command to start", begun).await;
    one.signal(Signal::SIGTERM);
    let done = one.end().await;
    assert_eq!((code(&done), &*out(&done)), (9, "told\n"));
    assert!(!stage.redis().exists(LOCK));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_command_leaves_behind_ends_before_the_lock_is_free() {
    let stage = Stage::new();
    for (name, trap) in [("meek", ""), ("stubborn", "trap '' TERM; ")] {
        let file = stage.file(name);
        let script = format!("{trap}sleep 600 & echo $! > {}; exit 5", file.display());
        let line = ["run", "--grace", "500ms", LOCK, "--", "sh", "-c", &script];
        let done = Running::start(stage.cli(&line)).end().await;
        assert_eq!(code(&done), 5, "{done:?}");
        let left = members(&file).await;
        assert!(!any_runs(&left), "{name}");
        assert!(!stage.redis().exists(LOCK));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_within_a_run_ends_first() {
    let stage = Stage::new();
    let (script, file) = stage.family("inner", true);
    let program = env!("CARGO_BIN_EXE_redisson-lock");
    let line =
        ["run", "--grace", "4s", "outer", "--", program, "run", "inner", "--", "sh", "-c", &script];
    let one = Running::start(stage.cli(&line));
    let members = members(&file).await;
    let redis = stage.redis();
    assert!(redis.exists("outer") && redis.exists("inner"));
    one.signal(Signal::SIGTERM);
    assert!(!watch_the_end(&redis, "outer", &members).await.violated);
    assert!(!redis.exists("inner"), "the inner lock was released before");
    assert_eq!(code(&one.end().await), 143);
}

/// `nohup redisson-lock run ..`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_ignored_hangup_stays_ignored() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", false);
    let line = ["run", LOCK, "--", "sh", "-c", &script];
    let one = Running::start(with_signals("--ignore-signal=HUP", &stage.server.url(), &line));
    let members = members(&file).await;
    one.signal(Signal::SIGHUP);
    crate::stage::send(members[0], Signal::SIGHUP);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(runs(one.pid()) && runs(members[0]));
    one.signal(Signal::SIGTERM);
    assert_eq!(code(&one.end().await), 143);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_run_takes_its_command_with_it_before_the_lock_is_free() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", true);
    let one = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    let members = members(&file).await;
    one.signal(Signal::SIGKILL);
    all_ended(&members).await;
    assert!(stage.redis().pttl(LOCK) > LONG, "long before the end of the lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_run_loses_its_command_before_the_lock_is_free() {
    for is_ending in [false, true] {
        let stage = Stage::new();
        let (script, file) = stage.family("family", true);
        let line = ["run", "--grace", "10m", LOCK, "--", "sh", "-c", &script];
        let one = Running::start(stage.cli(&line));
        let members = members(&file).await;
        if is_ending {
            // It ignores that.
            one.signal(Signal::SIGTERM);
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
        one.signal(Signal::SIGSTOP);
        all_ended(&members).await;
        assert!(stage.redis().pttl(LOCK) > LONG, "long before the end of the lease");
        one.signal(Signal::SIGCONT);
        let done = one.end().await;
        assert_eq!(code(&done), 74, "{done:?}");
        assert!(err(&done).contains("run was stopped"), "{done:?}");
        stage.is_free(LOCK).await;
    }
}

/// There the numbers of its processes are those of strangers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_has_its_grace_where_proc_is_of_another_namespace() {
    let stage = Stage::new();
    let ready = stage.file("ready");
    let script = format!(
        "trap 'sleep 1; exit 9' TERM; touch {}; while :; do sleep 0.05; done",
        ready.display()
    );
    // A signal from outside would end `unshare` alone.
    let line = ["run", "--grace", "10m", "--release-when-asked", LOCK, "--", "sh", "-c", &script];
    let Some(command) = where_numbers_are_of_others(&stage.cli(&line)) else { return };
    let one = Running::start(command);
    eventually(PATIENCE, "the command to start", || ready.exists().then_some(())).await;
    assert_eq!(code(&stage.done(&["ask", LOCK])), 0);
    let done = one.end().await;
    assert_eq!(code(&done), 9, "{done:?}");
    stage.is_free(LOCK).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_cannot_be_ended_by_mistake_and_is_replaced_when_it_is_killed() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", true);
    let one = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    let members = members(&file).await;
    let first = standby_of(one.pid()).await;
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
        crate::stage::send(first, signal);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(runs(first));
    crate::stage::send(first, Signal::SIGKILL);
    all_ended(&[first]).await;
    let second = standby_of(one.pid()).await;
    assert_ne!(first, second);
    assert!(runs(members[0]), "the command goes on");
    one.signal(Signal::SIGKILL);
    all_ended(&members).await;
    assert!(stage.redis().pttl(LOCK) > LONG, "long before the end of the lease");
}

/// One that is stopped would end nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_that_is_stopped_is_replaced() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", true);
    let one = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    let members = members(&file).await;
    let first = standby_of(one.pid()).await;
    crate::stage::send(first, Signal::SIGSTOP);
    all_ended(&[first]).await;
    assert_ne!(first, standby_of(one.pid()).await);
    assert!(runs(members[0]), "the command goes on");
    one.signal(Signal::SIGKILL);
    all_ended(&members).await;
    assert!(stage.redis().pttl(LOCK) > LONG, "long before the end of the lease");
}

/// No process of a `run` is left when it has ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_standby_ends_with_its_run() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", false);
    let one = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    members(&file).await;
    let standby = standby_of(one.pid()).await;
    one.signal(Signal::SIGTERM);
    one.end().await;
    all_ended(&[standby]).await;
    assert!(fs::metadata(&file).is_ok());
}
