//! A hold that is left to a local waiter, which replaces it by one of its own.

use std::time::Duration;

use harness::{PATIENCE, Proxy, RedisServer, eventually, soon};
use redisson_lock::{Client, Config};

use crate::tally::Tally;

/// The reply to the swap is lost, and the waiter gives up: the first holder has released its lock
/// well, and nothing is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_that_went_well_is_no_loss() {
    let server = RedisServer::start();
    let proxy = Proxy::start(server.port()).await;
    let tally = Tally::default();
    let config = Config::from_url(proxy.url()).unwrap().command_timeout(Duration::from_secs(1));
    let client = Client::connect(config.observer(tally.clone())).await.unwrap();
    let lock = client.lock("swapped");
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("lua/reentrant/swap.lua");
    let pass: String = sha1_smol::Sha1::from(std::fs::read(file).unwrap()).digest().to_string();
    for round in 0..20 {
        let first = lock.lock().await.unwrap();
        let (waits, mut me) = (lock.clone(), client.owner());
        let waiter = tokio::spawn(async move { waits.lock().by(&mut me).await.map(drop) });
        eventually(PATIENCE, "a wait", || (tally.now() == (1, 1)).then_some(())).await;
        // The first rounds make the server know the scripts.
        let fired = (round >= 3).then(|| proxy.lose_replies(pass.as_str(), 1));
        let unlocked = soon("to unlock", first.unlock()).await;
        if let Some(fired) = fired {
            for _ in 0..100 {
                if fired.count() > 0 || waiter.is_finished() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            waiter.abort();
        }
        let _ = waiter.await;
        proxy.heal();
        eventually(PATIENCE, "the end", || (tally.now() == (0, 0)).then_some(())).await;
        if unlocked.is_ok() && tally.counts().keys().any(|what| what.starts_with("lost")) {
            panic!("unlock() said Ok, and the observer was told of a loss: {:?}", tally.counts());
        }
    }
    client.close().await.unwrap();
    tally.assert_over();
}
