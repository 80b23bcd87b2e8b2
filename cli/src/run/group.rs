//! [`Group`]: the process group of a command.

use std::{fs, thread, time::Duration};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::time::Instant;

/// How often to look whether the group has ended.
const LOOK: Duration = Duration::from_millis(5);

/// How often a group that does not end is killed again: it may have made new members meanwhile.
const AGAIN: Duration = Duration::from_millis(50);

/// A process group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group(Pid);

impl Group {
    /// The group that this process leads.
    pub(crate) fn led_by(pid: i32) -> Self {
        Self(Pid::from_raw(pid))
    }

    pub(crate) fn id(self) -> i32 {
        self.0.as_raw()
    }

    pub(crate) fn signal(self, signal: Signal) {
        // It may have ended meanwhile.
        let _ = killpg(self.0, signal);
        if signal != Signal::SIGKILL {
            // A stopped process does not notice it otherwise.
            let _ = killpg(self.0, Signal::SIGCONT);
        }
    }

    /// Whether a member is alive. A process that has ended and that nobody waits for is not.
    pub(crate) fn is_alive(self) -> bool {
        match killpg(self.0, None) {
            Err(Errno::ESRCH) => false,
            _ => living_member(self.0).unwrap_or(true),
        }
    }

    /// Waits for its end. `false`: it lives.
    pub(crate) async fn ended_by(self, limit: Instant) -> bool {
        while self.is_alive() {
            if Instant::now() >= limit {
                return false;
            }
            tokio::time::sleep(LOOK).await;
        }
        true
    }

    /// Kills it, and again, until it has ended or the limit is over.
    pub(crate) async fn kill(self, limit: Instant) -> bool {
        loop {
            self.signal(Signal::SIGKILL);
            if self.ended_by((Instant::now() + AGAIN).min(limit)).await {
                return true;
            }
            if Instant::now() >= limit {
                return false;
            }
        }
    }

    /// The same without a runtime or a limit.
    pub(crate) fn kill_and_wait(self) {
        self.signal(Signal::SIGKILL);
        while self.is_alive() {
            thread::sleep(LOOK);
            self.signal(Signal::SIGKILL);
        }
    }
}

/// Whether the group has a member that has not ended. `None`: the system does not show it.
fn living_member(group: Pid) -> Option<bool> {
    let processes = fs::read_dir("/proc").ok()?;
    let mut seen_any = false;
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        let Some((state, its_group)) = stat(pid) else { continue };
        seen_any = true;
        if its_group == group.as_raw() && !matches!(state, 'Z' | 'X') {
            return Some(true);
        }
    }
    seen_any.then_some(false)
}

/// The state of a process and its process group, where the system shows them.
pub(crate) fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may have spaces and brackets.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some((state, group))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_group_is_alive_until_its_last_member_has_ended() {
        let mut leader =
            Command::new("sh").args(["-c", "sleep 600 & exit 0"]).process_group(0).spawn().unwrap();
        let group = Group::led_by(leader.id() as i32);
        leader.wait().unwrap();
        assert!(group.is_alive(), "the member lives on");
        group.kill_and_wait();
        assert!(!group.is_alive());
    }

    #[test]
    fn a_process_that_nobody_waits_for_is_not_alive() {
        let mut leader = Command::new("true").process_group(0).spawn().unwrap();
        let group = Group::led_by(leader.id() as i32);
        let ended = (0..2_000).any(|_| {
            thread::sleep(LOOK);
            !group.is_alive()
        });
        assert!(ended);
        leader.wait().unwrap();
    }
}
