use std::time::Duration;

use harness::{EndlessScript, RedisCluster, RedisServer, redis::cmd};

use super::*;
use crate::wire::topology::{ALL_SLOTS, Routes};

fn size_of_future<'a, F: Future>(
    _: impl FnOnce(&'a Arc<Router>, &'a Invocation, Option<Confirm>, Bound) -> F,
) -> usize {
    size_of::<F>()
}

/// The future is built and moved for every call. Rare parts, and the driver's 5 KB, are boxed
/// apart from it.
#[test]
fn a_call_under_way_is_small() {
    let size = size_of_future(Router::send);
    assert!(size < 768, "{size} bytes");
}

/// A transport of a cluster in which this server serves all slots.
async fn served_by(server: &RedisServer, sharded: bool) -> RedisTransport {
    let router = Router::for_tests(server.port(), sharded);
    let transport = RedisTransport::new(router);
    serve(&transport, server).await;
    transport
}

/// From now on this server serves all slots.
async fn serve(transport: &RedisTransport, server: &RedisServer) {
    let (router, at) = (&transport.router, Address::new("localhost", server.port()));
    router.know(server.port());
    let node = router.joining(&at, None, Instant::now() + Duration::from_secs(3)).await.unwrap();
    let slots = vec![(ALL_SLOTS, node.clone())];
    let nodes = router.routes().with(&at, &node).nodes;
    *router.routes.write().unwrap() = Arc::new(Routes { slots, nodes, epoch: 0 });
}

fn subscribed_on(server: &RedisServer, sharded: bool) -> Vec<String> {
    let which = if sharded { "SHARDCHANNELS" } else { "CHANNELS" };
    let mut channels: Vec<String> = server.inspector().query(cmd("PUBSUB").arg(which));
    channels.sort();
    channels
}

fn channels() -> Vec<String> {
    ["a", "b", "c"].map(str::to_owned).to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsubscription_that_is_cut_short_can_be_repeated() {
    let server = RedisServer::start();
    let transport = served_by(&server, true).await;
    transport.subscribe(channels()).await.unwrap();
    assert_eq!(subscribed_on(&server, true), channels());
    // Cut, unless the server answers during this poll.
    let _ = transport.unsubscribe(channels()).now_or_never();
    transport.unsubscribe(channels()).await.unwrap();
    assert_eq!(subscribed_on(&server, true), [""; 0]);
    assert!(!transport.may_be_subscribed("a"));
    transport.quit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unsubscription_that_fails_is_told_and_can_be_repeated() {
    let server = RedisServer::start();
    let transport = served_by(&server, false).await;
    transport.subscribe(channels()).await.unwrap();
    let busy = EndlessScript::begin(&server);
    let told = transport.unsubscribe(channels()).await;
    assert!(matches!(told, Err(WireError::NotNow(_))), "{told:?}");
    busy.kill();
    assert_eq!(subscribed_on(&server, false), channels());
    transport.unsubscribe(channels()).await.unwrap();
    assert_eq!(subscribed_on(&server, false), [""; 0]);
    transport.quit().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_busy_when_its_slots_moved_is_unsubscribed_from_later() {
    let (old, new) = (RedisServer::start(), RedisServer::start());
    let transport = served_by(&old, false).await;
    transport.subscribe(channels()).await.unwrap();
    serve(&transport, &new).await;
    let busy = EndlessScript::begin(&old);
    transport.subscribe(channels()).await.unwrap();
    busy.kill();
    assert_eq!(subscribed_on(&new, false), channels());
    transport.unsubscribe(channels()).await.unwrap();
    for server in [&old, &new] {
        assert_eq!(subscribed_on(server, false), [""; 0]);
    }
    transport.quit().await;
}

/// It may be ended before the server is asked for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_that_is_ended_while_it_is_made_is_known_afterwards() {
    let server = RedisServer::start();
    let transport = served_by(&server, true).await;
    let both = (transport.subscribe(channels()), transport.unsubscribe(channels()));
    let (subscribed, unsubscribed) = tokio::join!(biased; both.0, both.1);
    subscribed.unwrap();
    unsubscribed.unwrap();
    assert!(transport.may_be_subscribed("a"));
    transport.unsubscribe(channels()).await.unwrap();
    assert!(!transport.may_be_subscribed("a"));
    assert_eq!(subscribed_on(&server, true), [""; 0]);
    transport.quit().await;
}

/// The connection is given up, and its subscriptions end with it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_keeps_nobody_from_unsubscribing() {
    let server = RedisServer::start();
    let transport = served_by(&server, false).await;
    transport.subscribe(channels()).await.unwrap();
    server.pause();
    transport.unsubscribe(channels()).await.unwrap();
    assert!(!transport.may_be_subscribed("a"));
    server.resume();
    transport.quit().await;
}

/// With some drivers nobody waits for the refusal, and the answer to what is sent next is left for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_channel_that_is_refused_is_never_confirmed_however_quick_the_server_is() {
    let server = RedisServer::start();
    let transport = served_by(&server, false).await;
    let rules = ["resetchannels", "&heard:*"];
    let () = server.inspector().query(cmd("ACL").arg("SETUSER").arg("default").arg(&rules));
    for round in 0..1_000 {
        let (heard, unheard) = (format!("heard:{round}"), format!("unheard:{round}"));
        let told = transport.subscribe(vec![heard.clone(), unheard.clone()]).await;
        assert!(matches!(told, Err(WireError::Refused(_))), "{round}: {told:?}");
        if round % 2 == 0 {
            // It may meet what is left of the one before, which is given up.
            let _ = transport.subscribe(vec![unheard.clone()]).now_or_never();
        }
        let told = transport.subscribe(vec![unheard]).await;
        assert!(!matches!(told, Ok(())), "{round}: {told:?}");
        let mut left = 10;
        while let Err(why) = transport.subscribe(vec![heard.clone()]).await {
            left -= 1;
            assert!(left > 0, "{round}: {why:?}");
        }
        assert_eq!(subscribed_on(&server, false), [heard.as_str()], "{round}");
        transport.unsubscribe(vec![heard]).await.unwrap();
    }
    transport.quit().await;
}

/// It says MOVED to SUNSUBSCRIBE, and with some drivers nobody waits for that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscription_beside_one_that_has_moved_away_gets_its_own_answer() {
    let cluster = RedisCluster::start();
    let names: Vec<String> = (0..200).map(|n| format!("c{n}")).collect();
    let owner = cluster.master_of(&names[0]);
    let away = names.iter().filter(|name| cluster.master_of(name) != owner);
    let (here, away) = (&names[..1], Vec::from_iter(away.take(2).cloned()));
    let transport = served_by(cluster.node(owner), true).await;
    let node = transport.router.node_of(b"c0").unwrap();
    for round in 0..50 {
        let unsubscription = node.unsubscribe(away.clone(), true);
        let (_, told) = tokio::join!(unsubscription, node.subscribe(here.to_vec(), true));
        assert!(told.is_ok(), "{round}: {told:?}");
    }
    assert_eq!(subscribed_on(cluster.node(owner), true), here);
    transport.quit().await;
}
