//! Crowds in several processes at one plain lock, which each process hands off locally. No holder has the lock beside another,
//! and no process is kept out, whichever owner dies.

use std::time::{Duration, Instant};

use futures::future::join_all;
use harness::redis::cmd;
use harness::{
    Lang, Load, Party, Peer, PeerArgs, PeerError, RedisServer, assert_nothing_left, java_or_skip,
};
use tokio::time::sleep;

use crate::crowd::{peer, place};

const LOCK: &str = "stock";
const COUNTER: &str = "sold";
const OWNERS: usize = 8;
/// So long nobody gets in when somebody died inside.
const WATCHDOG: Duration = Duration::from_secs(1);

fn time() -> Duration {
    let seconds = std::env::var("PASSING_SECONDS").ok();
    Duration::from_secs(seconds.map_or(6, |seconds| seconds.parse().expect("a number")))
}

fn crowd(peer: &Peer) -> Party {
    peer.party("crowd", "lock", LOCK)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_comes_in_beside_another_and_everybody_comes_in_whoever_dies() {
    let _place = place().await;
    const NAME: &str = "nobody_comes_in_beside_another_and_everybody_comes_in_whoever_dies";
    let server = RedisServer::start();
    let args = PeerArgs::redis(server.url()).watchdog(WATCHDOG);
    let Some(java) = java_or_skip(NAME, &args).await else { return };
    let peers = [java, peer(Lang::Rust, &args).await, peer(Lang::Rust, &args).await];
    let begun = Instant::now();
    let load = Load::new(OWNERS, time()).counter(COUNTER);
    let crowds = peers.iter().map(crowd).collect::<Vec<_>>();
    let loads = join_all(crowds.iter().map(|crowd| crowd.run(&load)));
    let mut killed = 0;
    let kills = async {
        while begun.elapsed() + Duration::from_secs(3) < time() {
            let doomed = peer(Lang::Rust, &args).await;
            let load = Load::new(OWNERS, 2 * time()).hold(Duration::from_micros(500));
            let busy = crowd(&doomed).start("loop", serde_json::to_value(load).unwrap());
            let busy = busy.longer_by(2 * time()).answer();
            let kill = async {
                sleep(Duration::from_millis(fastrand::u64(500..1500))).await;
                doomed.kill().await;
            };
            let (report, ()) = tokio::join!(busy, kill);
            assert!(matches!(report, Err(PeerError::Gone(_))), "it was killed: {report:?}");
            killed += 1;
        }
    };
    let (reports, ()) = tokio::join!(loads, kills);
    let sold: u64 = server.inspector().query(cmd("GET").arg(COUNTER));
    for (peer, report) in peers.iter().zip(&reports) {
        println!(
            "{}: {} turns, {} to {} for each, longest wait {:.0} ms, {} errors",
            peer.lang(),
            report.acquired,
            report.min_per_owner,
            report.max_per_owner,
            report.acquire_us.max / 1000.0,
            report.errors
        );
        assert!(report.min_per_owner > 0, "somebody was kept out");
        assert_eq!(report.errors, 0);
    }
    println!("{killed} killed");
    assert!(killed > 0, "that proves little");
    assert_eq!(
        sold,
        reports.iter().map(|report| report.counted).sum::<u64>(),
        "two were in at once"
    );
    server.inspector().query::<()>(cmd("DEL").arg(COUNTER));
    for peer in peers {
        peer.close().await.expect("a clean end");
    }
    assert_nothing_left(&server).await;
}
