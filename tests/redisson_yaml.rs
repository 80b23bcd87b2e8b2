//! One YAML file for a Redisson JVM and for this crate: both take the same lock, on one server, on a cluster and behind
//! sentinels.

use std::time::Duration;

use harness::{
    Lang, Peer, PeerArgs, PeerError, RedisCluster, RedisServer, Sentinel, Servers,
    assert_nothing_left, redis::cmd, skip_or_panic, within,
};
use redisson_lock::{Client, Config};
use tempfile::NamedTempFile;

const LOCK: &str = "order:42";

/// Longer than anything takes here.
const WAIT: Duration = Duration::from_secs(30);

/// A JVM on this file, or nothing where there is no Java.
async fn jvm(test: &str, yaml: &str) -> Option<(Peer, NamedTempFile)> {
    let file = NamedTempFile::with_suffix(".yaml").expect("a file");
    std::fs::write(file.path(), yaml).expect("to write it");
    let args = PeerArgs::default().option("--yaml", file.path().to_str().expect("a name"));
    match Peer::spawn(Lang::Java, &args).await {
        Ok(peer) => Some((peer, file)),
        Err(PeerError::Unavailable(why)) => {
            skip_or_panic(test, &why);
            None
        }
        Err(error) => panic!("{test}: {error}"),
    }
}

/// Each excludes the other, and is woken by it.
async fn both_take_the_same_lock(test: &str, servers: &dyn Servers, yaml: &str) {
    let Some((jvm, _file)) = jvm(test, yaml).await else { return };
    let java = jvm.party("me", "lock", LOCK);
    let config = Config::from_redisson_yaml(yaml).unwrap();
    let client = within(WAIT, "to connect", Client::connect(config)).await.unwrap();
    let lock = client.lock(LOCK);

    let guard = lock.lock().await.unwrap();
    assert!(!java.try_lock().await, "both hold it");
    let waiting = java.start_try_lock(WAIT);
    guard.unlock().await.unwrap();
    waiting.granted().await;

    assert!(lock.try_lock().await.unwrap().is_none(), "both hold it");
    let unlocking = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        java.unlock().await
    };
    let (waited, _) = tokio::join!(lock.try_lock().wait(WAIT).into_future(), unlocking);
    let guard = waited.unwrap().expect("the lock is free");
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
    jvm.close().await.unwrap();
    assert_nothing_left(servers).await;
}

/// The password is in a variable which every test has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_one_server_with_a_user_and_a_database() {
    let password = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "redisson-lock".into());
    let server = RedisServer::start();
    let password = format!(">{password}");
    let user = |name: &str, rights: &[&str]| {
        cmd("ACL").arg("SETUSER").arg(name).arg(rights).exec(&mut server.client()).unwrap();
    };
    user("orders", &["on", &password, "~*", "&*", "+@all"]);
    // Who does not log in takes no lock.
    user("default", &["-@scripting"]);
    let yaml = format!(
        r#"
singleServerConfig:
  address: "redis://127.0.0.1:{}"
  database: 3
  timeout: 2500
  connectionMinimumIdleSize: 1
username: orders
password: "${{CARGO_PKG_NAME:-redisson-lock}}"
lockWatchdogTimeout: 20_000
codec: !<org.redisson.client.codec.StringCodec> {{}}
"#,
        server.port()
    );
    both_take_the_same_lock("on_one_server_with_a_user_and_a_database", &server, &yaml).await;
}

/// Redisson takes what follows `://` as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_path_of_a_socket_is_taken_literally() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a%20b.sock", "a%20#b?c.sock"] {
        let path = folder.path().join(name);
        let path = path.to_str().unwrap();
        let server = RedisServer::builder().arg("--unixsocket").arg(path).start();
        let yaml = format!("singleServerConfig: {{address: 'redis+uds://{path}'}}");
        let config = Config::from_redisson_yaml(&yaml).unwrap();
        let client = within(WAIT, "to connect", Client::connect(config)).await.unwrap();
        let guard = client.lock(LOCK).lock().await.unwrap();
        assert!(server.inspector().exists(LOCK), "{name}");
        guard.unlock().await.unwrap();
        client.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_cluster() {
    let cluster = RedisCluster::start();
    let nodes = cluster.addresses();
    let yaml = format!(
        r#"
clusterServersConfig:
  nodeAddresses: ["redis://{}", "redis://{}"]
  scanInterval: 3000
  shardedSubscriptionMode: AUTO
  retryDelay: !<org.redisson.config.ConstantDelay> {{delay: PT0.5S}}
  masterConnectionMinimumIdleSize: 1
  slaveConnectionMinimumIdleSize: 1
slavesSyncTimeout: 500
"#,
        nodes[0], nodes[1]
    );
    both_take_the_same_lock("on_a_cluster", &cluster, &yaml).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels() {
    let sentinel = Sentinel::start();
    let sentinels = sentinel.sentinels();
    let yaml = format!(
        r#"
sentinelServersConfig:
  masterName: {}
  sentinelAddresses: ["redis://{}", "redis://{}"]
  readMode: MASTER
  masterConnectionMinimumIdleSize: 1
  slaveConnectionMinimumIdleSize: 1
checkLockSyncedSlaves: true
fairLockWaitTimeout: 300000
"#,
        Sentinel::MASTER,
        sentinels[0],
        sentinels[1]
    );
    both_take_the_same_lock("behind_sentinels", &sentinel, &yaml).await;
}
