//! What a holder of this crate is told, and what the key looks like.

use std::time::Duration;

use harness::{PATIENCE, RedisServer, eventually, redis::cmd};
use redisson_lock::{Client, Config, Error, Loss, Remaining};
use tokio::time::timeout;

use crate::PROMPT;

const LOCK: &str = "lock:product:1";

/// Renews each second.
async fn client(server: &RedisServer) -> Client {
    let config = Config::from_url(server.url()).unwrap().watchdog(Duration::from_secs(3));
    Client::connect(config).await.unwrap()
}

#[tokio::test]
async fn the_key_is_a_string_with_the_holder_and_a_ttl() {
    let server = RedisServer::start();
    let client = client(&server).await;
    let lock = client.plain_lock(LOCK);
    let guard = lock.lock().await.unwrap();
    let value: String = server.inspector().query(cmd("GET").arg(LOCK));
    assert_eq!(value, guard.holder());
    let seen = lock.inspect().await.unwrap();
    assert!(matches!(seen.remaining, Remaining::Held(left) if left <= Duration::from_secs(3)));
    assert_eq!((&*seen.holders[0].id, seen.holders[0].count), (guard.holder(), 1));
    assert!(seen.holders[0].ours);
    guard.unlock().await.unwrap();
    assert!(!lock.is_locked().await.unwrap());
    assert!(server.inspector().keys().is_empty());
    client.close().await.unwrap();
}

#[tokio::test]
async fn a_hold_outlives_its_lease_and_its_holder_is_told_when_another_deletes_it() {
    let server = RedisServer::start();
    let client = client(&server).await;
    let guard = client.plain_lock(LOCK).lock().await.unwrap();
    assert!(timeout(Duration::from_secs(5), guard.lost()).await.is_err(), "it is renewed");
    let () = server.inspector().query(cmd("DEL").arg(LOCK));
    let () = server.inspector().query(cmd("SET").arg(LOCK).arg("another").arg("PX").arg(60_000));
    let why = timeout(PATIENCE, guard.lost()).await.expect("to be told");
    assert_eq!(why, Loss::Taken);
    assert!(matches!(guard.unlock().await, Err(Error::NotHeld { why: Loss::Taken })));
    let value: String = server.inspector().query(cmd("GET").arg(LOCK));
    assert_eq!(value, "another");
    client.close().await.unwrap();
}

/// Other clients' tokens may be any bytes, of any length, without a TTL.
#[tokio::test]
async fn foreign_tokens_are_shown_and_waited_for() {
    let server = RedisServer::start();
    let client = client(&server).await;
    let lock = client.plain_lock(LOCK);
    let redis = server.inspector();
    let () = redis.query(cmd("SET").arg(LOCK).arg(b"\xac\xed\x00\x05 mode".as_slice()));
    let seen = lock.inspect().await.unwrap();
    assert_eq!(seen.remaining, Remaining::WithoutExpiry);
    assert_eq!(seen.holders[0].id, r"\xac\xed\x00\x05\x20mode");
    assert!(!seen.holders[0].ours);
    // That is not the token, and must not be taken for the answer that another has the lock.
    let forced = lock.force_unlock_if(&seen.holders[0].id).await;
    assert!(matches!(forced, Err(Error::Invalid(_))), "{forced:?}");
    let token = "8f3e5c0a9d1b4c7e8a6f2d3b4c5e6f70";
    let () = redis.query(cmd("SET").arg(LOCK).arg(token).arg("PX").arg(60_000));
    assert_eq!(lock.inspect().await.unwrap().holders[0].id, token);
    assert!(!lock.force_unlock_if(&token[1..]).await.unwrap());
    assert!(lock.force_unlock_if(token).await.unwrap(), "as a client of redis-py chooses it");
    assert!(!lock.force_unlock_if(token).await.unwrap());
    assert!(matches!(lock.force_unlock_if("").await, Err(Error::Invalid(_))));
    let () = redis.query(cmd("SETRANGE").arg(LOCK).arg(1_000_000).arg("end"));
    assert!(lock.inspect().await.unwrap().holders[0].id.len() <= 4 * 128);
    assert!(lock.try_lock().await.unwrap().is_none());
    let waits = tokio::spawn({
        let lock = lock.clone();
        async move { lock.lock().await }
    });
    tokio::time::sleep(PROMPT / 4).await;
    assert!(!waits.is_finished());
    let () = redis.query(cmd("DEL").arg(LOCK));
    let guard = timeout(PROMPT, waits).await.expect("soon").unwrap().unwrap();
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test]
async fn it_is_forced_cannot_be_re_entered_and_is_no_other_kind() {
    let server = RedisServer::start();
    let client = client(&server).await;
    let lock = client.plain_lock(LOCK);
    let mut me = client.owner();
    let guard = lock.lock().by(&mut me).await.unwrap();
    assert!(matches!(lock.lock().by(&mut me).await, Err(Error::WouldDeadlock { .. })));
    assert!(matches!(client.lock(LOCK).try_lock().await, Err(Error::WrongKind { .. })));
    assert!(matches!(client.fair_lock(LOCK).try_lock().await, Err(Error::WrongKind { .. })));
    for other in [client.lock(LOCK), client.fair_lock(LOCK), client.spin_lock(LOCK)] {
        let entered = other.try_lock().by(&mut me).await;
        assert!(matches!(entered, Err(Error::WrongKind { .. })), "{entered:?}");
    }
    guard.check().await.expect("still held");
    assert!(lock.force_unlock_if(guard.holder()).await.unwrap());
    assert!(!lock.force_unlock().await.unwrap());
    timeout(PATIENCE, guard.lost()).await.expect("to be told");
    drop(guard);
    let hash = client.lock(LOCK).lock().by(&mut me).await.unwrap();
    assert!(matches!(lock.try_lock().await, Err(Error::WrongKind { .. })));
    assert!(matches!(lock.try_lock().by(&mut me).await, Err(Error::WrongKind { .. })));
    assert!(matches!(lock.force_unlock().await, Err(Error::WrongKind { .. })));
    assert!(matches!(lock.is_locked().await, Err(Error::WrongKind { .. })));
    hash.unlock().await.unwrap();
    client.close().await.unwrap();
}

/// A waiter polls, and a message wakes it before its next look.
#[tokio::test]
async fn a_release_by_this_crate_wakes_a_waiter_at_once() {
    use redisson_lock::SpinBackoff;

    let server = RedisServer::start();
    let (client, far) = (client(&server).await, client(&server).await);
    let rarely = SpinBackoff::constant(Duration::from_secs(60));
    let guard = client.plain_lock(LOCK).lock().await.unwrap();
    let waits = {
        let lock = far.plain_lock_with(LOCK, rarely);
        tokio::spawn(async move { lock.lock().await })
    };
    let channel = format!("redisson_lock_plain:{{{LOCK}}}");
    let heard = || (server.inspector().subscribers(&channel) == 1).then_some(());
    eventually(PATIENCE, "a listener", heard).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    guard.unlock().await.unwrap();
    let guard = timeout(PROMPT, waits).await.expect("woken").unwrap().unwrap();
    guard.unlock().await.unwrap();
    for client in [client, far] {
        client.close().await.unwrap();
    }
}
