//! The setting of each test: a server, the program, and what its commands leave behind.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use harness::{Inspector, PATIENCE, Proxy, RedisServer, RedisServerBuilder, eventually};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value as Json;
use tempfile::TempDir;

/// The lock of a test that needs but one.
pub(crate) const LOCK: &str = "order:42";

/// A lease that is longer than the machine ever stands still.
pub(crate) const LEASE: &str = "6s";

/// A server, and a folder for what commands write.
pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(RedisServer::builder())
    }

    pub(crate) fn with(server: RedisServerBuilder) -> Self {
        Self { server: server.start(), folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn redis(&self) -> Inspector {
        self.server.inspector()
    }

    /// The program, for this server.
    pub(crate) fn cli(&self, line: &[&str]) -> Command {
        cli(&self.server.url(), line)
    }

    /// Runs the program to its end.
    pub(crate) fn done(&self, line: &[&str]) -> Output {
        self.cli(line).output().unwrap()
    }

    /// A `run` that has its lock and is kept from starting `touch`, and the proxy that keeps it.
    pub(crate) async fn about_to_start(&self, marker: &Path) -> (Proxy, Running) {
        let proxy = Proxy::start(self.server.port()).await;
        let line = ["run", LOCK, "--", "touch", marker.to_str().unwrap()];
        // The last look before the start.
        proxy.hold_requests_with(include_str!("../../../lua/reentrant/inspect.lua"));
        let one = Running::start(cli(&proxy.url(), &line));
        eventually(PATIENCE, "the look", || (proxy.held() > 0).then_some(())).await;
        (proxy, one)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A script for `sh -c` that starts a member of its group, and writes the ids of both processes into a file. Both
    /// ignore SIGTERM if they are `stubborn`. It never ends.
    pub(crate) fn family(&self, name: &str, stubborn: bool) -> (String, PathBuf) {
        let file = self.file(name);
        let trap = if stubborn { "trap '' TERM;" } else { "" };
        let (part, whole) = (self.file(&format!("{name}.part")), file.display());
        let part = part.display();
        let script = format!(
            "{trap} sleep 600 & echo $$ $! > {part}; mv {part} {whole}; while :; do sleep 600; done"
        );
        (script, file)
    }

    /// A script that writes the id of its process into a file, and is then a process of another user for so many
    /// seconds. Nobody waits for what it could write.
    pub(crate) fn of_another_user(&self, seconds: u32) -> (String, PathBuf) {
        let (part, file) = (self.file("user.part"), self.file("user"));
        let script = format!(
            "echo $$ > {0}; mv {0} {1}; exec setpriv --reuid=65534 --clear-groups sleep {seconds} >&- 2>&-",
            part.display(),
            file.display()
        );
        (script, file)
    }

    /// Waits until the lock is free.
    pub(crate) async fn is_free(&self, lock: &str) {
        let redis = self.redis();
        let free = || (!redis.exists(lock)).then_some(());
        eventually(PATIENCE, "the lock to be free", free).await;
    }
}

/// The program, with all signals as they are by default.
pub(crate) fn cli(url: &str, line: &[&str]) -> Command {
    with_signals("--default-signal=HUP,INT,TERM,QUIT,CHLD", url, line)
}

/// The same with the signals that an option of `env` sets.
pub(crate) fn with_signals(option: &str, url: &str, line: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .args([option, env!("CARGO_BIN_EXE_redisson-lock")])
        .args(line)
        .env("REDIS_URL", url)
        .env_remove("REDISSON_LOCK_GRACE_MS")
        .stdin(Stdio::null());
    command
}

/// The same where the system hides processes of others, as `/proc` with `hidepid` does: their files, at level 1, or that
/// they are there, at level 2. `None`: this user cannot make such a place.
pub(crate) fn where_processes_are_hidden(level: u8, command: &Command) -> Option<Command> {
    let hide = format!(
        "mount -t proc -o hidepid={level},gid=65533 proc /proc && exec setpriv --bounding-set=-sys_ptrace \"$@\""
    );
    let hidden = || {
        let mut hidden = Command::new("unshare");
        hidden.args(["--mount", "sh", "-c", &hide, "sh"]).stdin(Stdio::null());
        hidden
    };
    let seen = hidden().args(["cat", "/proc/1/stat"]).output().ok()?;
    if !["not permitted", "No such file"].iter().any(|refusal| err(&seen).contains(refusal)) {
        println!("skipped: {seen:?}");
        return None;
    }
    Some(within(hidden(), command))
}

/// The same where the system shows processes of another PID namespace. `None`: this user cannot make such a place.
pub(crate) fn where_numbers_are_of_others(command: &Command) -> Option<Command> {
    let apart = || {
        let mut apart = Command::new("unshare");
        apart.args(["--pid", "--fork", "--kill-child"]).stdin(Stdio::null());
        apart
    };
    let seen = apart().arg("true").output().ok()?;
    if !seen.status.success() {
        println!("skipped: {seen:?}");
        return None;
    }
    Some(within(apart(), command))
}

/// The same by a user who may not end processes of others. `None`: this user cannot become such a one.
pub(crate) fn without_the_right_to_kill(command: &Command) -> Option<Command> {
    let without = || {
        let mut without = Command::new("setpriv");
        without.arg("--bounding-set=-kill").stdin(Stdio::null());
        without
    };
    let seen =
        without().args(["setpriv", "--reuid=65534", "--clear-groups", "true"]).output().ok()?;
    if !seen.status.success() {
        println!("skipped: {seen:?}");
        return None;
    }
    Some(within(without(), command))
}

/// A program that runs another one.
fn within(mut outer: Command, inner: &Command) -> Command {
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// A program that runs. It is killed at the end of a test that fails.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Self(Some(command.spawn().unwrap()))
    }

    pub(crate) fn pid(&self) -> i32 {
        self.0.as_ref().unwrap().id() as i32
    }

    pub(crate) fn signal(&self, signal: Signal) {
        send(self.pid(), signal);
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.as_mut().unwrap().try_wait().unwrap().is_some()
    }

    /// Waits for its end, and reads what it wrote.
    pub(crate) async fn end(mut self) -> Output {
        eventually(PATIENCE, "the program to end", || self.has_ended().then_some(())).await;
        self.0.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap();
}

/// The processes whose ids are in the file, when it is there.
pub(crate) async fn members(file: &Path) -> Vec<i32> {
    eventually(PATIENCE, "the command to start", || numbers(file)).await
}

pub(crate) fn numbers(file: &Path) -> Option<Vec<i32>> {
    let text = fs::read_to_string(file).ok()?;
    Some(text.split_whitespace().map(|id| id.parse().unwrap()).collect())
}

/// Whether a process runs: it exists and has not ended.
pub(crate) fn runs(pid: i32) -> bool {
    state(pid).is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

fn state(pid: i32) -> Option<char> {
    // The name in it, in brackets, may be any bytes.
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    String::from_utf8_lossy(&stat).rsplit_once(") ")?.1.chars().next()
}

pub(crate) fn any_runs(members: &[i32]) -> bool {
    members.iter().any(|&pid| runs(pid))
}

/// Waits until none of these processes runs.
pub(crate) async fn all_ended(members: &[i32]) {
    eventually(PATIENCE, "the group to end", || (!any_runs(members)).then_some(())).await;
}

/// The standby of a `run`.
pub(crate) async fn standby_of(run: i32) -> i32 {
    eventually(PATIENCE, "a standby", || {
        fs::read_dir("/proc").unwrap().flatten().find_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            let line = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let words: Vec<_> = line.split(|&byte| byte == 0).collect();
            let is_it = words.get(1) == Some(&&b"__standby"[..])
                && words.get(2) == Some(&run.to_string().as_bytes());
            (is_it && runs(pid)).then_some(pid)
        })
    })
    .await
}

pub(crate) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{output:?}"))
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What it printed, one value a line.
pub(crate) fn json(output: &Output) -> Vec<Json> {
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Watches while something ends: whether the lock was ever free while a member of the group ran. While the machine
/// stands still nothing can be ended in time, and a look says nothing.
pub(crate) struct Watch {
    pub(crate) violated: bool,
    /// The longest pause between two looks.
    pub(crate) pause: Duration,
}

/// Looks at the lock and the group until the lock is free and the group has ended.
pub(crate) async fn watch_the_end(redis: &Inspector, lock: &str, members: &[i32]) -> Watch {
    let begun = std::time::Instant::now();
    let (mut violated, mut pause, mut last) = (false, Duration::ZERO, begun);
    loop {
        // The lock first: who runs after that ran while it was free.
        let free = !redis.exists(lock);
        let alive = any_runs(members);
        violated |= free && alive;
        if free && !alive {
            return Watch { violated, pause };
        }
        assert!(begun.elapsed() < 2 * PATIENCE, "free: {free}, alive: {alive}");
        tokio::time::sleep(Duration::from_millis(5)).await;
        pause = pause.max(last.elapsed());
        last = std::time::Instant::now();
    }
}
