//! The real engine under a seed: several clients, servers in process that run the scripts that
//! ship, and a network that does what networks do, all on virtual time.
//!
//! A seed is expanded to a [`Plan`]. After its mishaps everything is healed: each caller must then
//! get its turn in bounded time, and nothing may be left.

mod beliefs;
mod callers;
mod calls;
mod guard;
mod kind;
mod lane;
mod link;
mod mishaps;
mod options;
mod plan;
mod questions;
mod server;
mod shrink;
mod tests;
mod trace;
mod transport;
mod world;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use fastrand::Rng;
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout};

use self::{callers::Caller, plan::Plan, world::World};

/// Longer than any run.
const HANGS: Duration = Duration::from_secs(1_000);

/// What came of a run.
struct Report {
    hash: u64,
    lines: Vec<String>,
    findings: Vec<String>,
    operations: usize,
    virtual_time: Duration,
    longest_wait: Duration,
}

/// Runs a plan. The same plan has the same trace.
fn run(plan: &Plan) -> Report {
    fastrand::seed(plan.seed);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let begun = Instant::now();
        let mut rng = Rng::with_seed(plan.seed ^ 0x5eed);
        let world = World::new(plan.options.clone(), &mut rng);
        if timeout(HANGS, live(&world, plan)).await.is_err() {
            world.find("hangs".into());
        }
        let mut log = world.log.lock().unwrap();
        Report {
            hash: world.trace.hash(),
            lines: world.trace.lines(),
            findings: std::mem::take(&mut log.findings),
            operations: log.operations,
            virtual_time: begun.elapsed(),
            longest_wait: log.longest_wait,
        }
    })
}

async fn live(world: &Arc<World>, plan: &Plan) {
    let mut tasks = Vec::new();
    for (task, its) in plan.tasks.iter().enumerate() {
        let caller = Caller { world: world.clone(), client: its.client, task };
        tasks.push((its.client, tokio::spawn(caller.run(its.clone()))));
    }
    let handles = tasks.iter().map(|(client, task)| (*client, task.abort_handle())).collect();
    mishaps::run(world.clone(), plan.mishaps.clone(), handles).await;
    world.heal();
    world.trace.note(format_args!("HEALED"));
    let options = &plan.options;
    let steps_back = plan.mishaps.iter().filter_map(|mishap| match mishap.what {
        plan::What::StepClock { by_ms, .. } if by_ms < 0 => Some(by_ms.unsigned_abs()),
        _ => None,
    });
    // What the servers' clocks count twice.
    let twice = Duration::from_millis(steps_back.sum());
    let leases = options.watchdog.max(options.lease + Duration::from_millis(20)) + twice;
    let soon = leases + options.fair_wait + options.command_timeout + Duration::from_secs(8);
    for (_, task) in tasks {
        match timeout(soon + Duration::from_secs(30), task).await {
            Ok(Err(error)) if error.is_panic() => world.find(format!("panic: {error}")),
            Ok(_) => {}
            Err(_) => world.find("turn: a task never ends".into()),
        }
    }
    // What was sent while the network was slow arrives.
    sleep(2 * options.command_timeout + Duration::from_secs(1)).await;
    let left_over = |client: usize| world.clients[client].gone.load(Ordering::Relaxed);
    let excused = world.has_lost_state()
        || world.clients.iter().any(|client| client.gone.load(Ordering::Relaxed));
    for (name, client) in world.clients.iter().enumerate().filter(|(name, _)| !left_over(*name)) {
        for client in &client.by_server {
            let undone = client.engine().janitor.drained();
            let most = 2 * options.command_timeout + twice + Duration::from_secs(5);
            if timeout(most, undone).await.is_err() {
                world.find(format!("undo: c{name} still has something to undo"));
            }
        }
    }
    // Nobody holds anything, and everything was undone, but by those that are gone.
    let ids: Vec<_> = world
        .clients
        .iter()
        .filter(|client| client.gone.load(Ordering::Relaxed))
        .flat_map(|client| &client.by_server)
        .map(|client| client.id().to_owned())
        .collect();
    let is_theirs = |left: &str| ids.iter().any(|id| left.contains(id));
    if !world.has_lost_state() {
        let left = world.servers.iter().flat_map(|server| server.left());
        for (_, left) in left.filter(|(_, left)| !is_theirs(left)) {
            world.find(format!("orphan: {left}"));
        }
    }
    let turns = plan.tasks.iter().enumerate().map(async |(task, its)| {
        if !left_over(its.client) {
            let caller = Caller { world: world.clone(), client: its.client, task };
            caller.turn(its, soon).await;
        }
    });
    join_all(turns).await;
    world.trace.note(format_args!("CLOSING"));
    for (name, client) in world.clients.iter().enumerate().filter(|(name, _)| !left_over(*name)) {
        for client in &client.by_server {
            if let Err(error) = client.close().await {
                world.find(format!("close: c{name} {error}"));
            }
        }
    }
    // Longer than any copy is on its way.
    sleep(Duration::from_secs(1)).await;
    if excused {
        sleep(leases + options.fair_wait + 3 * options.command_timeout).await;
    }
    let killed = plan.mishaps.iter().any(|mishap| matches!(mishap.what, plan::What::Kill { .. }));
    for (key, left) in world.servers.iter().flat_map(|server| server.left()) {
        // The place of a waiter that died is dropped by the next who asks, as Redisson's.
        let place = ["redisson_lock_queue:", "redisson_lock_timeout:"];
        if !(killed && place.iter().any(|prefix| key.starts_with(prefix))) {
            world.find(format!("left: {left}"));
        }
    }
}
