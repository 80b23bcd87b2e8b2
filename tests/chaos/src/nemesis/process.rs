//! Faults of processes: members and servers that are killed or stopped, and servers that come back with other data.

use judge::Fault as Class;

use super::fault::{Family, Fault, On, Target, fault};
use crate::aof::Mark;
use crate::world::World;

pub(super) const FAULTS: &[Fault] = &[
    fault("kill-member", Family::Process, Class::Delay, On::Member, 3_000),
    fault("stop-member", Family::Process, Class::Delay, On::Member, 6_000),
    fault("kill-server", Family::Process, Class::Delay, On::Alone, 4_000),
    fault("stop-server", Family::Process, Class::Delay, On::Alone, 4_000),
    fault("empty-server", Family::Process, Class::Data, On::Alone, 2_000),
    fault("old-data", Family::Process, Class::Failover, On::Alone, 3_000),
];

pub(super) async fn begin(name: &str, target: Target, world: &mut World) {
    match (name, target) {
        ("kill-member", Target::Member(member)) => {
            world.members[member].kill(&mut world.journal).await;
        }
        ("stop-member", Target::Member(member)) => {
            world.members[member].pause(&mut world.journal);
        }
        ("stop-server", Target::Server(node)) => world.stage.node(node).pause(),
        // It lives on until the end of this fault, and then is what it is now.
        ("old-data", Target::Server(node)) => world.remember(node),
        ("kill-server", Target::Server(node)) => {
            world.kill_server(node);
            world.tail.mark(node, Mark::Torn);
        }
        ("empty-server", Target::Server(node)) => {
            world.kill_server(node);
            world.empty(node);
        }
        _ => unreachable!("{name} on {target}"),
    }
}

pub(super) async fn end(name: &str, target: Target, world: &mut World) {
    match (name, target) {
        ("kill-member", Target::Member(member)) => world.start_member(member).await,
        ("stop-member", Target::Member(member)) => {
            world.members[member].resume(&mut world.journal);
        }
        ("stop-server", Target::Server(node)) => world.stage.node(node).resume(),
        ("kill-server" | "empty-server", Target::Server(node)) => world.restart_server(node),
        ("old-data", Target::Server(node)) => {
            world.kill_server(node);
            world.bring_back(node);
            world.restart_server(node);
        }
        _ => unreachable!("{name} on {target}"),
    }
}
