//! Faults of the network between one member and the server.

use std::time::Duration;

use fastrand::Rng;
use judge::Fault as Class;

use super::fault::{Family, Fault, On, fault};
use crate::world::World;

pub(super) const FAULTS: &[Fault] = &[
    fault("cut", Family::Network, Class::Delay, On::Member, 0),
    fault("cut-listener", Family::Network, Class::Delay, On::Member, 0),
    fault("refuse", Family::Network, Class::Delay, On::Member, 4_000),
    fault("black-hole", Family::Network, Class::Delay, On::Member, 6_000),
    fault("forget", Family::Network, Class::Delay, On::Member, 0),
    fault("slow-replies", Family::Network, Class::Delay, On::Member, 4_000),
    fault("lost-replies", Family::Network, Class::Delay, On::Member, 2_000),
    fault("lost-requests", Family::Network, Class::Delay, On::Member, 2_000),
    fault("late-requests", Family::Network, Class::Delay, On::Member, 4_000),
    fault("overtaken-requests", Family::Network, Class::Delay, On::Member, 4_000),
    fault("unread", Family::Network, Class::Delay, On::Member, 3_000),
];

pub(super) fn begin(name: &str, member: usize, world: &mut World, rng: &mut Rng) {
    let proxy = &world.proxies[member];
    match name {
        "cut" => drop(proxy.cut_all()),
        "cut-listener" => drop(proxy.cut_matching("SUBSCRIBE")),
        "refuse" => {
            proxy.refuse(true);
            proxy.cut_all();
        }
        "black-hole" => proxy.blackhole(true),
        "forget" => proxy.forget_connections(),
        "slow-replies" => proxy.delay_replies(Duration::from_millis(rng.u64(5..=900))),
        "lost-replies" => drop(proxy.lose_replies("EVALSHA", rng.usize(1..=5))),
        "lost-requests" => drop(proxy.lose_requests("EVALSHA", rng.usize(1..=5))),
        "late-requests" => proxy.hold_requests_with("EVALSHA"),
        "overtaken-requests" => {
            // What is kept back arrives when its connection is long gone.
            proxy.hold_requests_with("EVALSHA");
            proxy.cut_all();
        }
        "unread" => proxy.stop_reading(true),
        _ => unreachable!("{name}"),
    }
}

pub(super) fn end(member: usize, world: &mut World) {
    world.proxies[member].heal();
    world.proxies[member].refuse(false);
}
