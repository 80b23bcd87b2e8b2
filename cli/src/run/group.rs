//! [`Group`]: the process group of a command.

use std::{fs, io, path::Path, process, str, sync::LazyLock, thread, time::Duration};

use nix::{
    errno::Errno,
    sys::signal::{Signal, killpg},
    unistd::Pid,
};
use tokio::time::{Instant, sleep_until};

/// How often to look whether the group has ended: the pause doubles, because one that lives after its leader
/// is looked for among all processes.
const LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(50);

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
    ///
    /// A process that forks and ends while this looks may hide its child. A group that is seen to
    /// have ended twice is therefore killed, which no child escapes, and looked at again.
    pub(crate) fn is_alive(self) -> bool {
        if self.is_seen_alive() || self.is_seen_alive() {
            return true;
        }
        match killpg(self.0, Signal::SIGKILL) {
            Err(Errno::ESRCH) => false,
            _ => self.is_seen_alive(),
        }
    }

    /// Whether its leader was stopped: by SIGSTOP, by Ctrl-Z, or because it uses a terminal that is
    /// not its own.
    pub(crate) fn is_stopped(self) -> bool {
        stat(self.id()).is_ok_and(Stat::is_stopped)
    }

    /// One look.
    fn is_seen_alive(self) -> bool {
        // One process instead of all of them.
        if stat(self.id()).is_ok_and(|leader| leader.group == self.id() && !leader.has_ended()) {
            return true;
        }
        match (killpg(self.0, None), members(self.0)) {
            (Err(Errno::ESRCH), _) | (_, Members::Ended) => false,
            // Of another user, whom the system may hide.
            (Err(Errno::EPERM), Members::Unseen) => true,
            (_, Members::Unseen) => false,
            (_, Members::Alive | Members::Hidden) => true,
        }
    }

    /// Waits for its end. `false`: it lives.
    pub(crate) async fn ended_by(self, limit: Instant) -> bool {
        ended_by(limit, || self.is_alive()).await
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
        let mut pause = LOOK;
        self.signal(Signal::SIGKILL);
        while self.is_alive() {
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_LOOK);
            self.signal(Signal::SIGKILL);
        }
    }
}

/// Looks until nothing lives any more. `false`: something lives at the limit.
async fn ended_by(limit: Instant, is_alive: impl Fn() -> bool) -> bool {
    let mut pause = LOOK;
    while is_alive() {
        if Instant::now() >= limit {
            return false;
        }
        sleep_until((Instant::now() + pause).min(limit)).await;
        pause = (pause * 2).min(LONGEST_LOOK);
    }
    true
}

/// What the system shows of the members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Members {
    /// At least one has not ended.
    Alive,
    /// All that are seen have ended.
    Ended,
    /// None is seen.
    Unseen,
    /// None that lives is seen, and some processes are not shown.
    Hidden,
}

/// Whether `/proc` is that of our PID namespace. In that of another one, others have these numbers.
static IS_OURS: LazyLock<bool> = LazyLock::new(|| {
    let own = fs::read_link("/proc/self");
    own.is_ok_and(|link| link == Path::new(&process::id().to_string()))
});

/// Whether `/proc` shows the processes of other users, or this one may see them all the same.
static SHOWS_ALL: LazyLock<bool> = LazyLock::new(|| {
    let own = |file, says: fn(&str) -> bool| {
        fs::read_to_string(format!("/proc/self/{file}")).is_ok_and(|text| says(&text))
    };
    own("status", may_see_all) || own("mountinfo", shows_all)
});

/// Whether it has CAP_SYS_PTRACE, for which nothing is hidden.
fn may_see_all(status: &str) -> bool {
    const SYS_PTRACE: u32 = 19;
    let rights = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let rights = rights.and_then(|rights| u64::from_str_radix(rights.trim(), 16).ok());
    rights.is_some_and(|rights| rights >> SYS_PTRACE & 1 == 1)
}

/// See `hidepid` in proc(5).
fn shows_all(mounts: &str) -> bool {
    // The last is on top.
    let proc = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"));
    let options = proc.and_then(|line| line.rsplit(' ').next()).unwrap_or_default();
    let mut hidden = options.split(',').filter_map(|option| option.strip_prefix("hidepid="));
    hidden.all(|level| matches!(level, "0" | "off"))
}

fn members(group: Pid) -> Members {
    if !*IS_OURS {
        return Members::Hidden;
    }
    let Ok(processes) = fs::read_dir("/proc") else { return Members::Hidden };
    let mut seen = Members::Unseen;
    let mut is_any_shown = false;
    for process in processes.flatten() {
        let name = process.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        match stat(pid) {
            Ok(stat) => {
                is_any_shown = true;
                if stat.group == group.as_raw() {
                    if !stat.has_ended() {
                        return Members::Alive;
                    }
                    if seen == Members::Unseen {
                        seen = Members::Ended;
                    }
                }
            }
            Err(error) if is_gone(&error) => {}
            Err(_) => seen = Members::Hidden,
        }
    }
    if is_any_shown && *SHOWS_ALL { seen } else { Members::Hidden }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// What the system shows of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    state: char,
    group: i32,
    threads: u32,
}

impl Stat {
    /// Whether it waits for its parent, or is gone. While it has other threads they run on.
    pub(crate) fn has_ended(self) -> bool {
        matches!(self.state, 'Z' | 'X') && self.threads <= 1
    }

    /// Whether it was stopped, by SIGSTOP or the like.
    pub(crate) fn is_stopped(self) -> bool {
        self.state == 'T'
    }
}

/// Reads what the system shows of a process.
pub(crate) fn stat(pid: i32) -> io::Result<Stat> {
    if !*IS_OURS {
        return Err(io::ErrorKind::Unsupported.into());
    }
    parse(&fs::read(format!("/proc/{pid}/stat"))?).ok_or(io::ErrorKind::InvalidData.into())
}

/// The name, in brackets, is any bytes, brackets too. Fields are counted from behind it.
fn parse(stat: &[u8]) -> Option<Stat> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields: Vec<_> = str::from_utf8(&stat[end + 1..]).ok()?.split_whitespace().collect();
    Some(Stat {
        state: fields.first()?.chars().next()?,
        group: fields.get(2)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::{cell::Cell, os::unix::process::CommandExt, process::Command};

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

    /// A look may be at all processes of the machine.
    #[tokio::test(start_paused = true)]
    async fn a_long_grace_takes_few_looks() {
        let (looks, begun) = (Cell::new(0), Instant::now());
        let is_alive = || {
            looks.set(looks.get() + 1);
            true
        };
        let grace = Duration::from_secs(60);
        assert!(!ended_by(begun + grace, is_alive).await);
        assert_eq!(begun.elapsed(), grace);
        assert!(looks.get() < 2_000, "{} looks", looks.get());
    }

    #[test]
    fn a_name_may_be_any_bytes() {
        let stat = b"12 (a b) Z 1 \xc3) S 1 34 34 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 5 0 99";
        assert_eq!(parse(stat), Some(Stat { state: 'S', group: 34, threads: 5 }));
        assert_eq!(parse(b"12 (a"), None);
    }

    #[test]
    fn an_option_says_whether_processes_of_others_are_shown() {
        let mounts = |options| {
            format!(
                "21 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                 22 21 0:5 / /proc rw,nosuid shared:13 - proc proc {options}\n\
                 23 22 0:6 / /proc/sys rw - proc proc rw"
            )
        };
        for all in ["rw", "rw,hidepid=0", "rw,gid=4,hidepid=off"] {
            assert!(shows_all(&mounts(all)), "{all}");
        }
        for some in ["rw,hidepid=1", "rw,hidepid=2", "rw,hidepid=invisible", "rw,hidepid=4,gid=1"] {
            assert!(!shows_all(&mounts(some)), "{some}");
        }
        assert!(*IS_OURS && *SHOWS_ALL);
        assert!(!may_see_all("Name:\tx\nCapEff:\t000001fffef7ffdf\n"));
        assert!(may_see_all("CapPrm:\t0\nCapEff:\t0000000000080000\n"));
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive_while_others_run() {
        let stat = |state, threads| Stat { state, group: 34, threads };
        assert!(!stat('Z', 2).has_ended());
        assert!(stat('Z', 1).has_ended());
        assert!(!stat('T', 1).has_ended());
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
