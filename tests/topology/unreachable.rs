//! A master that sentinels still name, and that does not answer one client.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::{Proxy, Sentinel, assert_nothing_left, soon, within};
use redisson_lock::{Client, Config, Replicas};

const LOCK: &str = "order:42";
const CALLERS: usize = 50;
const OUTAGE: Duration = Duration::from_secs(5);

/// The client goes through the proxy, and sentinels and replicas do not.
async fn behind_a_proxy(servers: &Sentinel, config: fn(Config) -> Config) -> (Proxy, Client) {
    let master = servers.node(servers.master());
    let proxy = Proxy::start(master.port()).await;
    let service = Sentinel::MASTER;
    let url = format!("redis-sentinel://{}?sentinelServiceName={service}", servers.sentinels()[0]);
    let way = (format!("127.0.0.1:{}", master.port()), format!("127.0.0.1:{}", proxy.port()));
    let config = config(Config::from_url(&url).unwrap().nat_map([way]));
    (proxy, Client::connect(config).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_callers_do_not_storm_a_master_that_refuses_connections() {
    let servers = Sentinel::builder().replicas(0).start();
    let (proxy, client) = behind_a_proxy(&servers, |config| config).await;
    client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();

    proxy.refuse(true);
    proxy.cut_all();
    let before = proxy.accepted();
    let end = Instant::now() + OUTAGE;
    let caller = async |n: usize| {
        while Instant::now() < end {
            let _ = client.lock(format!("{LOCK}:{n}")).try_lock().await;
        }
    };
    join_all((0..CALLERS).map(caller)).await;
    let tries = proxy.accepted() - before;
    println!("{tries} connections in {OUTAGE:?}");
    // Two at a time, about once a second at last.
    assert!(tries > 2 && tries < 40, "{tries}");

    proxy.refuse(false);
    let guard = soon("a lock", client.lock(LOCK).lock()).await.unwrap();
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
    assert_nothing_left(&servers).await;
}

/// As after a firewall has forgotten what was open. Nobody waits for a lock, and so nobody asks the connection for messages
/// for a sign of life.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_connection_for_commands_is_replaced_though_replicas_confirm_over_others() {
    let servers = Sentinel::builder().replicas(1).start();
    let short = |config: Config| {
        let time = Duration::from_secs(1);
        config.command_timeout(time).retry_timeout(time)
    };
    let (proxy, client) = behind_a_proxy(&servers, short).await;
    let confirmed = client.lock(LOCK).replicas(Replicas::All);
    confirmed.lock().await.unwrap().unlock().await.unwrap();

    proxy.forget_connections();
    let begun = Instant::now();
    let taken = async {
        loop {
            if let Ok(guard) = confirmed.lock().await {
                break guard;
            }
        }
    };
    let guard = within(Duration::from_secs(30), "a lock", taken).await;
    println!("a lock after {:?}", begun.elapsed());
    soon("to unlock", guard.unlock()).await.unwrap();
    client.close().await.unwrap();
    assert_nothing_left(&servers).await;
}
