//! The server goes down while callers wait for any segment.

use std::time::Duration;

use futures::future::join_all;
use harness::{Proxy, RedisServer};
use redisson_lock::{Client, Config, Error};
use tokio::time::{sleep, timeout};

use crate::{PROMPT, SEGMENTS, connect, stock};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_down_is_an_error_and_not_a_busy_stock() {
    let mut server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let holder = connect(server.url()).await;
    let held = join_all(stock(&holder).iter().map(|it| async move { it.lock().await.unwrap() }));
    let held = held.await;
    let config = Config::from_url(proxy.url()).unwrap();
    let config =
        config.command_timeout(Duration::from_secs(2)).retry_timeout(Duration::from_secs(4));
    let client = Client::connect(config).await.unwrap();

    let any = stock(&client).any();
    assert!(any.try_lock().wait(Duration::from_millis(300)).await.unwrap().is_none());
    let waits = any.clone();
    let for_ever = tokio::spawn(async move { waits.lock().await.map(Some) });
    let waits = any.clone();
    let bounded = tokio::spawn(async move { waits.try_lock().wait(Duration::from_secs(8)).await });
    sleep(Duration::from_millis(500)).await;
    assert!(!for_ever.is_finished() && !bounded.is_finished());
    server.kill();
    for waiter in [for_ever, bounded] {
        let ended = timeout(3 * PROMPT, waiter).await.expect("it has a bound").unwrap();
        assert!(matches!(ended, Err(Error::Redis(_))), "{ended:?}");
    }
    let at_once = timeout(PROMPT, any.try_lock().into_future()).await.expect("it has a bound");
    assert!(matches!(at_once, Err(Error::Redis(_))), "{at_once:?}");
    assert_eq!(held.len(), SEGMENTS);
}
