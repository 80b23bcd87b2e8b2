//! The texts of errors, guards and handles.

use std::error::Error as _;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use redisson_lock::{Client, Config, Error, MultiLock};

use crate::stage::{LOCK, Stage, soon};

/// More than this nobody reads in a log.
const LONG: usize = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_names_what_was_done_the_server_and_the_lock() {
    let stage = Stage::new().await;
    let server = stage.proxy.url().replace("redis://", "");
    let short = Duration::from_millis(300);
    let config = stage.config().command_timeout(short).retry_timeout(2 * short);
    let client = Client::connect(config).await.unwrap();
    let lock = client.lock(LOCK);
    let guard = lock.lock().await.unwrap();
    stage.proxy.blackhole(true);

    let says = |doing: &str, error: Option<Error>| {
        let text = error.expect("nobody answers").to_string();
        let head = format!("{doing} lock {LOCK:?}: redis at {server}: ");
        assert!(text.starts_with(&head), "{text}");
        println!("{text}");
    };
    says("checking", guard.check().await.err());
    says("acquiring", client.fair_lock(LOCK).try_lock().await.err());
    says("acquiring", MultiLock::all([client.spin_lock(LOCK)]).lock().await.err());
    says("inspecting", lock.is_locked().await.err());
    says("force-unlocking", lock.force_unlock().await.err());
    says("reading the token of", client.fenced_lock(LOCK).latest_token().await.err());
    says("releasing", guard.unlock().await.err());
    stage.proxy.heal();
    let _ = soon("to close", client.close()).await;
    stage.nothing_held().await;
    stage.end([]).await;
}

#[tokio::test]
async fn where_nobody_listens_the_error_says_so_in_words_and_keeps_its_source() {
    // The port is ours, and closed.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let schemes = ["redis", "redis-cluster", "redis-sentinel"];
    for scheme in schemes {
        let query = if scheme == "redis-sentinel" { "?sentinelServiceName=m" } else { "" };
        let config = Config::from_url(format!("{scheme}://127.0.0.1:{port}{query}")).unwrap();
        let error = soon("an answer", Client::connect(config)).await.unwrap_err();
        let text = error.to_string();
        let head = format!("connecting: redis at 127.0.0.1:{port}");
        assert!(text.starts_with(&head), "{text}");
        assert!(text.contains("onnection refused"), "{text}");
        // As `main` prints what it returns.
        assert!(!text.contains('{') && !format!("{error:?}").contains('{'), "{error:?}");
        let source = error.source().expect("the error of the system");
        let source = source.downcast_ref::<io::Error>().expect("of the system");
        assert_eq!(source.kind(), io::ErrorKind::ConnectionRefused);
    }
    let config = Config::from_url("unix:///no/such/socket").unwrap();
    let error = Client::connect(config).await.unwrap_err().to_string();
    assert!(error.starts_with("connecting: redis at /no/such/socket: No such file"), "{error}");
}

#[tokio::test]
async fn what_is_held_shows_its_lock_its_holder_and_what_remains_and_no_more() {
    let stage = Stage::new().await;
    let client = stage.client().await;
    let has = |shown: String, parts: &[&str]| {
        println!("{shown}");
        assert!(shown.len() < LONG, "{} bytes: {shown}", shown.len());
        assert!(parts.iter().all(|part| shown.contains(part)), "{parts:?} in {shown}");
    };
    let server = stage.proxy.url().replace("redis://", "");
    has(format!("{client:?}"), &["Client", client.id(), &server]);
    let lock = client.lock(LOCK);
    has(format!("{lock:?}"), &["Lock", LOCK, "Reentrant"]);
    has(format!("{:?}", lock.lock()), &["Acquire", LOCK]);
    has(format!("{:?}", lock.try_lock()), &["TryAcquire", LOCK]);
    has(format!("{:?}", client.read_write_lock(LOCK)), &["ReadWriteLock", LOCK]);
    has(format!("{:?}", client.lock("")), &["Lock", "error"]);

    let guard = lock.lock().await.unwrap();
    has(format!("{guard:?}"), &["LockGuard", LOCK, guard.holder(), "remaining"]);
    guard.unlock().await.unwrap();
    let guard = client.fenced_lock(LOCK).lock().await.unwrap();
    has(format!("{guard:?}"), &["FencedGuard", LOCK, guard.holder(), "remaining", "token: 1"]);
    guard.unlock().await.unwrap();
    let locks = MultiLock::all([client.lock(LOCK), client.fair_lock("b")]);
    has(format!("{locks:?}"), &["MultiLock", LOCK, "Fair"]);
    let guard = locks.lock().await.unwrap();
    has(format!("{guard:?}"), &["MultiGuard", LOCK, "\"b\"", "held: 2", "remaining"]);
    guard.unlock().await.unwrap();
    stage.redis().query::<()>(harness::redis::cmd("DEL").arg(harness::token_key(LOCK)));
    stage.end([client]).await;
}
