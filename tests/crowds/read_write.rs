//! Readers and writers in both languages at once, and a judge that knows the rules.

use std::time::{Duration, Instant};

use harness::{Lang, Peer, PeerArgs, PeerError, RedisServer, assert_nothing_left, java_or_skip};
use serde_json::Value;
use tokio::time::sleep;

use crate::crowd::{begun, peer, place};

const LOCK: &str = "catalog";
const WATCHDOG: Duration = Duration::from_millis(1_500);

/// A time during which somebody surely held the lock: from the answer to the acquisition until the release was begun.
#[derive(Clone, Copy, Debug)]
struct Span {
    from: u64,
    to: u64,
    writes: bool,
    owner: usize,
}

/// Reads and writes in turns until the time is over, or its process is dead.
async fn come_and_go(peer: Peer, owner: usize, until: Instant) -> Vec<Span> {
    let mut spans = Vec::new();
    let mut rng = fastrand::Rng::with_seed(owner as u64);
    while Instant::now() < until {
        match visit(&peer, owner, &mut rng, &mut spans).await {
            Ok(()) => {}
            Err(PeerError::Gone(_)) => break,
            Err(error) => panic!("owner {owner} ({}): {error}", peer.lang()),
        }
    }
    spans
}

/// Reads or writes once. Now and then a writer goes over to reading.
async fn visit(
    peer: &Peer,
    owner: usize,
    rng: &mut fastrand::Rng,
    spans: &mut Vec<Span>,
) -> Result<(), PeerError> {
    let [read, write] =
        ["read", "write"].map(|kind| peer.party(format!("owner {owner}"), kind, LOCK));
    let writes = rng.u8(..) < 64;
    let side = if writes { &write } else { &read };
    let mut taken = side.ask("lock", Value::Null).await?;
    sleep(Duration::from_millis(rng.u64(0..4))).await;
    if writes && rng.bool() {
        let reads = read.ask("lock", Value::Null).await?;
        let unlocked = write.ask("unlock", Value::Null).await?;
        spans.push(Span { from: taken.at, to: begun(&unlocked), writes: true, owner });
        taken = reads;
        sleep(Duration::from_millis(rng.u64(0..4))).await;
        let unlocked = read.ask("unlock", Value::Null).await?;
        spans.push(Span { from: taken.at, to: begun(&unlocked), writes: false, owner });
    } else {
        let unlocked = side.ask("unlock", Value::Null).await?;
        spans.push(Span { from: taken.at, to: begun(&unlocked), writes, owner });
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_is_a_writer_beside_anyone_and_readers_overlap() {
    let _place = place().await;
    const NAME: &str = "never_is_a_writer_beside_anyone_and_readers_overlap";
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url()).watchdog(WATCHDOG);
    let Some(java) = java_or_skip(NAME, &args).await else { return };
    let peers = [
        java,
        peer(Lang::Java, &args).await,
        peer(Lang::Rust, &args).await,
        peer(Lang::Rust, &args).await,
    ];
    let doomed = [peer(Lang::Rust, &args).await, peer(Lang::Java, &args).await];
    let until = Instant::now() + Duration::from_secs(10);
    let owners = (0..16).map(|owner| (owner, peers[owner % 4].clone()));
    let those_who_die = (16..20).map(|owner| (owner, doomed[owner % 2].clone()));
    let tasks: Vec<_> = owners
        .chain(those_who_die)
        .map(|(owner, peer)| tokio::spawn(come_and_go(peer, owner, until)))
        .collect();
    for doomed in &doomed {
        sleep(Duration::from_secs(2)).await;
        doomed.kill().await;
    }
    let mut spans = Vec::new();
    for task in tasks {
        spans.extend(task.await.expect("an owner"));
    }
    let writes = spans.iter().filter(|span| span.writes).count();
    let overlaps = violations_and_overlaps(&mut spans);
    println!(
        "{} holds, {writes} of them to write; {overlaps} times a reader came beside another",
        spans.len()
    );
    assert!(writes > 50 && overlaps > 50, "that proves little");
    for peer in peers {
        peer.close().await.expect("a clean end");
    }
    // What the dead ones held ends with its lease, or with a release of the others.
    assert_nothing_left(&server).await;
}

/// How often a reader came while another read. Panics when a writer was beside anybody.
fn violations_and_overlaps(spans: &mut [Span]) -> usize {
    spans.sort_by_key(|span| span.from);
    let mut overlaps = 0;
    for (i, span) in spans.iter().enumerate() {
        let beside = spans[i + 1..].iter().take_while(|other| other.from < span.to);
        for other in beside.filter(|other| other.owner != span.owner) {
            assert!(!span.writes && !other.writes, "{span:?} beside {other:?}");
            overlaps += 1;
        }
    }
    overlaps
}

#[test]
#[should_panic(expected = "beside")]
fn a_writer_beside_a_reader_would_be_noticed() {
    let read = Span { from: 10, to: 20, writes: false, owner: 1 };
    violations_and_overlaps(&mut [read, Span { from: 19, to: 30, writes: true, owner: 2 }]);
}
