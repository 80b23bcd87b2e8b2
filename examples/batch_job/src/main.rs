//! A job that cron starts on several hosts at the same minute, beside a Java service that takes the same
//! lock by `redisson.getFencedLock("nightly")`. It has no async code.
//!
//! `5 2 * * * batch_job $(date +\%F)`, or here: `cargo run --package batch_job 2026-01-31`, with a Redis
//! server on this machine or its URL in `REDIS_URL`.
//!
//! | exit code | meaning | what to do |
//! |---|---|---|
//! | 0 | all steps of this day are done, by this run or an earlier one. Also when SIGTERM or SIGINT came in the least time | nothing |
//! | 64 | no day is given, or a setting is no number of milliseconds | correct it |
//! | 69 | Redis does not answer, or refuses | run it again: it goes on where it ended |
//! | 74 | the lock was lost on the way | run it again |
//! | 75 | another host, or the Java service, has the lock | nothing |
//! | 143 | SIGTERM or SIGINT came: the step was finished, and the lock released | run it again |
//!
//! Three things keep the job from running twice, and each covers what the others cannot:
//! - **The lock**: one host works at a time. A host that finds it held leaves.
//! - **The record of the day** in the storage: a host that comes after the end finds nothing to do, and a
//!   host that comes after a crash goes on with the next step. Its writes are fenced: see [`Storage`].
//! - **The least time** for which the lock is held (ShedLock's `lockAtLeastFor`): a host whose clock is late
//!   leaves with 75, even if the job took a moment. Only jobs that keep no record depend on it. It has to be
//!   longer than the clocks of the hosts differ. `AT_LEAST_MS` sets it. SIGTERM and SIGINT cut it short: the
//!   lock then stays for the rest of its lease, which is [`WATCHDOG`] at most.
//!
//! A run that is killed keeps the lock for [`WATCHDOG`] at most.

mod storage;

use std::{
    env,
    fmt::Display,
    io::{self, Write as _},
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use redisson_lock::{
    Config, Error,
    blocking::{Client, FencedGuard},
};
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::storage::{Storage, Write};

const STEPS: u32 = 5;

/// How long a run that was killed keeps the others away, at most. A third of it is how late a loss is
/// noticed.
const WATCHDOG: Duration = Duration::from_secs(10);

// Codes of sysexits.h, as the command line `redisson-lock` uses them.
const USAGE: u8 = 64;
const NO_REDIS: u8 = 69;
const LOST: u8 = 74;
const BUSY: u8 = 75;
const TERMINATED: u8 = 128 + SIGTERM as u8;

/// Why the job ended before its end.
#[derive(Debug)]
struct Stop {
    code: u8,
    why: String,
}

impl Stop {
    fn new(code: u8, why: impl ToString) -> Self {
        Self { code, why: why.to_string() }
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        match error {
            Error::NotHeld { .. } => Self::new(LOST, error),
            _ => Self::new(NO_REDIS, error),
        }
    }
}

impl From<redis::RedisError> for Stop {
    fn from(error: redis::RedisError) -> Self {
        Self::new(NO_REDIS, format_args!("the storage: {error}"))
    }
}

/// What the environment sets.
#[derive(Debug)]
struct Settings {
    url: String,
    step: Duration,
    at_least: Duration,
}

fn main() -> ExitCode {
    let Some(day) = env::args().nth(1) else {
        complain("name a day, such as 2026-01-31");
        return USAGE.into();
    };
    match Settings::read().and_then(|settings| run(&day, &settings)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(stop) => {
            complain(stop.why);
            stop.code.into()
        }
    }
}

/// Does not panic when nobody reads it, unlike `eprintln!`.
fn complain(why: impl Display) {
    let _ = writeln!(io::stderr(), "batch_job: {why}");
}

impl Settings {
    fn read() -> Result<Self, Stop> {
        Ok(Self {
            url: env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into()),
            step: milliseconds("STEP_MS", 1_000)?,
            at_least: milliseconds("AT_LEAST_MS", 30_000)?,
        })
    }
}

fn milliseconds(variable: &str, default: u64) -> Result<Duration, Stop> {
    let Some(text) = env::var_os(variable) else { return Ok(Duration::from_millis(default)) };
    let ms = text.to_str().and_then(|text| text.parse().ok());
    let wrong = || Stop::new(USAGE, format_args!("{variable} is no number of milliseconds"));
    ms.map(Duration::from_millis).ok_or_else(wrong)
}

fn run(day: &str, settings: &Settings) -> Result<(), Stop> {
    let terminated = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        signal_hook::flag::register(signal, terminated.clone())
            .map_err(|error| Stop::new(USAGE, format_args!("signals: {error}")))?;
    }
    // cron starts it again: it does not wait long for a Redis that is away.
    let config = Config::from_url(&settings.url)?
        .watchdog(WATCHDOG)
        .command_timeout(Duration::from_secs(2))
        .retry_timeout(Duration::from_secs(5));
    let client = Client::connect(config)?;
    let lock = client.fenced_lock("nightly");
    let Some(guard) = lock.try_lock().run()? else {
        return Err(Stop::new(BUSY, "another run has the lock"));
    };
    let began = Instant::now();
    let done = work(day, settings, &guard, &terminated);
    if done.is_ok() {
        keep(&guard, settings.at_least.saturating_sub(began.elapsed()), &terminated);
    }
    if done.is_ok() && terminated.load(Ordering::Relaxed) {
        // All is done, but the least time is not over. A hold whose guard lives when its client is
        // closed is not released: it ends with its lease, after `WATCHDOG` at most.
        let _ = client.close();
        drop(guard);
        return Ok(());
    }
    // What is written stays written. A lock that cannot be released ends with its lease.
    let released = guard.unlock().and_then(|()| client.close());
    if let (Ok(()), Err(error)) = (&done, released) {
        complain(format_args!("all is done, but the lock is not released: {error}"));
    }
    done
}

/// Does the steps of this day that are not done yet.
fn work(
    day: &str,
    settings: &Settings,
    guard: &FencedGuard,
    terminated: &AtomicBool,
) -> Result<(), Stop> {
    let refused = || Stop::new(LOST, "the storage knows a newer holder of the lock");
    let mut storage = Storage::open(&settings.url, day)?;
    // From here on the storage refuses a run that was paused and has lost the lock, even if that
    // comes before the first step of this one.
    let done = storage.begin(guard)?.ok_or_else(refused)?;
    for step in done + 1..=STEPS {
        if terminated.load(Ordering::Relaxed) {
            return Err(Stop::new(
                TERMINATED,
                format_args!("ended by a signal before step {step}"),
            ));
        }
        // No I/O: this knows what the last renewal found.
        if !guard.is_held() {
            return Err(Stop::new(LOST, format_args!("the lock was lost before step {step}")));
        }
        thread::sleep(settings.step); // the work
        match storage.write(guard, step)? {
            Write::Done => {
                // What is written counts, whether or not somebody reads this.
                let _ = writeln!(io::stdout(), "step {step} of {STEPS}, token {}", guard.token());
            }
            Write::Refused => return Err(refused()),
        }
    }
    Ok(())
}

/// Keeps the lock for this time, unless it is lost or a signal comes.
fn keep(guard: &FencedGuard, time: Duration, terminated: &AtomicBool) {
    let end = Instant::now() + time;
    while !terminated.load(Ordering::Relaxed) {
        let rest = end.saturating_duration_since(Instant::now());
        if rest.is_zero() || !guard.is_held() {
            return;
        }
        thread::sleep(rest.min(Duration::from_millis(100)));
    }
}
