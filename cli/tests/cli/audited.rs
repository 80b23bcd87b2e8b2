//! What an audit found: members of a group that were not seen, a lock with a lease that was gone, commands that were
//! stopped, words that were wrong.

use std::{ffi::OsString, fs, fs::File, os::unix::ffi::OsStringExt, thread::sleep, time::Duration};

use harness::{PATIENCE, eventually, redis::cmd};
use nix::sys::signal::Signal;

use crate::stage::{
    LOCK, Running, Stage, all_ended, any_runs, code, err, members, numbers, send, standby_of,
};

/// The system cuts names after 15 bytes, also within a character.
#[test]
fn a_member_is_ended_whatever_its_name() {
    let stage = Stage::new();
    let name = OsString::from_vec(b"aaaaaaaaaaaaaa\xc3\xa9".to_vec());
    let program = stage.file("").join(&name);
    fs::copy("/bin/sleep", &program).unwrap();
    let file = stage.file("member");
    // One that is left must not keep the pipes open that this test reads to their end.
    let script =
        format!("'{}' 60 >&- 2>&- & echo $! >{}; sleep 0.3", program.display(), file.display());
    let done = stage.done(&["run", "--grace", "1s", LOCK, "--", "sh", "-c", &script]);
    assert_eq!(code(&done), 0, "{done:?}");
    assert!(!any_runs(&numbers(&file).unwrap()));
}

/// Each process starts the next and ends: one that lists processes and then looks at each may see none of them.
#[test]
fn a_group_that_forks_all_the_time_is_ended_before_the_lock_is_free() {
    let stage = Stage::new();
    let (steps, script) = (stage.file("steps"), stage.file("chain"));
    let text = format!(
        "printf x >>{}\n[ $1 -eq 0 ] || sh {} $(($1 - 1)) &\n",
        steps.display(),
        script.display()
    );
    fs::write(&script, text).unwrap();
    for _ in 0..5 {
        let script = format!("trap '' TERM; sh {} 3000 >&- 2>&- & exit 0", script.display());
        let done = stage.done(&["run", "--grace", "200ms", LOCK, "--", "sh", "-c", &script]);
        assert_eq!(code(&done), 0, "{done:?}");
        let size = || fs::metadata(&steps).unwrap().len();
        let at_its_end = size();
        sleep(Duration::from_millis(200));
        assert_eq!(size(), at_its_end, "it works on");
    }
}

/// No renewal notices it.
#[tokio::test]
async fn a_lock_with_a_lease_that_is_gone_ends_the_command() {
    let stage = Stage::new();
    let (script, file) = stage.family("member", true);
    let running =
        Running::start(stage.cli(&["run", "--lease", "30s", LOCK, "--", "sh", "-c", &script]));
    let members = members(&file).await;
    let _: u64 = stage.redis().query(cmd("DEL").arg(LOCK));
    let done = running.end().await;
    assert_eq!(code(&done), 74, "{done:?}");
    assert!(err(&done).contains("was removed"), "{done:?}");
    assert!(!any_runs(&members));
}

/// It would hold the lock for ever.
#[test]
fn a_command_that_is_stopped_is_ended() {
    let stage = Stage::new();
    let file = stage.file("went on");
    let script = format!("kill -TSTP $$; touch {}", file.display());
    let done = stage.done(&["run", LOCK, "--", "sh", "-c", &script]);
    assert_eq!(code(&done), 148, "{done:?}");
    assert!(err(&done).contains("was stopped"), "{done:?}");
    assert!(!file.exists());
    assert!(!stage.redis().exists(LOCK));
}

#[test]
fn a_command_that_was_killed_by_another_is_not_said_to_be_too_slow() {
    let stage = Stage::new();
    let done = stage.done(&["run", "--watchdog", "6s", LOCK, "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!((code(&done), err(&done)), (137, String::new()), "{done:?}");
}

#[test]
fn all_that_is_said_on_stderr_is_json() {
    let stage = Stage::new();
    let done = stage.done(&["--json", "run", LOCK, "--", "no-such-command"]);
    assert_eq!(code(&done), 127, "{done:?}");
    let said: serde_json::Value = serde_json::from_str(err(&done).trim()).unwrap();
    assert_eq!(said["code"], 127);
}

#[test]
fn what_cannot_be_printed_is_a_failure() {
    let stage = Stage::new();
    for line in [&["ls"][..], &["who", LOCK], &["doctor"], &["watch"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let done = stage.cli(line).stdout(full).output().unwrap();
        assert_eq!(code(&done), 70, "{line:?}: {done:?}");
    }
}

#[test]
fn a_key_that_is_no_such_lock_has_a_code_of_its_own() {
    let stage = Stage::new();
    let _: () = stage.redis().query(cmd("SET").arg(LOCK).arg("x"));
    let done = stage.done(&["run", LOCK, "--", "true"]);
    assert_eq!(code(&done), 65, "{done:?}");
    assert!(err(&done).contains("is not a lock of this kind"), "{done:?}");
}

#[test]
fn a_key_that_is_no_lock_is_not_freed() {
    let stage = Stage::new();
    let _: u64 = stage.redis().query(cmd("HSET").arg("user:42").arg(&["name", "Ann"]));
    for whom in [&["--any"][..], &["--if-holder", "54f8b167-e33e-4f87-bd17-57477bb749e1:1"]] {
        let done = stage.done(&[&["force-unlock", "user:42"], whom].concat());
        assert_eq!(code(&done), 65, "{done:?}");
    }
    assert!(stage.redis().exists("user:42"));
}

/// The first is one that the command does not end on.
#[tokio::test]
async fn each_signal_is_handed_on() {
    let stage = Stage::new();
    let file = stage.file("ready");
    let script = format!(
        "trap 'touch {0}' INT; trap 'exit 9' TERM; touch {0}.0; while :; do sleep 0.1; done",
        file.display()
    );
    let running =
        Running::start(stage.cli(&["run", "--grace", "600s", LOCK, "--", "sh", "-c", &script]));
    let ready = stage.file("ready.0");
    eventually(PATIENCE, "the command", || ready.exists().then_some(())).await;
    running.signal(Signal::SIGINT);
    eventually(PATIENCE, "the first signal", || file.exists().then_some(())).await;
    running.signal(Signal::SIGTERM);
    assert_eq!(code(&running.end().await), 9);
}

#[tokio::test]
async fn a_standby_that_dies_while_the_command_ends_is_replaced() {
    let stage = Stage::new();
    let (script, file) = stage.family("member", true);
    let running = Running::start(stage.cli(&[
        "run",
        "--watchdog",
        "6s",
        "--grace",
        "600s",
        LOCK,
        "--",
        "sh",
        "-c",
        &script,
    ]));
    let members = members(&file).await;
    running.signal(Signal::SIGTERM);
    let first = standby_of(running.pid()).await;
    send(first, Signal::SIGKILL);
    let next = || async { standby_of(running.pid()).await };
    while next().await == first {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    running.signal(Signal::SIGKILL);
    all_ended(&members).await;
    running.end().await;
}

#[test]
fn a_watchdog_of_a_file_that_is_too_short_is_refused() {
    let stage = Stage::new();
    let file = stage.file("redisson.yaml");
    let text = format!(
        "lockWatchdogTimeout: 100\nsingleServerConfig:\n  address: {}\n",
        stage.server.url()
    );
    fs::write(&file, text).unwrap();
    let done = stage.done(&["--config", file.to_str().unwrap(), "run", LOCK, "--", "true"]);
    assert_eq!(code(&done), 78, "{done:?}");
}
