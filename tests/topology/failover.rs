//! Masters that are killed, of a cluster or behind sentinels.

use std::pin::pin;
use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{Lang, Party, RedisCluster, RedisServer, Sentinel, Servers, assert_nothing_left};
use serde_json::Value;
use tokio::time::timeout;

use crate::contest::{Contest, WATCHDOG};
use crate::progress::Progress;
use crate::size::Size;

pub(crate) const LOCK: &str = "lock";

/// How long the crowd contends before anything befalls the servers, and when all is well again.
pub(crate) const BEFORE: Duration = Duration::from_secs(2);
/// Until a replica is master, and the peers have found it.
const FAILOVER: Duration = Duration::from_secs(10);
pub(crate) const SHORT_HOLD: Duration = Duration::from_millis(2);

/// What Redisson tells of a failover.
const FAILOVER_ERROR: &str = "redis";
const TRIES: u32 = 10;

/// Of a hold that has to outlast a failover which sentinels begin after 10 s, on a busy machine.
const LONG_WATCHDOG: Duration = Duration::from_secs(40);

/// In the lock's slot.
const BALLAST: &str = "{lock}:ballast";
const BALLAST_PIECE: usize = 1 << 20;
/// More than the kernel takes on its way from a master to a replica.
const BALLAST_PIECES: usize = 32;

/// Servers of which one stands in for another.
pub(crate) trait Failing: Servers {
    /// The master that keeps the lock.
    fn master(&self) -> usize;
    /// Its replicas.
    fn replicas(&self) -> Vec<usize>;
    fn node(&self, node: usize) -> &RedisServer;
    fn kill(&mut self, node: usize);
    fn restart(&mut self, node: usize);
    /// Waits for another master of the lock than this.
    async fn failed_over(&self, lost: usize) -> usize;
    /// Waits until every replica is in step.
    async fn settled(&self);
}

/// What a kill cost.
struct Outage {
    lost: usize,
    heir: usize,
    killed: Instant,
    elected: Duration,
    well: Instant,
    /// Scripts that the killed one ran when it had come back empty, before it knew that it is a replica.
    strays: u64,
}

/// A crowd contends, and the master with its lock is killed, over and over.
pub(crate) async fn masters_are_killed(mut servers: impl Failing, langs: [Lang; 2]) {
    let size = Size::of_environment();
    let args = size.peer_args(servers.peer_args().watchdog(WATCHDOG));
    let Some(contest) = Contest::with(args, langs).await else { return };
    let watch = contest.watch();
    let began = Instant::now();
    let (count, outages) = tokio::join!(
        contest.run(LOCK, size.owners, size.time, size.hold),
        kill_masters(&mut servers, &contest, &size),
    );
    let progress = watch.end();
    println!("{langs:?}: {size:?}");
    outages.iter().for_each(|outage| outage.print(&progress));
    let pause = progress.longest_pause(began, Instant::now());
    println!("  {count}, longest time without a turn {pause:.1?}");
    count.assert_whole();
    // On a busy machine sentinels may take a living master for dead. It and the next one then grant
    // the lock beside each other, until it hears of that.
    let last = outages.last().map_or_else(|| servers.master(), |outage| outage.heir);
    let is_undisputed = |heir: usize| servers.master() == heir;
    if !is_undisputed(last) {
        println!("  {last} was replaced while it lived");
    } else if !size.may_overlap() {
        count.assert_exclusive();
    }
    // All is as ever with the new master.
    let time = BEFORE * u32::try_from(size.owners.div_ceil(4)).expect("a crowd");
    let heir = servers.master();
    let after = contest.run(LOCK, size.owners, time, SHORT_HOLD).await;
    after.assert_whole();
    if is_undisputed(heir) {
        after.assert_exclusive();
    }
    after.assert_undisturbed();
    assert_nothing_left(&servers).await;
}

async fn kill_masters<S: Failing>(servers: &mut S, contest: &Contest, size: &Size) -> Vec<Outage> {
    let end = Instant::now() + size.time;
    let mut outages = Vec::new();
    while outages.len() < size.failovers {
        tokio::time::sleep(BEFORE).await;
        let (done, time) = (outages.len(), size.time);
        assert!(Instant::now() + FAILOVER <= end, "{time:?} are too short: {done} failovers yet");
        let lost = servers.master();
        let unheard = if size.lag { grant_unheard(servers, contest, size).await } else { vec![] };
        let killed = Instant::now();
        servers.kill(lost);
        unheard.iter().for_each(|&replica| servers.node(replica).resume());
        let heir = servers.failed_over(lost).await;
        let elected = killed.elapsed();
        drop_ballast(servers);
        let mut strays = 0;
        if done + 1 < size.failovers {
            servers.restart(lost);
            servers.settled().await;
            strays = scripts_run(servers.node(lost));
        }
        outages.push(Outage { lost, heir, killed, elected, well: Instant::now(), strays });
    }
    outages
}

/// Those that failed are not counted: for want of the script, or for they wrote to a replica.
fn scripts_run(server: &RedisServer) -> u64 {
    script_stats(server, |calls, failed| calls - failed)
}

/// With those that failed.
pub(crate) fn scripts_asked_of(server: &RedisServer) -> u64 {
    script_stats(server, |calls, _| calls)
}

fn script_stats(server: &RedisServer, of: impl Fn(u64, u64) -> u64) -> u64 {
    let stats: String = server.inspector().query(cmd("INFO").arg("commandstats"));
    let number = |line: &str, field| -> Option<u64> {
        line.split_once(field)?.1.split(',').next()?.trim().parse().ok()
    };
    let evals = stats.lines().filter(|line| line.starts_with("cmdstat_eval"));
    let counted = evals.map(|eval| {
        let calls = number(eval, ":calls=").expect("a number of calls");
        of(calls, number(eval, "failed_calls=").unwrap_or(0))
    });
    counted.sum()
}

/// Lets a turn begin, if it can, that no replica hears of; gives the replicas, which have to be resumed.
async fn grant_unheard(servers: &impl Failing, contest: &Contest, size: &Size) -> Vec<usize> {
    let unheard = deafen(servers);
    let (before, began) = (contest.counter(), Instant::now());
    // Whoever holds it now may have been heard.
    while contest.counter() <= before + 1 && began.elapsed() < 2 * size.hold + BEFORE {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    unheard
}

/// A hold that its master granted and no replica has heard of is granted again by the heir. Who wants it confirmed is
/// not granted it; and what is confirmed, the heir knows.
pub(crate) async fn a_master_dies_before_its_replicas_hear_of_a_hold<S: Failing>(
    start: impl Fn() -> S,
    langs: [Lang; 2],
) {
    for replicas in ["none", "all"] {
        let mut servers = start();
        let args = servers.peer_args().watchdog(LONG_WATCHDOG).replicas(replicas);
        let Some(contest) = Contest::with(args, langs).await else { return };
        let (holder, other) = (contest.party(0, "lock", LOCK), contest.party(1, "lock", LOCK));
        let lost = servers.master();
        let deaf = deafen(&servers);
        let unheard = holder.ask("lock", Value::Null).await;
        if replicas == "none" {
            unheard.expect("a master that grants");
            servers.kill(lost);
            deaf.iter().for_each(|&replica| servers.node(replica).resume());
            servers.failed_over(lost).await;
            // While the first one has not given it back, and is far from the end of its hold.
            lock_in_spite_of(FAILOVER_ERROR, &other).await;
            let known = servers.inspector().holder(LOCK).expect("a holder");
            assert_eq!(known.client, other.peer().client());
        } else {
            let refused = unheard.expect_err("nobody has confirmed it");
            assert_eq!(refused.code(), Some("not_replicated"), "{refused}");
            deaf.iter().for_each(|&replica| servers.node(replica).resume());
            servers.settled().await;
            // Which may be busy yet.
            lock_in_spite_of("not_replicated", &holder).await;
            let killed = Instant::now();
            servers.kill(lost);
            servers.failed_over(lost).await;
            let known = servers.inspector().holder(LOCK);
            let known =
                known.unwrap_or_else(|| panic!("not held {:.1?} after the kill", killed.elapsed()));
            assert_eq!(known.client, holder.peer().client());
            let mut turn = pin!(lock_in_spite_of(FAILOVER_ERROR, &other));
            let granted = timeout(BEFORE, &mut turn).await;
            assert!(granted.is_err(), "two hold what was confirmed");
            holder.unlock().await;
            turn.await;
        }
        other.unlock().await;
        drop_ballast(&servers);
        assert_nothing_left(&servers).await;
    }
}

/// Takes the lock, however often that is refused with this error at first.
async fn lock_in_spite_of(error: &str, party: &Party) {
    for _ in 0..TRIES {
        match party.ask("lock", Value::Null).await {
            Ok(_) => return,
            Err(refused) => assert_eq!(refused.code(), Some(error), "{party}: {refused}"),
        }
        tokio::time::sleep(BEFORE / 4).await;
    }
    panic!("{party} is refused over and over with {error}");
}

/// Stops the replicas of the lock's master, and fills all that is between them: what it writes from now on stays in its
/// own memory.
pub(crate) fn deafen(servers: &impl Failing) -> Vec<usize> {
    let replicas = servers.replicas();
    replicas.iter().for_each(|&replica| servers.node(replica).pause());
    let (piece, mut master) = (vec![b'.'; BALLAST_PIECE], servers.node(servers.master()).client());
    for _ in 0..BALLAST_PIECES {
        cmd("SET").arg(BALLAST).arg(&piece).exec(&mut master).expect("a master that answers");
    }
    replicas
}

pub(crate) fn drop_ballast(servers: &impl Failing) {
    cmd("DEL").arg(BALLAST).exec(&mut servers.client_of(LOCK)).expect("a master that answers");
}

impl Outage {
    fn print(&self, progress: &Progress) {
        let Self { lost, heir, killed, elected, well, strays } = *self;
        let pause = progress.longest_pause(killed, well);
        let well = well - killed;
        println!(
            "  {lost} killed: {heir} is master after {elected:.1?}, all is well after {well:.1?}; \
             {pause:.1?} without a turn; {strays} scripts ran on {lost} before it was a replica"
        );
    }
}

impl Failing for RedisCluster {
    fn master(&self) -> usize {
        self.master_of(LOCK)
    }

    fn replicas(&self) -> Vec<usize> {
        vec![self.replica_of(LOCK)]
    }

    fn node(&self, node: usize) -> &RedisServer {
        self.node(node)
    }

    fn kill(&mut self, node: usize) {
        self.kill(node);
    }

    fn restart(&mut self, node: usize) {
        self.restart(node);
    }

    async fn failed_over(&self, lost: usize) -> usize {
        self.failed_over(LOCK, lost).await
    }

    async fn settled(&self) {
        self.settled().await;
    }
}

impl Failing for Sentinel {
    fn master(&self) -> usize {
        self.master()
    }

    fn replicas(&self) -> Vec<usize> {
        (0..self.addresses().len()).filter(|&node| node != self.master()).collect()
    }

    fn node(&self, node: usize) -> &RedisServer {
        self.node(node)
    }

    fn kill(&mut self, node: usize) {
        self.kill(node);
    }

    fn restart(&mut self, node: usize) {
        self.restart(node);
    }

    async fn failed_over(&self, lost: usize) -> usize {
        self.failed_over(lost).await
    }

    async fn settled(&self) {
        self.settled().await;
    }
}
