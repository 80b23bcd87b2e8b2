//! The real engine under a seed: several clients, servers in process that run the scripts that
//! ship, and a network that does what networks do, all on virtual time.
//!
//! A seed is expanded to a [`Plan`]. After its mishaps everything is healed: each caller must then
//! get its turn in bounded time, and nothing may be left.

mod asking;
mod callers;
mod calls;
mod cluster;
mod guard;
mod judgement;
mod kind;
mod lane;
mod link;
mod mishap;
mod mishaps;
mod options;
mod panics;
mod plan;
mod questions;
mod recorder;
mod register;
mod server;
mod shrink;
mod tests;
mod trace;
mod transport;
mod world;

use std::{sync::Arc, time::Duration};

use fastrand::Rng;
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use self::{
    callers::Caller,
    judgement::{Tally, repeated, sentence},
    plan::{Burst, Plan},
    world::World,
};

/// Longer than any run.
const HANGS: Duration = Duration::from_secs(3_000);

/// What came of a run.
#[derive(Default)]
struct Report {
    hash: u64,
    lines: Vec<String>,
    findings: Vec<String>,
    tally: Tally,
    operations: usize,
    virtual_time: Duration,
    longest_wait: Duration,
}

/// Runs a plan, and judges what happened. The same plan has the same trace. `traced`: the report has it.
fn run(plan: &Plan, traced: bool) -> Report {
    fastrand::seed(plan.seed);
    panics::note();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let begun = Instant::now();
        let mut rng = Rng::with_seed(plan.seed ^ 0x5eed);
        let world = World::new(plan.options.clone(), &mut rng, traced);
        if timeout(HANGS, live(&world, plan)).await.is_err() {
            world.find("hangs".into());
        }
        let (mut judged, operations, tally) = sentence(&world, plan);
        let mut log = world.log();
        let mut findings = std::mem::take(&mut log.findings);
        findings.append(&mut judged);
        findings.extend(panics::take().map(|panic| format!("panic: {panic}")));
        Report {
            hash: world.trace.hash(),
            lines: world.trace.lines(),
            findings,
            tally,
            operations,
            virtual_time: begun.elapsed(),
            longest_wait: log.longest_wait,
        }
    })
}

async fn live(world: &Arc<World>, plan: &Plan) {
    let options = &plan.options;
    // What the servers' clocks count twice.
    let twice = repeated(plan);
    let leases = options.watchdog.max(options.lease + Duration::from_millis(20)) + twice;
    let soon = leases + options.fair_wait + options.command_timeout + Duration::from_secs(8);
    for (number, burst) in plan.bursts.iter().enumerate() {
        world.set_healed(false);
        suffer(world, number, burst, soon).await;
        come_to_rest(world, twice).await;
        let turns = burst.tasks.iter().enumerate().map(async |(task, its)| {
            if !world.is_gone(its.client) {
                let task = name(number, task);
                let caller = Caller { world: world.clone(), client: its.client, task };
                caller.turn(its, soon).await;
            }
        });
        join_all(turns).await;
    }
    world.trace.note(format_args!("CLOSING"));
    let excused = world.has_lost_state() || world.living().count() < world.clients.len();
    for (client, _) in world.living() {
        if let Err(error) = world.close(client).await {
            world.find(format!("close: c{client} {error}"));
        }
    }
    // Longer than any copy is on its way.
    sleep(Duration::from_secs(1)).await;
    if excused {
        sleep(leases + options.fair_wait + 3 * options.command_timeout).await;
    }
    let killed = plan.mishaps().any(|mishap| matches!(mishap.what, mishap::What::Kill { .. }));
    // Old data may bring the places back of a client that is gone.
    let brought_back = world.has_lost_state() && world.living().count() < world.clients.len();
    let leaves_places = killed || world.has_left_places() || brought_back;
    for server in &world.servers {
        for (key, left) in server.left() {
            // The place of a waiter that is gone is dropped by the next who asks, as Redisson's.
            let place = ["redisson_lock_queue:", "redisson_lock_timeout:"];
            if !(leaves_places && place.iter().any(|prefix| key.starts_with(prefix))) {
                let server = format!("s{}", server.name);
                world.left.lock().unwrap().push((server, left));
            }
        }
    }
}

/// Tasks have different names in all bursts.
fn name(burst: usize, task: usize) -> usize {
    100 * burst + task
}

/// All tasks, and all that goes wrong meanwhile. Then all is healed.
async fn suffer(world: &Arc<World>, number: usize, burst: &Burst, soon: Duration) {
    let mut tasks = Vec::new();
    for (task, its) in burst.tasks.iter().enumerate() {
        let task = name(number, task);
        let caller = Caller { world: world.clone(), client: its.client, task };
        tasks.push((its.client, tokio::spawn(caller.run(its.clone()))));
    }
    let handles = tasks.iter().map(|(client, task)| (*client, task.abort_handle())).collect();
    mishaps::run(world.clone(), burst.mishaps.clone(), handles).await;
    world.set_healed(true);
    world.trace.note(format_args!("HEALED"));
    for (_, task) in tasks {
        match timeout(soon + Duration::from_secs(30), task).await {
            Ok(Err(error)) if error.is_panic() => world.find(format!("panic: {error}")),
            Ok(_) => {}
            Err(_) => world.find("turn: a task never ends".into()),
        }
    }
}

/// Nobody wants anything any more, so all is undone.
async fn come_to_rest(world: &World, twice: Duration) {
    let command_timeout = world.options.command_timeout;
    // What was sent while the network was slow arrives.
    sleep(2 * command_timeout + Duration::from_secs(1)).await;
    for (name, client) in world.living() {
        for client in &client.by_server {
            let undone = client.engine().janitor.drained();
            let most = 2 * command_timeout + twice + Duration::from_secs(5);
            if timeout(most, undone).await.is_err() {
                world.find(format!("undo: c{name} still has something to undo"));
            }
        }
    }
    if world.has_lost_state() {
        return;
    }
    // Nobody holds anything, but those that are gone.
    let is_gone = |(name, _): &(usize, _)| world.is_gone(*name);
    let gone = world.clients.iter().enumerate().filter(is_gone);
    let ids: Vec<_> = gone
        .flat_map(|(_, client)| &client.by_server)
        .map(|client| client.id().to_owned())
        .collect();
    let is_theirs = |left: &str| ids.iter().any(|id| left.contains(id));
    let left = world.servers.iter().flat_map(|server| server.left());
    for (_, left) in left.filter(|(_, left)| !is_theirs(left)) {
        world.find(format!("orphan: {left}"));
    }
}
