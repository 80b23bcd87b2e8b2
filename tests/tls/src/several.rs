//! A cluster, and sentinels, which use only TLS with each other.

use harness::redis::cmd;
use harness::{
    PATIENCE, RedisCluster, RedisServer, Sentinel, Servers, assert_nothing_left, eventually,
    lock_channel,
};
use redisson_lock::{Client, Config, Tls};
use tempfile::TempDir;

use crate::certificates::Authority;
use crate::{LOCK, assert_refused, connect, hand_over, server_knows_tls};

/// Where everybody has to show a certificate, clients too.
struct Security {
    authority: Authority,
    directory: TempDir,
}

impl Security {
    /// `None` where `redis-server` knows no TLS.
    fn new() -> Option<Self> {
        let new = || Self {
            authority: Authority::new("a test"),
            directory: tempfile::tempdir().unwrap(),
        };
        server_knows_tls().then(new)
    }

    fn tls(&self) -> Tls {
        self.authority.trusted_by(&self.authority.certify("client"))
    }

    fn config(&self, url: &str, names: impl FnOnce(Tls) -> Tls) -> Config {
        Config::from_url(url).unwrap().tls(names(self.tls())).unwrap()
    }
}

/// Certificates are for the hosts that servers are called by.
fn as_called(tls: Tls) -> Tls {
    tls
}

/// All nodes prove that they are `localhost`, and are known to each other by an address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn in_a_cluster_every_master_is_spoken_to_by_tls_and_has_to_prove_its_name() {
    let Some(security) = Security::new() else { return };
    let files = security.authority.files(security.directory.path(), "localhost");
    let cluster = RedisCluster::builder().tls(files).start();
    let nodes: Vec<_> = (0..cluster.addresses().len()).map(|node| cluster.node(node)).collect();
    let masters: Vec<_> = cluster.masters().into_iter().map(|node| cluster.node(node)).collect();
    let url = cluster_url("localhost", &nodes);

    // By its address, as the others call it, no node is who it says.
    let by_address = security.config(&url, as_called);
    assert_refused(by_address.clone(), "NotValidForName").await;
    assert_refused(by_address, "127.0.0.1:").await;
    let url_of_addresses = cluster_url("127.0.0.1", &nodes);
    let by_address = security.config(&url_of_addresses, as_called);
    assert_refused(by_address, "NotValidForName").await;

    // The user says who they are.
    let all_local = |tls: Tls| tls.server_names(|_, _| Some("localhost".into()));
    for config in [
        security.config(&url, Tls::name_of_first_host),
        security.config(&url_of_addresses, all_local),
    ] {
        works(&cluster, &masters, connect(config.clone()).await, connect(config).await).await;
    }

    // They say themselves who they are.
    for node in &nodes {
        let mut set = cmd("CONFIG");
        set.arg("SET").arg("cluster-announce-hostname").arg("localhost");
        set.exec(&mut node.client()).unwrap();
    }
    let all_know = || {
        let knows = |node: &&RedisServer| {
            let view: String = cmd("CLUSTER").arg("NODES").query(&mut node.client()).unwrap();
            view.lines().all(|line| line.contains(",localhost"))
        };
        nodes.iter().all(knows).then_some(())
    };
    eventually(PATIENCE, "nodes that know each other's names", all_know).await;
    let config = security.config(&url, as_called);
    let [one, other] = [connect(config.clone()).await, connect(config).await];
    let to = cluster.masters().into_iter().find(|&node| node != cluster.master_of(LOCK)).unwrap();
    // Sends away by the address.
    cluster.begin_to_move_slot_of(LOCK, to);
    one.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    cluster.move_slot_of(LOCK, to);
    works(&cluster, &masters, one, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_sentinels_they_and_the_master_are_spoken_to_by_tls() {
    let Some(security) = Security::new() else { return };
    let files = security.authority.files(security.directory.path(), "127.0.0.1");
    let servers = Sentinel::builder().replicas(1).tls(files).start();
    let sentinels: Vec<_> =
        (0..servers.sentinels().len()).map(|sentinel| servers.sentinel(sentinel)).collect();
    let [first, others @ ..] = &sentinels[..] else { panic!("no sentinels") };
    let others: String =
        others.iter().map(|other| format!("&node={}", at("127.0.0.1", other))).collect();
    let (first, master) = (at("127.0.0.1", first), Sentinel::MASTER);
    let url = format!("rediss-sentinel://{first}?sentinelServiceName={master}{others}");
    let config = security.config(&url, as_called);
    let [one, other] = [connect(config.clone()).await, connect(config).await];
    for sentinel in sentinels {
        assert!(connections(sentinel, sentinel.tls_port().unwrap()) >= 2);
    }
    works(&servers, &[servers.node(servers.master())], one, other).await;
}

/// To all of these servers both clients have their two connections, by TLS and not otherwise.
async fn works(servers: &dyn Servers, masters: &[&RedisServer], one: Client, other: Client) {
    for master in masters {
        let (plain, tls) =
            (connections(master, master.port()), connections(master, master.tls_port().unwrap()));
        assert!(tls >= 4, "{tls} connections by TLS to {}", master.address());
        assert!(plain <= 1, "{plain} connections without TLS to {}", master.address());
    }
    let inspector = servers.inspector();
    hand_over(&one, &other, || inspector.subscribers(&lock_channel(LOCK))).await;
    one.close().await.unwrap();
    other.close().await.unwrap();
    assert_nothing_left(servers).await;
}

/// How many the server has on this port, the one that asks among them.
fn connections(server: &RedisServer, port: u16) -> usize {
    let all: String = cmd("CLIENT").arg("LIST").query(&mut server.client()).unwrap();
    let here = format!(" laddr=127.0.0.1:{port} ");
    let replica = " flags=S ";
    all.lines().filter(|line| line.contains(&here) && !line.contains(replica)).count()
}

fn cluster_url(host: &str, nodes: &[&RedisServer]) -> String {
    let [first, others @ ..] = nodes else { panic!("no nodes") };
    let others: Vec<_> = others.iter().map(|node| format!("node={}", at(host, node))).collect();
    format!("rediss-cluster://{}?{}", at(host, first), others.join("&"))
}

fn at(host: &str, server: &RedisServer) -> String {
    format!("{host}:{}", server.tls_port().unwrap())
}
