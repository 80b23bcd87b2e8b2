//! Callers that join a node, and nodes that are replaced.

use std::{
    net::TcpListener,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::FutureExt;
use harness::{PATIENCE, RedisCluster, RedisServer, Sentinel, eventually};
use tokio::time::sleep;
use tracing::{Event, Level, Metadata, Subscriber, span};

use super::*;
use crate::{
    options::{Driver, Replicas},
    warnings::Warnings as LogWarnings,
    wire::{
        Confirm,
        answers::Failure,
        connection::{Bound, Channels, OnBreak},
        drivers,
        script::{Invocation, Script},
        topology::Discovery,
        url::read_url,
    },
};

impl Router {
    /// One of a cluster, of which it knows the address of one server.
    pub(in crate::wire) fn for_tests(port: u16, sharded: bool) -> Self {
        let driver = drivers::new(Driver::default(), None).unwrap();
        let mut settings = ConnectionSettings::for_tests(driver, OnBreak::Reconnect);
        settings.channels = if sharded { Channels::Sharded } else { Channels::Plain };
        let deployment = read_url(&format!("redis-cluster://localhost:{port}")).unwrap();
        let (routes, map) = (Routes::default(), ServerMap::default());
        let router = Self::new(settings, Some(deployment), routes, map);
        router.know(port);
        router
    }

    /// From now on this server is the one node of the cluster.
    pub(in crate::wire) fn know(&self, port: u16) {
        let mut address = Address::new("localhost", port);
        address.alias = Some("127.0.0.1".to_owned());
        let nodes = vec![Server { address, id: None }];
        self.set_map(ServerMap { nodes, ..ServerMap::default() });
    }
}

fn router(port: u16) -> Arc<Router> {
    Arc::new(Router::for_tests(port, false))
}

fn in_time() -> Instant {
    Instant::now() + Duration::from_secs(3)
}

#[tokio::test]
async fn a_master_that_broke_is_connected_to_once_by_whatever_name() {
    let server = RedisServer::start();
    let router = router(server.port());
    let alias = Address::new("127.0.0.1", server.port());
    let mut named = Address::new("localhost", server.port());
    let node = router.joining(&named, None, in_time()).await.unwrap();
    // As the next map names it.
    named.alias = Some(alias.host.clone());
    *router.routes.write().unwrap() = Arc::new(router.routes().with(&named, &node));
    assert_eq!(router.joining(&alias, None, in_time()).await.unwrap(), node);

    node.quit().await;
    let again = router.joining(&alias, None, in_time()).await.unwrap();
    assert_ne!(again, node);
    assert_eq!(router.joining(&alias, None, in_time()).await.unwrap(), again);
    assert_eq!(router.joining(&named, None, in_time()).await.unwrap(), again);
    assert_eq!(router.routes().address_of(&again), Some(&named));
    again.quit().await;
}

/// They try the server that has replaced it. Those that replicas must confirm do so, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_of_a_replaced_server_that_hangs_are_let_go() {
    static SCRIPT: Script = Script::new("one", "return 1");
    let call = Invocation { script: &SCRIPT, keys: 1, args: vec!["k".into()] };
    let confirm = Confirm {
        replicas: Replicas::OneOfAll,
        timeout: Duration::from_secs(1),
        needs_confirmation: |_| true,
    };
    for confirm in [None, Some(confirm)] {
        let server = RedisServer::start();
        let router = router(server.port());
        let address = Address::new("localhost", server.port());
        let node = router.joining(&address, None, in_time()).await.unwrap();
        let ask = || {
            let (node, call) = (node.clone(), call.clone());
            async move {
                let bound = Bound::of(Duration::from_secs(10));
                match confirm {
                    None => node.call(&call, false, bound).await,
                    Some(confirm) => node.call_confirmed(&call, false, confirm, bound).await,
                }
            }
        };
        ask().await.unwrap();
        server.pause();
        let asked = tokio::spawn(ask());
        sleep(Duration::from_millis(200)).await;
        let begun = Instant::now();
        node.retire().await;
        let answer = asked.await.unwrap();
        assert!(answer.is_err() && begun.elapsed() < Duration::from_secs(2), "{answer:?}");
        server.resume();
    }
}

/// As when the servers of an older answer are connected to in the meantime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_dropped_can_be_asked_again() {
    let sentinel = Sentinel::start();
    let [one, other, _] = &sentinel.sentinels()[..] else { panic!("three sentinels") };
    let service = Sentinel::MASTER;
    let url = format!("redis-sentinel://{one}?sentinelServiceName={service}&node={other}");
    let deployment = read_url(&url).unwrap();
    let mut discovery = Discovery::new(&deployment, &router(0).settings);
    let map = discovery.ask().await.unwrap();
    for _ in 0..3 {
        assert!(discovery.ask().now_or_never().is_none(), "it takes a while");
    }
    assert_eq!(discovery.ask().await.unwrap(), map);
}

/// A file of Redisson may name that of the servers alone. The driver takes the refusal of a server without a password for an
/// OK.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_a_sentinel_does_not_ask_for_is_no_error() {
    let sentinel = Sentinel::start();
    let (one, service) = (&sentinel.sentinels()[0], Sentinel::MASTER);
    let url =
        format!("redis-sentinel://{one}?sentinelServiceName={service}&sentinelPassword=unasked");
    let mut discovery = Discovery::new(&read_url(&url).unwrap(), &router(0).settings);
    assert_eq!(discovery.ask().await.unwrap().slots.len(), 1);
}

/// Counts warnings.
#[derive(Clone, Default)]
struct Warnings(Arc<AtomicUsize>);

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[tokio::test]
async fn a_master_that_cannot_be_reached_is_warned_of_once() {
    let warnings = Warnings::default();
    let _here = tracing::subscriber::set_default(warnings.clone());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
    drop(listener);
    let router = router(at.port);
    for _ in 0..5 {
        assert!(router.joining(&at, None, in_time()).await.is_none());
    }
    assert_eq!(warnings.0.load(Ordering::Relaxed), 1);
}

/// As when one master is killed while another is cut off.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_master_that_is_silent_does_not_keep_the_others_from_being_used() {
    let (server, silent) = (RedisServer::start(), TcpListener::bind("127.0.0.1:0").unwrap());
    let master = |port| Server { address: Address::new("127.0.0.1", port), id: None };
    let gone = silent.local_addr().unwrap().port();
    let slots = vec![(0..=99, master(gone)), (100..=16383, master(server.port()))];
    let map = ServerMap { slots, nodes: Vec::new(), epoch: 1 };
    let router = router(server.port());
    let deployment = router.deployment.as_ref().unwrap();
    let mut took = Vec::new();
    for patience in [Patience::Short, Patience::Full] {
        let (begun, none) = (Instant::now(), Routes::default());
        let connecting = connect_all(&map, &none, deployment, &router.settings, patience);
        let (routes, errors) = connecting.await;
        took.push(begun.elapsed());
        assert!(routes.of(0).is_none() && routes.of(100).is_some());
        let [error] = &errors[..] else { panic!("{errors:?}") };
        assert!(error.to_string().contains(&gone.to_string()), "{error}");
    }
    assert!(took[1] >= router.settings.command_timeout && took[0] < took[1] / 2, "{took:?}");
}

/// Calls are redirected to both, since slots move to both.
#[tokio::test]
async fn a_silent_server_does_not_keep_another_from_joining() {
    let (server, silent) = (RedisServer::start(), TcpListener::bind("127.0.0.1:0").unwrap());
    let [silent, other] = [silent.local_addr().unwrap().port(), server.port()]
        .map(|port| Address::new("127.0.0.1", port));
    let warnings = Warnings::default();
    let _here = tracing::subscriber::set_default(warnings.clone());
    let router = router(server.port());
    let known = [&silent, &other].map(|at| Server { address: at.clone(), id: None });
    router.set_map(ServerMap { nodes: known.to_vec(), ..ServerMap::default() });
    let mut waits = Box::pin(router.joining(&silent, None, in_time()));
    assert!(waits.as_mut().now_or_never().is_none(), "it does not answer");
    assert!(router.joining(&other, None, in_time()).await.unwrap().is_connected());
    assert!(waits.as_mut().now_or_never().is_none(), "it does not answer");
    assert!(waits.await.is_none());
    let is_told = || (warnings.0.load(Ordering::Relaxed) == 1).then_some(());
    eventually(PATIENCE, "a warning", is_told).await;
}

/// It comes to an address at which another was known. Nobody asks who is in the cluster meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_joins_is_learnt_from_who_redirects_if_that_is_of_the_cluster() {
    let (ours, theirs) = (RedisCluster::start(), RedisCluster::start());
    let router = router(ours.node(0).port());
    let deployment = router.deployment.as_ref().unwrap();
    let map = Discovery::new(deployment, &router.settings).ask().await.unwrap();
    let none = Routes::default();
    let (routes, errors) =
        connect_all(&map, &none, deployment, &router.settings, Patience::Full).await;
    assert!(errors.is_empty(), "{errors:?}");
    let redirects = routes.of(0).unwrap().clone();
    router.set_map(map);

    // One that has gone to another cluster, as far as it can be told: it knows none of ours.
    let gone = Address::new("127.0.0.1", theirs.node(theirs.masters()[0]).port());
    let url = format!("redis-cluster://{gone}");
    let its_map = Discovery::new(&read_url(&url).unwrap(), &router.settings).ask().await.unwrap();
    let id = its_map.nodes.iter().find(|node| node.address == gone).unwrap().id.clone();
    let endpoint = Endpoint { node_id: id, ..deployment.endpoint(&gone) };
    let stranger = connect_one(endpoint, &router.settings).await.unwrap();
    *router.routes.write().unwrap() = Arc::new(routes.with(&gone, &stranger));

    for cluster in [&ours, &theirs] {
        cluster.make_an_empty_master();
    }
    let empty = |cluster: &RedisCluster| {
        Address::new("127.0.0.1", cluster.node(cluster.empty_master()).port())
    };
    let (new, foreign) = (empty(&ours), empty(&theirs));
    assert!(router.joining(&new, None, in_time()).await.is_none(), "it is not known yet");
    assert!(router.joining(&foreign, Some(&stranger), in_time()).await.is_none());
    let joined = router.joining(&new, Some(&redirects), in_time()).await.unwrap();
    assert!(joined.is_connected());
}

async fn adopt(router: &Router, map: &ServerMap, deployment: &Deployment) -> bool {
    let reached = router.reach(map, deployment, &LogWarnings::default()).await;
    router.install(reached)
}

/// As nodes do that are in several networks and announce no address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_is_named_by_another_address_stays() {
    let cluster = RedisCluster::start();
    let router = router(cluster.node(0).port());
    let deployment = router.deployment.as_ref().unwrap();
    let map = Discovery::new(deployment, &router.settings).ask().await.unwrap();
    let mut other = map.clone();
    for (_, Server { address, .. }) in &mut other.slots {
        *address = Address::new("localhost", address.port);
    }
    other.nodes.extend(other.slots.iter().map(|(_, master)| master.clone()));
    assert_ne!(map.slots, other.slots);
    assert!(adopt(&router, &map, deployment).await);
    let slots = router.routes().slots.clone();
    assert_eq!(slots.len(), map.slots.len());
    for map in [&other, &map, &other] {
        assert!(adopt(&router, map, deployment).await);
        assert_eq!(router.routes().slots, slots);
    }
    for map in [&map, &other] {
        // Redirections may name both.
        let known = router.known_at(&map.slots[1].1.address);
        assert_eq!(known.as_ref(), Some(&slots[1].1));
    }
    // So does one that was slow, and one whose cluster is down if it cannot be reached elsewhere.
    let mut closed = other.clone();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    closed.slots[1].1.address = Address::new("127.0.0.1", nobody.port());
    closed.nodes.push(closed.slots[1].1.clone());
    slots[1].1.timed_out(Duration::ZERO);
    assert!(adopt(&router, &closed, deployment).await);
    slots[1].1.note_error(&Failure::refused("CLUSTERDOWN The cluster is down"));
    assert!(!adopt(&router, &closed, deployment).await);
    assert_eq!(router.routes().slots, slots);
    // Nobody names it at its old address any more: it was put elsewhere, and what answers there is a copy.
    let old =
        |node: &Server| node.id == closed.slots[2].1.id && node.address == map.slots[2].1.address;
    let mut moved = other.clone();
    moved.nodes.retain(|node| !old(node));
    assert!(adopt(&router, &moved, deployment).await);
    assert_eq!(router.routes().slots[0], slots[0]);
    assert_ne!(router.routes().slots[1], slots[1]);
    assert_ne!(router.routes().slots[2], slots[2]);
    let slots = router.routes().slots.clone();
    // One that has gone from its old address is connected to at the new one.
    slots[0].1.quit().await;
    assert!(adopt(&router, &other, deployment).await);
    let now = router.routes();
    assert_ne!(now.slots[0], slots[0]);
    assert_eq!(now.slots[1..], slots[1..]);
    assert_eq!(now.address_of(&now.slots[0].1), Some(&other.slots[0].1.address));
}

/// The server has then ended the subscriptions to its channels. A driver may not tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slot_that_has_gone_away_and_come_back_is_a_gap() {
    let server = RedisServer::start();
    let (gaps, mut router) =
        (Arc::new(AtomicUsize::new(0)), Router::for_tests(server.port(), true));
    let count = gaps.clone();
    router.settings.sink = Arc::new(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let master = Server { address: Address::new("127.0.0.1", server.port()), id: None };
    let deployment = router.deployment.clone().unwrap();
    // Nodes that were restored may have older epochs.
    for (epoch, expected) in [(3, 1), (3, 1), (5, 2), (5, 2), (4, 2), (5, 3)] {
        let slots = vec![(0..=16383, master.clone())];
        let map = ServerMap { slots, nodes: vec![master.clone()], epoch };
        assert!(adopt(&router, &map, &deployment).await);
        assert_eq!(gaps.load(Ordering::Relaxed), expected, "{epoch}");
    }
}
