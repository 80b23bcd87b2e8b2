//! Faults of servers that take each other's place.

use judge::Fault as Class;

use super::fault::{Family, Fault, On, fault};
use crate::aof::Mark;
use crate::world::World;

pub(super) const FAULTS: &[Fault] = &[
    fault("kill-master", Family::Topology, Class::Failover, On::Heirs, 8_000),
    fault("stop-master", Family::Topology, Class::Partition, On::Heirs, 8_000),
    fault("orderly-failover", Family::Topology, Class::Failover, On::Heirs, 3_000),
];

pub(super) fn begin(name: &str, node: usize, world: &mut World) {
    match name {
        "kill-master" => {
            world.kill_server(node);
            world.tail.mark(node, Mark::Torn);
        }
        "stop-master" => world.stage.node(node).pause(),
        "orderly-failover" => {
            let locks: Vec<_> = world.options.names.iter().map(|(name, _)| name.clone()).collect();
            if let Err(error) = world.stage.fail_over(node, &locks) {
                eprintln!("{name}: {error}");
            }
        }
        _ => unreachable!("{name}"),
    }
}

pub(super) fn end(name: &str, node: usize, world: &mut World) {
    match name {
        "kill-master" => world.restart_server(node),
        "stop-master" => world.stage.node(node).resume(),
        // It is over when the servers say so.
        "orderly-failover" => {}
        _ => unreachable!("{name}"),
    }
}
