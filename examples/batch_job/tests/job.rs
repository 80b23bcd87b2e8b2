//! The job as processes on a real server: their exit codes, and what the storage has afterwards.

use std::{
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

use harness::{
    Lang, Peer, PeerError, RedisServer, Servers, assert_nothing_left_but, eventually, redis,
    skip_or_panic,
};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

const DAY: &str = "2026-01-31";
const LOCK: &str = "nightly";
const RECORD: &str = "report:{2026-01-31}";
const STEPS: &str = "report:{2026-01-31}:steps";
const TOKENS: &str = "redisson_lock_token:{nightly}";

/// Milliseconds, as the environment has them.
const QUICK: &str = "20";
/// Five of them outlast a machine that stands still for a few seconds.
const SLOW: &str = "1500";

/// A run of the job.
struct Job(Child);

impl Job {
    fn start(redis: &RedisServer, step: &str, at_least: &str) -> Self {
        Self(Self::command(redis, step, at_least).spawn().expect("the job"))
    }

    fn command(redis: &RedisServer, step: &str, at_least: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_batch_job"));
        command
            .arg(DAY)
            .env("REDIS_URL", redis.url())
            .env("STEP_MS", step)
            .env("AT_LEAST_MS", at_least)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().try_into().expect("a process id")), signal).expect("kill");
    }

    /// Waits for its end.
    async fn end(mut self) -> End {
        let status = || self.0.try_wait().expect("the job");
        eventually(harness::PATIENCE, "the end of the job", status).await;
        let Output { status, stderr, .. } = self.0.wait_with_output().expect("its output");
        End { code: status.code(), stderr: String::from_utf8(stderr).expect("UTF-8") }
    }
}

#[derive(Debug)]
struct End {
    /// `None`: a signal killed it.
    code: Option<i32>,
    stderr: String,
}

/// The steps in the order in which they were written.
fn steps(redis: &RedisServer) -> Vec<u32> {
    redis.inspector().query(redis::cmd("LRANGE").arg(STEPS).arg(0).arg(-1))
}

async fn until_written(redis: &RedisServer, count: usize) {
    let written = || (steps(redis).len() >= count).then_some(());
    eventually(harness::PATIENCE, "steps", written).await;
}

async fn until_held(redis: &RedisServer) {
    let inspector = redis.inspector();
    eventually(harness::PATIENCE, "a holder", || inspector.holder(LOCK)).await;
}

async fn assert_all_done(redis: &RedisServer) {
    assert_eq!(steps(redis), [1, 2, 3, 4, 5]);
    assert_nothing_left_but(redis, &[RECORD, STEPS, TOKENS]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_hosts_at_once_one_works_and_the_other_leaves() {
    let redis = RedisServer::start();
    let jobs = [(); 2].map(|()| Job::start(&redis, SLOW, "0"));
    let mut codes = Vec::new();
    for job in jobs {
        codes.push(job.end().await.code);
    }
    codes.sort();
    assert_eq!(codes, [Some(0), Some(75)]);
    assert_all_done(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_comes_later_finds_nothing_to_do() {
    let redis = RedisServer::start();
    for _ in 0..2 {
        let end = Job::start(&redis, QUICK, "0").end().await;
        assert_eq!(end.code, Some(0), "{end:?}");
    }
    assert_all_done(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_whose_clock_is_late_leaves_within_the_least_time() {
    let redis = RedisServer::start();
    let first = Job::start(&redis, QUICK, "60000");
    until_written(&redis, 5).await;
    assert_eq!(Job::start(&redis, QUICK, "0").end().await.code, Some(75));
    // Terminated within the least time, it leaves the lock to its lease.
    first.signal(Signal::SIGTERM);
    let end = first.end().await;
    assert_eq!(end.code, Some(0), "{end:?}");
    let left = redis.inspector().pttl(LOCK);
    assert!(0 < left && left <= 10_000, "{left} ms");
    let inspector = redis.inspector();
    eventually(harness::PATIENCE, "its end", || (!inspector.exists(LOCK)).then_some(())).await;
    assert_all_done(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_least_time_ends() {
    let redis = RedisServer::start();
    let begun = std::time::Instant::now();
    let end = Job::start(&redis, "0", "1500").end().await;
    assert_eq!(end.code, Some(0), "{end:?}");
    assert!(begun.elapsed() >= Duration::from_millis(1_500));
    assert_all_done(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_setting_that_is_no_number_is_refused() {
    let redis = RedisServer::start();
    for (step, at_least) in [(QUICK, "30s"), ("", "0")] {
        let end = Job::start(&redis, step, at_least).end().await;
        assert_eq!(end.code, Some(64), "{end:?}");
    }
    assert_eq!(steps(&redis), [0; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_without_a_reader() {
    let redis = RedisServer::start();
    let (_, unread) = std::io::pipe().expect("a pipe");
    let job = Job::command(&redis, QUICK, "0").stdout(unread).spawn().expect("the job");
    let end = Job(job).end().await;
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_all_done(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_run_goes_on_where_one_was_killed() {
    let redis = RedisServer::start();
    let killed = Job::start(&redis, SLOW, "0");
    until_written(&redis, 1).await;
    killed.signal(Signal::SIGKILL);
    assert_eq!(killed.end().await.code, None);
    let before = steps(&redis).len();
    assert!(before < 5, "it was killed too late");
    // Its lock keeps others away until it ends by itself.
    assert_eq!(Job::start(&redis, QUICK, "0").end().await.code, Some(75));
    let inspector = redis.inspector();
    eventually(harness::PATIENCE, "its end", || (!inspector.exists(LOCK)).then_some(())).await;
    let end = Job::start(&redis, QUICK, "0").end().await;
    assert_eq!(end.code, Some(0), "{end:?}");
    assert_all_done(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_finishes_the_step_and_releases() {
    let redis = RedisServer::start();
    let job = Job::start(&redis, SLOW, "60000");
    until_written(&redis, 1).await;
    job.signal(Signal::SIGTERM);
    let end = job.end().await;
    assert_eq!(end.code, Some(143), "{end:?}");
    assert!(!redis.inspector().exists(LOCK), "it is not released");
    let next = Job::start(&redis, QUICK, "0").end().await;
    assert_eq!(next.code, Some(0), "{next:?}");
    assert_all_done(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_is_an_exit_code() {
    let mut redis = RedisServer::start();
    let job = Job::start(&redis, SLOW, "0");
    until_written(&redis, 1).await;
    redis.kill();
    let end = job.end().await;
    assert_eq!(end.code, Some(69), "{end:?}");
    let end = Job::start(&redis, QUICK, "0").end().await;
    assert_eq!(end.code, Some(69), "{end:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_whose_lock_was_freed_by_force_stops() {
    let redis = RedisServer::start();
    let job = Job::start(&redis, "3000", "0");
    until_held(&redis).await;
    assert_eq!(redis.inspector().query::<u32>(redis::cmd("DEL").arg(LOCK)), 1);
    let end = job.end().await;
    assert_eq!(end.code, Some(74), "{end:?}");
    assert!(end.stderr.contains("the lock was lost before step"), "{end:?}");
    assert!(steps(&redis).len() < 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_storage_refuses_a_run_that_has_a_successor() {
    let redis = RedisServer::start();
    let stale = Job::start(&redis, SLOW, "0");
    until_written(&redis, 1).await;
    stale.signal(Signal::SIGSTOP);
    assert_eq!(redis.inspector().query::<u32>(redis::cmd("DEL").arg(LOCK)), 1);
    let next = Job::start(&redis, QUICK, "0").end().await;
    assert_eq!(next.code, Some(0), "{next:?}");
    stale.signal(Signal::SIGCONT);
    let end = stale.end().await;
    assert_eq!(end.code, Some(74), "{end:?}");
    assert_all_done(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redisson_that_has_the_lock_keeps_it() {
    let redis = RedisServer::start();
    let java = match Peer::spawn(Lang::Java, &redis.peer_args()).await {
        Ok(java) => java,
        Err(PeerError::Unavailable(why)) => return skip_or_panic("a nightly job", &why),
        Err(error) => panic!("{error}"),
    };
    let party = java.party("service", "fenced", LOCK);
    party.lock().await;
    assert_eq!(Job::start(&redis, QUICK, "0").end().await.code, Some(75));
    party.unlock().await;
    let job = Job::start(&redis, SLOW, "0");
    until_held(&redis).await;
    assert!(!party.try_lock().await, "the job has it");
    assert_eq!(job.end().await.code, Some(0));
    assert!(party.try_lock().await);
    party.unlock().await;
    assert_all_done(&redis).await;
}
