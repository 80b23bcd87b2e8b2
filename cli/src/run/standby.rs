//! The standby: a process that ends the command when `run` cannot: when it is killed or stopped, or
//! so slow that the lock would be lost.
//!
//! It reads lines from `run`: `group <id>`, `until <ms of the monotonic clock>`, `done`, and `asked`,
//! whether it has killed the group. Its own end, and that of the pipe, is noticed on the other side.

use std::{
    io::{self, BufRead, Write},
    process::ExitCode,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::SigSet,
    time::{ClockId, clock_gettime},
};

use super::group::{Group, Stat, stat};

/// How often it looks at `run` and at the clock.
const LOOK: Duration = Duration::from_millis(50);

/// Its exit code when it has ended the command.
pub(crate) const KILLED: i32 = 3;

/// Milliseconds of a clock that all processes share.
pub(crate) fn monotonic_ms() -> i64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC);
    now.map_or(0, |now| now.tv_sec() * 1_000 + now.tv_nsec() / 1_000_000)
}

pub(crate) fn watch_over(run: i32, group: Option<i32>) -> ExitCode {
    // What ends others must not end it. What cannot be blocked, `run` notices.
    let _ = SigSet::all().thread_block();
    let (told, lines) = channel();
    thread::spawn(move || read_lines(&told));
    say("ready");
    let (mut group, mut until) = (group.map(Group::led_by), i64::MAX);
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => match line.split_once(' ') {
                Some(("group", id)) => {
                    group = id.parse().ok().map(Group::led_by);
                    say("known");
                }
                Some(("until", ms)) => until = ms.parse().unwrap_or(until),
                _ if line == "done" => return ExitCode::SUCCESS,
                _ if line == "asked" => say("no"),
                _ => {}
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let is_stopped = stat(run).is_ok_and(Stat::is_stopped);
        if is_stopped || monotonic_ms() >= until {
            break;
        }
    }
    match group {
        Some(group) => {
            group.kill_and_wait();
            ExitCode::from(KILLED as u8)
        }
        None => ExitCode::SUCCESS,
    }
}

fn read_lines(told: &Sender<String>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { return };
        if told.send(line).is_err() {
            return;
        }
    }
}

fn say(word: &str) {
    let mut out = io::stdout();
    // If `run` is gone, the end of the other pipe tells.
    let _ = writeln!(out, "{word}").and_then(|()| out.flush());
}
