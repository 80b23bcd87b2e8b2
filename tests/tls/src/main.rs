//! Locks over TLS, on servers with certificates of the test's own.
//!
//! `cargo test --package redisson-lock-tls-tests`. Where `redis-server` was built without TLS, everything here is
//! skipped, and the output says so. With `REQUIRE_TLS=1` it fails.

mod certificates;
mod clients;
mod pem;
mod several;

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs, io};

use harness::{
    PATIENCE, RedisServer, RedisServerBuilder, assert_nothing_left, eventually, lock_channel, soon,
};
use redisson_lock::{Client, Config, Error, RedisErrorKind, Tls};
use tempfile::TempDir;

use certificates::Authority;

const LOCK: &str = "order:42";
/// Tells a test that was started by another where the server is.
const URL: &str = "TLS_TEST_URL";

/// A server with a port for TLS beside the plain one, by which the test looks at it.
struct Stage {
    server: RedisServer,
    authority: Authority,
    directory: TempDir,
}

impl Stage {
    /// `None` where `redis-server` knows no TLS. The certificate is for this host.
    fn new(host: &str) -> Option<Self> {
        Self::with(host, ["--tls-auth-clients", "no"])
    }

    fn with(host: &str, arguments: [&str; 2]) -> Option<Self> {
        if !server_knows_tls() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new("a test");
        let server = RedisServer::builder().tls(authority.files(directory.path(), host));
        let server = arguments.into_iter().fold(server, RedisServerBuilder::arg).start();
        Some(Self { server, authority, directory })
    }

    fn url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.server.tls_port().unwrap())
    }

    /// For a client that trusts nobody but this authority.
    fn config(&self, trusted: &Authority) -> Config {
        with_tls(&self.url("rediss"), trusted.trusted())
    }
}

fn with_tls(url: &str, tls: Tls) -> Config {
    Config::from_url(url).unwrap().tls(tls).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_is_taken_waited_for_and_handed_over() {
    let Some(stage) = Stage::new("127.0.0.1") else { return };
    let config = stage.config(&stage.authority);
    let (one, other) = (connect(config.clone()).await, connect(config).await);
    hand_over(&one, &other, || stage.server.inspector().subscribers(&lock_channel(LOCK))).await;
    one.close().await.unwrap();
    other.close().await.unwrap();
    assert_nothing_left(&stage.server).await;
}

/// By a process of its own: what the system trusts is said in its environment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn by_a_url_whom_the_system_trusts_is_trusted_and_nobody_else() {
    let Some(stage) = Stage::new("127.0.0.1") else { return };
    let damaged = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    let somebody_else = Authority::new("somebody else");
    for (trusted, beside_it, is_connected) in [
        (&stage.authority, "", true),
        (&stage.authority, damaged, true),
        (&somebody_else, "", false),
    ] {
        let directory = tempfile::tempdir_in(stage.directory.path()).unwrap();
        let file = trusted.write(directory.path());
        let pem = fs::read_to_string(&file).unwrap();
        fs::write(&file, format!("{beside_it}{pem}")).unwrap();
        let mut test = Command::new(env::current_exe().unwrap());
        test.args(["--exact", "in_another_process", "--ignored", "--nocapture"])
            .env("SSL_CERT_FILE", file)
            .env_remove("SSL_CERT_DIR")
            .env(URL, stage.url("rediss"));
        let output = tokio::task::spawn_blocking(move || test.output()).await.unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let says = if is_connected { "handed over" } else { "UnknownIssuer" };
        assert!(said.contains(says), "{said}");
    }
    assert_nothing_left(&stage.server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by another test"]
async fn in_another_process() {
    let url = env::var(URL).expect("the URL of a server, by the test that starts this one");
    let config = Config::from_url(url).unwrap();
    let one = match soon("to connect", Client::connect(config.clone())).await {
        Ok(one) => one,
        Err(error) => return println!("{error}"),
    };
    let other = connect(config).await;
    // That it listens is not seen from here: it looks again after 3 s, whether woken or not.
    hand_over(&one, &other, || 1).await;
    one.close().await.unwrap();
    other.close().await.unwrap();
    println!("handed over");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_by_a_stranger_is_refused() {
    let Some(stage) = Stage::new("127.0.0.1") else { return };
    let config = stage.config(&Authority::new("somebody else"));
    assert_refused(config, "UnknownIssuer").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_host_is_refused() {
    let Some(stage) = Stage::new("redis.example") else { return };
    assert_refused(stage.config(&stage.authority), "NotValidForName").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plain_text_to_a_port_for_tls_is_an_error_and_so_is_tls_to_a_plain_one() {
    let Some(stage) = Stage::new("127.0.0.1") else { return };
    assert_refused(Config::from_url(stage.url("redis")).unwrap(), "").await;
    let plain = stage.server.url().replace("redis://", "rediss://");
    assert_refused(with_tls(&plain, stage.authority.trusted()), "").await;
}

/// One gives the lock to the other, who waits for it and is woken.
async fn hand_over(one: &Client, other: &Client, listeners: impl Fn() -> usize) {
    let guard = one.lock(LOCK).lock().await.unwrap();
    assert!(other.lock(LOCK).try_lock().await.unwrap().is_none());
    let lock = other.lock(LOCK);
    let turn = tokio::spawn(async move { lock.lock().await });
    eventually(PATIENCE, "a listener", || (listeners() == 1).then_some(())).await;
    guard.unlock().await.unwrap();
    let guard = soon("for the lock", turn).await.unwrap().unwrap();
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
}

/// Told in time, by an error that says why.
async fn assert_refused(config: Config, why: &str) {
    let begun = Instant::now();
    let timeout = Duration::from_secs(3);
    let refused = soon("to be refused", Client::connect(config.command_timeout(timeout))).await;
    let Err(Error::Redis(error)) = refused else { panic!("not refused by Redis: {refused:?}") };
    println!("refused after {:?}: {error}", begun.elapsed());
    assert!(error.to_string().contains(why), "{error}");
    if !why.is_empty() {
        assert_eq!(error.kind(), RedisErrorKind::Tls, "{error}");
    }
}

async fn connect(config: Config) -> Client {
    soon("to connect", Client::connect(config)).await.unwrap()
}

/// Says so when it does not.
fn server_knows_tls() -> bool {
    let knows_it = is_built_with_tls();
    if !knows_it {
        let required = env::var("REQUIRE_TLS").is_ok_and(|value| value == "1");
        assert!(!required, "REQUIRE_TLS=1, but redis-server was built without TLS");
        let _ = writeln!(io::stderr(), "SKIPPED tls: redis-server was built without it");
    }
    knows_it
}

/// Asks for what no server knows: one without TLS stumbles over that first.
fn is_built_with_tls() -> bool {
    let binary = env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".into());
    let mut ask = Command::new(binary);
    ask.args(["--port", "0", "--tls-port", "0", "--no-server-knows-this", "yes"]);
    let output = ask.output().expect("a redis-server");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("Bad directive"), "{said}");
    said.contains("no-server-knows-this")
}
