//! The kind of each error, from servers and sockets that fail in this way.

use std::borrow::Borrow;
use std::fmt::Debug;
use std::io::Write;
use std::net::TcpListener;
use std::thread;
use std::time::Duration;

use harness::redis::{RedisResult, cmd};
use harness::{EndlessScript, PATIENCE, RedisCluster, RedisServer};
use redisson_lock::{Client, Config, Error, RedisErrorKind as Kind};
use tokio::runtime::Builder;

use crate::refusals::{self, Refusal, set_user};
use crate::stage::{LOCK, Stage, connect, gets_through, soon, within};

/// Of a request that is answered: the machine may stand still meanwhile.
const LONG: Duration = Duration::from_secs(20);

/// The kind of an error, whose text is plain.
fn kind<T: Debug>(result: impl Borrow<Result<T, Error>>) -> Kind {
    let result = result.borrow();
    let Err(Error::Redis(error)) = result else { panic!("not an error of Redis: {result:?}") };
    let text = error.to_string();
    println!("{:?}: {text}", error.kind());
    assert!(!text.contains("route command"), "{text}");
    error.kind()
}

async fn kind_of_connecting(config: Config) -> Kind {
    kind(within(PATIENCE, "an answer", Client::connect(config)).await)
}

fn config(url: impl Into<String>) -> Config {
    Config::from_url(url).unwrap().command_timeout(LONG)
}

/// A port at which nobody listens.
fn closed_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_network_does() {
    let port = closed_port();
    let url = format!("redis://127.0.0.1:{port}");
    assert_eq!(kind_of_connecting(config(&url)).await, Kind::Unreachable);
    assert_eq!(kind_of_connecting(config("unix:///no/such/socket")).await, Kind::Unreachable);

    let stage = Stage::new().await;
    let patient = connect(stage.config().command_timeout(LONG)).await;
    let client = stage.client().await;
    let lock = patient.lock(LOCK);
    assert!(!lock.is_locked().await.unwrap());
    let lost = stage.proxy.lose_next_reply(LOCK);
    assert_eq!(kind(lock.is_locked().await), Kind::Disconnected);
    drop(lost);
    let lock = client.lock(LOCK);
    gets_through(&client).await;
    stage.proxy.hold_requests_with(LOCK);
    assert_eq!(kind(lock.is_locked().await), Kind::Timeout);
    stage.proxy.heal();
    stage.proxy.refuse(true);
    stage.proxy.cut_all();
    // The first call meets the connection that is lost.
    let asked = async { while kind(lock.try_lock().await) != Kind::Unreachable {} };
    within(PATIENCE, "no connection", asked).await;
    stage.proxy.heal();
    stage.end([client, patient]).await;

    let lazy =
        connect(config(url).lazy_connect(true).command_timeout(Duration::from_secs(1))).await;
    assert_eq!(kind(lazy.lock(LOCK).is_locked().await), Kind::Unreachable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_not_redis() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // It ends with the process.
    thread::spawn(move || {
        let mut open = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
            open.push(stream);
        }
    });
    let url = format!("redis://127.0.0.1:{port}");
    assert_eq!(kind_of_connecting(config(url)).await, Kind::Protocol);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_credentials_and_rights_are() {
    let stage = refusals::stage().await;
    let port = stage.server.port();
    for login in ["service:wrong", "nobody:secret"] {
        let url = format!("redis://{login}@127.0.0.1:{port}");
        assert_eq!(kind_of_connecting(config(url)).await, Kind::Auth);
    }
    let shut = RedisServer::builder().arg("--requirepass").arg("secret").start();
    assert_eq!(kind_of_connecting(config(shut.url())).await, Kind::Auth);

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("password");
    std::fs::write(&file, "secret").unwrap();
    let client = connect(refusals::config(&stage).password_file(&file)).await;
    std::fs::remove_file(&file).unwrap();
    stage.proxy.cut_all();
    let asked = async {
        loop {
            let kind = kind(client.lock(LOCK).is_locked().await);
            // The first calls may meet the connection that is lost.
            if !matches!(kind, Kind::Disconnected | Kind::Unreachable) {
                return kind;
            }
        }
    };
    assert_eq!(soon("the reason", asked).await, Kind::Auth);
    std::fs::write(&file, "secret").unwrap();
    gets_through(&client).await;
    client.close().await.unwrap();

    let client = connect(refusals::config(&stage).command_timeout(LONG)).await;
    let lock = client.lock(LOCK);
    Refusal::Rights.set(&stage, true);
    assert_eq!(kind(lock.try_lock().await), Kind::NoPermission);
    Refusal::Rights.set(&stage, false);
    // In the middle of a script.
    set_user(&stage, &["-hkeys"]);
    assert_eq!(kind(lock.is_locked().await), Kind::NoPermission);
    set_user(&stage, &["+@all"]);
    stage.end([client]).await;

    let server = RedisServer::builder();
    let server = server.arg("--rename-command").arg("EVALSHA").arg("").start();
    assert_eq!(kind_of_connecting(config(server.url())).await, Kind::Refused);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_is_short_of() {
    let stage = refusals::stage().await;
    // A refusal is told soon, and comes before a timeout.
    let config_of_client = refusals::config(&stage).command_timeout(LONG);
    let client = connect(config_of_client.retry_timeout(Duration::from_secs(1))).await;
    let lock = client.lock(LOCK);
    for (refusal, expected) in [
        (Refusal::Disk, Kind::CannotSave),
        (Refusal::Memory, Kind::OutOfMemory),
        (Refusal::Replicas, Kind::NoReplicas),
        (Refusal::Role, Kind::ReadOnly),
    ] {
        refusal.set(&stage, true);
        // A late copy of a request is undone. It may hold its lock until then.
        let lock = client.lock(format!("{refusal:?}"));
        assert_eq!(kind(lock.try_lock().await), expected);
        refusal.set(&stage, false);
    }
    let set = |name: &str, value: &str| {
        stage.redis().query::<()>(cmd("CONFIG").arg("SET").arg(name).arg(value));
    };
    set("replica-serve-stale-data", "no");
    Refusal::Role.set(&stage, true);
    assert_eq!(kind(lock.is_locked().await), Kind::NoMaster);
    Refusal::Role.set(&stage, false);
    set("maxclients", "2");
    let url = format!("redis://service:secret@127.0.0.1:{}", stage.server.port());
    assert_eq!(kind_of_connecting(config(url)).await, Kind::TooManyClients);
    set("maxclients", "100");
    stage.nothing_held().await;
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_does_meanwhile() {
    let busy = RedisServer::start();
    let client = connect(config(busy.url())).await;
    let script = EndlessScript::begin(&busy);
    let lock = client.lock(LOCK);
    let asked = async {
        loop {
            match lock.is_locked().await {
                Ok(_) => {}
                error if kind(&error) == Kind::Busy => return,
                Err(_) => {}
            }
        }
    };
    within(PATIENCE, "a busy server", asked).await;
    script.kill();
    client.close().await.unwrap();

    let slow = RedisServer::builder().arg("--enable-debug-command").arg("yes");
    let slow = slow.arg("--loading-process-events-interval-bytes").arg("1024").start();
    let client = connect(config(slow.url())).await;
    let fill = "for i = 1, 20000 do redis.call('set', 'key' .. i, i) end";
    slow.inspector().query::<()>(cmd("EVAL").arg(fill).arg(0));
    slow.inspector().query::<()>(cmd("CONFIG").arg("SET").arg("key-load-delay").arg(1000));
    let mut reloads = slow.client();
    // The server is killed before it has loaded everything.
    thread::spawn(move || {
        let _: RedisResult<()> = cmd("DEBUG").arg("RELOAD").query(&mut reloads);
    });
    let lock = client.lock(LOCK);
    let asked = async {
        loop {
            match lock.is_locked().await {
                Ok(_) => {}
                error if kind(&error) == Kind::Loading => return,
                Err(_) => {}
            }
        }
    };
    within(PATIENCE, "a server that loads", asked).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_cluster_does() {
    let alone = RedisServer::builder().arg("--cluster-enabled").arg("yes").start();
    let client = connect(config(alone.url())).await;
    let lock = client.lock(LOCK);
    // Over fred such an answer ends the connection, and that may be told first.
    let asked = async { while kind(lock.is_locked().await) != Kind::ClusterDown {} };
    within(PATIENCE, "a cluster that is down", asked).await;

    let cluster = RedisCluster::start();
    let owner = cluster.master_of(LOCK);
    let other = cluster.masters().into_iter().find(|node| *node != owner).unwrap();
    let client = connect(config(cluster.node(other).url())).await;
    assert_eq!(kind(client.lock(LOCK).is_locked().await), Kind::Moved);
}

#[test]
fn what_the_runtime_does() {
    let build = || Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (own, other) = (build(), build());
    let server = RedisServer::start();
    let client = own.block_on(connect(config(server.url())));
    drop(own);
    let ended = async { kind(client.lock(LOCK).is_locked().await) };
    assert_eq!(other.block_on(ended), Kind::RuntimeEnded);
}
