//! A server's time of day, as a test sets it.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::server::RedisServerBuilder;

/// In millionths, and in microseconds.
const MILLION: i64 = 1_000_000;

/// The clock by which a server counts TTLs. It belongs to the servers that are started with
/// [`RedisServerBuilder::clock`]; they see at once that it is set. It needs a C compiler, and Linux.
#[derive(Debug)]
pub struct ServerClock {
    file: File,
    shown: AtomicI64,
    directory: TempDir,
}

impl ServerClock {
    /// A clock that stands still unless it is set.
    ///
    /// # Panics
    /// When there is no C compiler.
    pub fn standing() -> Self {
        Self::new(1, 0, 0)
    }

    /// A clock that shows the system's time, and runs so many times as fast.
    ///
    /// # Panics
    /// When there is no C compiler.
    pub fn running(rate: f64) -> Self {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let now = i64::try_from(now.as_micros()).expect("a time");
        Self::new(now, now, (rate * MILLION as f64) as i64)
    }

    fn new(shown: i64, since: i64, rate: i64) -> Self {
        let directory = TempDir::new().expect("a directory");
        compile(directory.path());
        let path = directory.path().join("clock");
        let file = OpenOptions::new().create_new(true).write(true).open(path).expect("a file");
        let clock = [shown, since, rate].map(i64::to_ne_bytes).concat();
        file.write_all_at(&clock, 0).expect("a time");
        Self { file, shown: shown.into(), directory }
    }

    /// Sets a clock that stands still, in µs.
    pub fn set(&self, micros: u64) {
        self.show(micros.try_into().expect("a time"));
    }

    /// Sets it forward.
    pub fn forward(&self, step: Duration) {
        self.show(self.shown.load(Ordering::Relaxed) + micros(step));
    }

    /// Sets it back.
    pub fn back(&self, step: Duration) {
        self.show(self.shown.load(Ordering::Relaxed) - micros(step));
    }

    fn show(&self, shown: i64) {
        self.shown.store(shown, Ordering::Relaxed);
        self.file.write_all_at(&shown.to_ne_bytes(), 0).expect("a time");
    }
}

fn micros(time: Duration) -> i64 {
    time.as_micros().try_into().expect("a time")
}

impl RedisServerBuilder {
    /// It goes by this clock.
    pub fn clock(self, clock: &ServerClock) -> Self {
        let file = |name| clock.directory.path().join(name);
        self.env("LD_PRELOAD", file("clock.so")).env("SET_CLOCK", file("clock"))
    }
}

fn compile(directory: &Path) {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let (source, library) = (directory.join("clock.c"), directory.join("clock.so"));
    fs::write(&source, include_str!("clock.c")).expect("a file");
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(library).arg(source);
    let done = command.status().unwrap_or_else(|error| panic!("`{compiler}`: {error}"));
    assert!(done.success(), "`{compiler}` does not compile the clock");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::RedisServer;

    fn now(server: &RedisServer) -> i64 {
        let (seconds, micros): (i64, i64) =
            redis::cmd("TIME").query(&mut server.client()).expect("a time");
        seconds * MILLION + micros
    }

    #[test]
    fn a_server_goes_by_the_clock_it_is_given() {
        let clock = ServerClock::standing();
        let server = RedisServer::builder().clock(&clock).start();
        clock.set(5_000_000);
        assert_eq!(now(&server), 5_000_000);

        let clock = ServerClock::running(1.0);
        let server = RedisServer::builder().clock(&clock).start();
        let (minute, began) = (Duration::from_secs(60), now(&server));
        clock.forward(minute);
        let ahead = now(&server) - began;
        assert!((60 * MILLION..90 * MILLION).contains(&ahead), "{ahead} µs ahead");
        clock.back(2 * minute);
        let behind = now(&server) - began;
        assert!((-60 * MILLION..0).contains(&behind), "{behind} µs ahead");

        let (fast, real) = (ServerClock::running(3.0), ServerClock::running(1.0));
        let servers = [&fast, &real].map(|clock| RedisServer::builder().clock(clock).start());
        let began = [0, 1].map(|i| now(&servers[i]));
        std::thread::sleep(Duration::from_millis(200));
        let [fast, real] = [0, 1].map(|i| now(&servers[i]) - began[i]);
        assert!(fast > 2 * real, "{fast} µs while {real} µs passed");
    }
}
