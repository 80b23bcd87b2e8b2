//! `run` when its lock is lost.

use std::{env, time::Duration};

use harness::{
    PATIENCE, Proxy, eventually,
    redis::{Value, cmd},
};
use nix::sys::signal::Signal;

use crate::stage::{
    LEASE, LOCK, Running, Stage, all_ended, any_runs, cli, code, err, members, watch_the_end,
    where_processes_are_hidden, without_the_right_to_kill,
};

/// How many losses are tried at the same time.
const AT_ONCE: usize = 10;

/// When the machine stands still for so long, nothing may be ended in time. Such a round is tried again.
const STANDSTILL: Duration = Duration::from_millis(300);

/// One loss: the network between `run` and the server is cut. `None`: the machine stood still.
async fn lost_by_a_cut(round: usize) -> Option<()> {
    let stage = Stage::new();
    let proxy = Proxy::start(stage.server.port()).await;
    // Half of them ignore being told.
    let (script, file) = stage.family("family", round.is_multiple_of(2));
    let line = ["run", "--watchdog", LEASE, LOCK, "--", "sh", "-c", &script];
    let one = Running::start(cli(&proxy.url(), &line));
    let members = members(&file).await;
    let redis = stage.redis();
    proxy.blackhole(true);
    let seen = watch_the_end(&redis, LOCK, &members).await;
    println!("round {round}: longest pause {:?}, violated {}", seen.pause, seen.violated);
    let done = one.end().await;
    if seen.violated && seen.pause > STANDSTILL {
        return None;
    }
    assert!(!seen.violated, "round {round}: the lock was free while the command ran");
    assert_eq!(code(&done), 74, "{done:?}");
    assert!(err(&done).contains(LOCK), "{done:?}");
    Some(())
}

/// `LOSSES=100` tries more of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_group_ends_before_a_lock_that_cannot_be_renewed_is_free() {
    let losses = env::var("LOSSES").map_or(3, |count| count.parse().unwrap());
    let (mut done, mut stood_still) = (0, 0);
    while done < losses {
        let rounds = (done..losses.min(done + AT_ONCE)).map(|n| tokio::spawn(lost_by_a_cut(n)));
        for round in rounds.collect::<Vec<_>>() {
            match round.await.unwrap() {
                Some(()) => done += 1,
                None => stood_still += 1,
            }
        }
        assert!(stood_still <= losses, "the machine stands still too often for this test");
    }
    println!("{done} losses, {stood_still} more while the machine stood still");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_costs_the_command_its_life_and_not_its_lock() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", true);
    let line = ["run", "--watchdog", LEASE, LOCK, "--", "sh", "-c", &script];
    let one = Running::start(stage.cli(&line));
    let members = members(&file).await;
    stage.server.pause();
    // It frees nothing before it goes on.
    all_ended(&members).await;
    stage.server.resume();
    let done = one.end().await;
    assert_eq!(code(&done), 74, "{done:?}");
    stage.is_free(LOCK).await;
}

/// Its server answers again just when the command has ended. One that was not waited for would then seem to live, and would
/// keep its lock for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_ends_with_its_command_where_processes_are_hidden() {
    let stage = Stage::new();
    let (ready, told) = (stage.file("ready"), stage.file("told"));
    let script = format!(
        "trap 'touch {}; exit 0' TERM; touch {}; while :; do sleep 0.05; done",
        told.display(),
        ready.display()
    );
    let line = ["run", "--watchdog", "12s", LOCK, "--", "sh", "-c", &script];
    let Some(command) = where_processes_are_hidden(1, &stage.cli(&line)) else { return };
    let one = Running::start(command);
    eventually(PATIENCE, "the command to start", || ready.exists().then_some(())).await;
    stage.server.pause();
    eventually(PATIENCE, "the command to be told", || told.exists().then_some(())).await;
    stage.server.resume();
    let done = one.end().await;
    assert_eq!(code(&done), 74, "{done:?}");
    stage.is_free(LOCK).await;
}

/// The command has another user, and works on after its lock was taken away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_cannot_be_killed_has_not_ended_under_its_lock() {
    let stage = Stage::new();
    let (script, file) = stage.of_another_user(90);
    let line = ["run", "--grace", "500ms", "--watchdog", LEASE, LOCK, "--", "sh", "-c", &script];
    let Some(command) = without_the_right_to_kill(&stage.cli(&line)) else { return };
    let one = Running::start(command);
    let members = members(&file).await;
    let name = format!("/proc/{}/comm", members[0]);
    let sleeps = || std::fs::read_to_string(&name).ok().filter(|name| name.trim() == "sleep");
    eventually(PATIENCE, "the command to have its user", sleeps).await;
    one.signal(Signal::SIGTERM);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(any_runs(&members) && stage.redis().exists(LOCK), "it is held as long as it can be");
    assert_eq!(code(&stage.done(&["force-unlock", LOCK, "--any"])), 0);
    // `run` does not wait for it for ever.
    let done = one.end().await;
    assert!(any_runs(&members));
    crate::stage::send(members[0], Signal::SIGKILL);
    assert_eq!(code(&done), 74, "{done:?}");
    assert!(err(&done).contains("could not be killed"), "{done:?}");
}

/// A process of the command has another user and is not shown, and an ended one that is shown belongs to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_held_as_long_as_a_process_that_is_hidden() {
    let stage = Stage::new();
    let (hidden, file) = stage.of_another_user(6);
    let script = format!(
        "sh -c 'sleep 0.3 & {hidden}' & until [ -e {} ]; do sleep 0.05; done; sleep 1",
        file.display()
    );
    let line = ["run", "--grace", "500ms", LOCK, "--", "sh", "-c", &script];
    let command = without_the_right_to_kill(&stage.cli(&line));
    let Some(command) = command.and_then(|command| where_processes_are_hidden(2, &command)) else {
        return;
    };
    let one = Running::start(command);
    let members = members(&file).await;
    let done = one.end().await;
    assert!(!any_runs(&members), "the lock was released beside it: {done:?}");
    assert_eq!(code(&done), 0, "{done:?}");
    stage.is_free(LOCK).await;
}

/// `etcdctl lock` does not look at its lease while the command runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_lock_is_freed_by_force_is_killed() {
    let stage = Stage::new();
    for (kind, name) in
        [("lock", "plain"), ("fair", "fair"), ("read", "read"), ("fenced", "fenced")]
    {
        let (script, file) = stage.family(kind, true);
        let line = ["run", "--kind", kind, "--watchdog", LEASE, name, "--", "sh", "-c", &script];
        let one = Running::start(stage.cli(&line));
        let members = members(&file).await;
        let freed = stage.done(&["force-unlock", name, "--any"]);
        assert_eq!(code(&freed), 0, "{freed:?}");
        let done = one.end().await;
        assert!(!any_runs(&members), "{kind}");
        assert_eq!(code(&done), 74, "{kind}: {done:?}");
        assert_eq!(err(&done).lines().count(), 1, "{done:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_taken_by_another_is_left_to_it() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", false);
    let line = ["run", "--watchdog", LEASE, LOCK, "--", "sh", "-c", &script];
    let one = Running::start(stage.cli(&line));
    members(&file).await;
    let redis = stage.redis();
    let taker = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";
    let _: Value = redis.query(cmd("DEL").arg(LOCK));
    let _: Value = redis.query(cmd("HSET").arg(LOCK).arg(taker).arg(1));
    let done = one.end().await;
    assert_eq!(code(&done), 74, "{done:?}");
    assert_eq!(redis.holder(LOCK).unwrap().id(), taker);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_ends_the_command_before_the_lock_is_free() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", true);
    let line = ["run", "--lease", LEASE, LOCK, "--", "sh", "-c", &script];
    let one = Running::start(stage.cli(&line));
    let members = members(&file).await;
    let redis = stage.redis();
    let seen = watch_the_end(&redis, LOCK, &members).await;
    assert!(!seen.violated || seen.pause > STANDSTILL);
    let done = one.end().await;
    assert_eq!(code(&done), 74, "{done:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_renewed_outlasts_its_lease() {
    let stage = Stage::new();
    let line = ["run", "--watchdog", LEASE, LOCK, "--", "sh", "-c", "sleep 9; exit 3"];
    let one = Running::start(stage.cli(&line));
    assert_eq!(code(&one.end().await), 3);
}

/// The loss comes between the grant and the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_is_lost_before_the_start_starts_nothing() {
    let stage = Stage::new();
    let marker = stage.file("started");
    let (proxy, one) = stage.about_to_start(&marker).await;
    let _: Value = stage.redis().query(cmd("DEL").arg(LOCK));
    proxy.release_held();
    let done = one.end().await;
    assert_eq!(code(&done), 74, "{done:?}");
    assert_eq!(err(&done).lines().count(), 1, "{done:?}");
    assert!(!marker.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_has_ended_under_its_lock_has_succeeded() {
    let stage = Stage::new();
    let program = env!("CARGO_BIN_EXE_redisson-lock");
    // It is told of the loss by the release at the earliest.
    let script = format!("{program} force-unlock {LOCK} --any >&2; exit 0");
    let line = ["run", "--lease", "60s", LOCK, "--", "sh", "-c", &script];
    let done = Running::start(stage.cli(&line)).end().await;
    assert_eq!(code(&done), 0, "{done:?}");
    assert!(err(&done).contains("releasing failed"), "{done:?}");
}

/// The words on stderr come last, and nobody has to read them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_pipe_delays_neither_the_kill_nor_the_end() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", true);
    // It fills the pipe, which nobody reads.
    let script = format!("(yes >&2) & {script}");
    let line = ["run", "--watchdog", LEASE, LOCK, "--", "sh", "-c", &script];
    let mut one = Running::start(stage.cli(&line));
    let members = members(&file).await;
    let freed = stage.done(&["force-unlock", LOCK, "--any"]);
    assert_eq!(code(&freed), 0);
    all_ended(&members).await;
    eventually(PATIENCE, "the end", || one.has_ended().then_some(())).await;
    assert_eq!(code(&one.end().await), 74);
}

/// A loss after a signal: the command has no more time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_loss_cuts_the_grace_short() {
    let stage = Stage::new();
    let (script, file) = stage.family("family", true);
    let line = ["run", "--grace", "10m", "--watchdog", LEASE, LOCK, "--", "sh", "-c", &script];
    let one = Running::start(stage.cli(&line));
    let members = members(&file).await;
    one.signal(Signal::SIGTERM);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(any_runs(&members));
    assert_eq!(code(&stage.done(&["force-unlock", LOCK, "--any"])), 0);
    assert_eq!(code(&one.end().await), 74);
    assert!(!any_runs(&members));
}
