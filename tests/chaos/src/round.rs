//! A round: it warms up, has faults, heals, sees that everybody has a turn, closes, and is judged.

use std::fs;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use judge::{Fault, Reign};
use tokio::time::sleep;

use crate::clock::{Wall, now};
use crate::facts::Facts;
use crate::machine::{Machine, Watch};
use crate::options::{LIVENESS, Options, Topology, WARM_UP};
use crate::verdict::{self, Judged};
use crate::witness::Server;
use crate::world::World;
use crate::{history, left, nemesis, reigns, report, witness};

pub(crate) async fn play(options: Options, directory: &Path) -> Result<Judged, String> {
    let told = |error: std::io::Error| format!("{}: {error}", directory.display());
    let processes = directory.join("processes");
    if directory.exists() {
        fs::remove_dir_all(directory).map_err(told)?;
    }
    fs::create_dir_all(&processes).map_err(told)?;
    let text = serde_json::to_string(&options).expect("options as JSON");
    println!("{} {text}", directory.display());
    fs::write(directory.join("options.json"), text).map_err(told)?;

    let (wall, watch) = (Wall::read(), Watch::start());
    let mut world = World::start(options, &processes).await;
    let mut facts = Facts { begun: now(), ..Facts::default() };
    for member in 0..world.members.len() {
        world.start_member(member).await;
    }
    sleep(Duration::from_secs(WARM_UP)).await;

    let seconds = world.options.seconds - WARM_UP - LIVENESS;
    let mut rng = Rng::with_seed(world.options.seed ^ 0x0063_6861_6f73);
    facts.faults = nemesis::rage(&mut world, Duration::from_secs(seconds), &mut rng).await;
    facts.healed = now();

    for member in &world.members {
        member.calm().await;
    }
    sleep(Duration::from_secs(LIVENESS)).await;
    for member in &world.members {
        member.rest().await;
    }
    for member in &mut world.members {
        facts.troubles.extend(member.leave(&mut world.journal).await.err());
    }
    let left = left::behind(&world).await;
    facts.ended = now();
    let late = watch.stop();
    world.stage.keep(directory).map_err(told)?;

    let World { tail, monitors, stage, options, mut journal, .. } = world;
    let (lines, pieces) = (monitors.stop(), tail.stop());
    let machine = Machine::of(&late, &pieces);
    (facts.lateness, facts.lag) = (machine.lateness, machine.lag);
    facts.stops = machine.stops.len();
    journal.add(machine.stops.iter().map(|stop| ("machine-stops", Fault::Delay, *stop)));
    let nodes = stage.nodes();
    let servers: Vec<Server> = nodes
        .iter()
        .zip(pieces.into_iter().zip(lines))
        .enumerate()
        .map(|(number, (node, (pieces, lines)))| {
            let first = match options.topology {
                Topology::Single | Topology::Replicated => None,
                Topology::Sentinel => Some(1),
                Topology::Cluster => Some(3),
            };
            let all = Reign { from: 0, until: None };
            let (reigns, synced) = match first {
                Some(masters) => reigns::read(node.directory(), number < masters, wall, now()),
                None => ((number == 0).then_some(all).into_iter().collect(), Vec::new()),
            };
            let (label, node) = (verdict::label(options.topology, number), node.port().to_string());
            Server { label, node, pieces, lines, reigns, synced }
        })
        .collect();
    drop(stage);

    let history = history::collect(&processes, &journal)?;
    let locks = options.names.iter().map(|(name, _)| name.clone());
    let bounds = options.bounds(0, facts.lateness);
    let (witness, vague) = witness::testify(&servers, &history, wall, locks, left, &bounds);
    facts.vague = vague;
    let bounds = options.bounds(vague, facts.lateness);
    fs::write(directory.join("history.jsonl"), history.to_lines()).map_err(told)?;
    fs::write(directory.join("witness.jsonl"), witness.to_lines()).map_err(told)?;
    let write = |name: &str, text: serde_json::Result<String>| {
        fs::write(directory.join(name), text.expect("plain JSON")).map_err(told)
    };
    write("bounds.json", serde_json::to_string(&bounds))?;
    write("facts.json", serde_json::to_string(&facts))?;
    let judged = verdict::judge(directory)?;
    report::write(directory)?;
    Ok(judged)
}
