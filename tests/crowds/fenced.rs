//! Tokens grow, whatever happens to their holders.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{Lang, PeerArgs, PeerError, RedisServer, assert_nothing_left, java_or_skip};
use redisson_lock::{Client, Config};
use serde_json::json;
use tokio::time::sleep;

use crate::crowd::{begun, peer, place};

const LOCK: &str = "ledger";
const TOKENS: &str = "redisson_lock_token:{ledger}";

/// What one acquisition saw, in µs since 1970.
#[derive(Clone, Copy, Debug)]
struct Hold {
    asked: u64,
    granted: u64,
    token: u64,
}

fn acquisitions() -> usize {
    let wanted = std::env::var("FENCED_ACQUISITIONS").ok();
    wanted.map_or(600, |wanted| wanted.parse().expect("FENCED_ACQUISITIONS is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_grow_strictly_through_kills_and_expiries() {
    let _place = place().await;
    const NAME: &str = "tokens_grow_strictly_through_kills_and_expiries";
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url());
    let Some(java) = java_or_skip(NAME, &args).await else { return };
    let rust = Arc::new(Mutex::new(peer(Lang::Rust, &args).await));
    let holds = Arc::new(Mutex::new(Vec::new()));
    let wanted = acquisitions();

    let mut tasks = Vec::new();
    for owner in 0..8_usize {
        let (rust, java, holds) = (rust.clone(), java.clone(), holds.clone());
        tasks.push(tokio::spawn(async move {
            let mut rng = fastrand::Rng::with_seed(owner as u64);
            while holds.lock().unwrap().len() < wanted {
                // Redisson gives a token with each re-entry too: of its owners each takes the lock once.
                let peer = if owner < 2 { java.clone() } else { rust.lock().unwrap().clone() };
                let party = peer.party(format!("owner {owner}"), "fenced", LOCK);
                let lease = json!({ "lease_ms": 80, "wait_ms": 20_000 });
                match party.ask("try_lock", lease).await {
                    Ok(answer) if answer.is_granted() => {
                        let token = answer.value.as_u64().expect("a token");
                        let (asked, granted) = (begun(&answer), answer.at);
                        // Redisson's peer reads the counter once it has the lock. On a busy machine the lease may
                        // end before, and the counter is then that of the next holder.
                        if owner < 2 && !party.is_held().await {
                            continue;
                        }
                        holds.lock().unwrap().push(Hold { asked, granted, token });
                    }
                    Ok(_) => continue,
                    // The answer came when the lease was over, on a busy machine.
                    Err(error) if error.code() == Some("not_held") => continue,
                    Err(PeerError::Gone(_)) => {
                        sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                    Err(error) => panic!("{party}: {error}"),
                }
                // One in eight sleeps through the end of its lease; its unlock is refused then.
                if rng.u8(..) < 32 {
                    sleep(Duration::from_millis(100)).await;
                }
                let _ = party.ask("unlock", serde_json::Value::Null).await;
            }
        }));
    }
    let mut kills = 0;
    let began = Instant::now();
    while holds.lock().unwrap().len() < wanted {
        assert!(began.elapsed() < Duration::from_secs(600), "it takes too long");
        sleep(Duration::from_millis(1_500)).await;
        let fresh = peer(Lang::Rust, &args).await;
        let old = std::mem::replace(&mut *rust.lock().unwrap(), fresh);
        old.kill().await;
        kills += 1;
    }
    for task in tasks {
        task.await.expect("an owner");
    }

    let mut holds = holds.lock().unwrap().clone();
    let expired = check(&mut holds);
    println!(
        "{} holds in {:?}, {kills} processes killed, tokens up to {}: each greater than all that were given before it was asked for; {expired} pairs were given in the other order than their answers came",
        holds.len(),
        began.elapsed(),
        holds.iter().map(|hold| hold.token).max().unwrap(),
    );
    java.close().await.expect("a clean end");
    let last = rust.lock().unwrap().clone();
    last.close().await.expect("a clean end");
    let () = server.inspector().query(cmd("DEL").arg(TOKENS));
    assert_nothing_left(&server).await;
}

/// Panics when a token was given twice, or to somebody who asked after a greater one had been given. Also counts
/// neighbours whose answers came in the other order than their tokens: that is the network.
fn check(holds: &mut [Hold]) -> usize {
    holds.sort_by_key(|hold| hold.token);
    for pair in holds.windows(2) {
        assert!(pair[0].token < pair[1].token, "given twice: {pair:?}");
    }
    // By token: nobody may have been granted before anybody with a smaller token asked.
    let mut asked = 0;
    for hold in holds.iter() {
        assert!(hold.granted > asked, "{hold:?} was granted before one with a smaller token asked");
        asked = asked.max(hold.asked);
    }
    holds.windows(2).filter(|pair| pair[1].granted < pair[0].granted).count()
}

#[test]
#[should_panic(expected = "smaller token")]
fn a_token_that_is_too_small_would_be_noticed() {
    let early = Hold { asked: 1, granted: 5, token: 8 };
    check(&mut [early, Hold { asked: 6, granted: 9, token: 7 }]);
}

/// Which an operator may do, so that they grow on after a loss of all data: by a clock, say.
#[tokio::test]
async fn tokens_that_begin_high_grow_strictly_too() {
    for first in [(1_u64 << 53) - 3, 1_700_000_000_000_000_000, i64::MAX as u64 - 8] {
        let server = RedisServer::start();
        server.inspector().query::<()>(cmd("SET").arg(TOKENS).arg(first));
        let client = Client::connect(Config::from_url(server.url()).unwrap()).await.unwrap();
        let lock = client.fenced_lock(LOCK);
        for token in first + 1..first + 4 {
            let guard = lock.lock().await.unwrap();
            assert_eq!(guard.token().value(), token);
            assert_eq!(lock.latest_token().await.unwrap(), Some(guard.token()));
            guard.unlock().await.unwrap();
        }
        // From hand to hand.
        let guard = lock.lock().await.unwrap();
        let mut next = std::pin::pin!(lock.lock().into_future());
        assert!(futures::poll!(&mut next).is_pending());
        guard.unlock().await.unwrap();
        let next = next.await.unwrap();
        assert_eq!(next.token().value(), first + 5);
        next.unlock().await.unwrap();
        client.close().await.unwrap();
    }
}
