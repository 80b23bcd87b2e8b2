//! Faults of a server that goes on running: it refuses, is busy, forgets or is told to.

use std::fs;
use std::time::Duration;

use fastrand::Rng;
use harness::redis::{Connection, RedisResult, cmd};
use judge::Fault as Class;

use super::fault::{Family, Fault, On, fault};
use crate::world::World;

pub(super) const FAULTS: &[Fault] = &[
    fault("misconf", Family::Server, Class::Delay, On::Master, 4_000),
    fault("oom", Family::Server, Class::Delay, On::Master, 4_000),
    fault("busy", Family::Server, Class::Delay, On::Master, 3_000),
    fault("pause-all", Family::Server, Class::Delay, On::Master, 3_000),
    fault("pause-writes", Family::Server, Class::Delay, On::Master, 3_000),
    fault("kill-clients", Family::Server, Class::Delay, On::Master, 0),
    fault("kill-listeners", Family::Server, Class::Delay, On::Master, 0),
    fault("script-flush", Family::Server, Class::Delay, On::Master, 0),
    fault("config", Family::Server, Class::Delay, On::Master, 0),
    fault("idle-timeout", Family::Server, Class::Delay, On::Master, 6_000),
    fault("flush-all", Family::Server, Class::Data, On::Alone, 0),
];

/// Where the server would save to, which cannot be written.
const DUMP: &str = "dump.rdb";

pub(super) fn begin(name: &str, node: usize, length: Duration, world: &mut World, rng: &mut Rng) {
    let stage = &world.stage;
    // It would not hear that it is over.
    let length = length.as_millis().max(1).to_string();
    let done = match name {
        "misconf" => {
            // A directory in the place of the file: the save fails.
            let dump = stage.node(node).directory().join(DUMP);
            let _ = fs::create_dir_all(dump.join("not-a-file"));
            let saves = stage.tell(node, ["CONFIG", "SET", "save", "900 1"]);
            saves.and_then(|()| stage.tell(node, ["BGSAVE"]))
        }
        "oom" => stage.tell(node, ["CONFIG", "SET", "maxmemory", "1mb"]),
        "busy" => busy(stage.connection(node)),
        "pause-all" => stage.tell(node, ["CLIENT", "PAUSE", &length, "ALL"]),
        "pause-writes" => stage.tell(node, ["CLIENT", "PAUSE", &length, "WRITE"]),
        "kill-clients" => stage.tell(node, ["CLIENT", "KILL", "USER", "default", "TYPE", "normal"]),
        "kill-listeners" => stage.tell(node, ["CLIENT", "KILL", "TYPE", "pubsub"]),
        "script-flush" => stage.tell(node, ["SCRIPT", "FLUSH", "ASYNC"]),
        "config" => {
            let hz = rng.u32(1..=100).to_string();
            stage.tell(node, ["CONFIG", "SET", "hz", &hz])
        }
        "idle-timeout" => stage.tell(node, ["CONFIG", "SET", "timeout", "1"]),
        "flush-all" => stage.tell(node, ["FLUSHALL"]),
        _ => unreachable!("{name}"),
    };
    tell(name, done);
}

pub(super) fn end(name: &str, node: usize, world: &mut World) {
    let stage = &world.stage;
    let done = match name {
        "misconf" => {
            let _ = fs::remove_dir_all(stage.node(node).directory().join(DUMP));
            let saves = stage.tell(node, ["CONFIG", "SET", "save", ""]);
            saves.and_then(|()| stage.tell(node, ["BGSAVE"]))
        }
        "oom" => stage.tell(node, ["CONFIG", "SET", "maxmemory", "0"]),
        "busy" => stage.tell(node, ["SCRIPT", "KILL"]),
        "pause-all" | "pause-writes" => Ok(()),
        "idle-timeout" => stage.tell(node, ["CONFIG", "SET", "timeout", "0"]),
        _ => unreachable!("{name}"),
    };
    tell(name, done);
}

/// A script that does not end. Its answer is not waited for.
fn busy(connection: RedisResult<Connection>) -> RedisResult<()> {
    let mut connection = connection?;
    let mut script = cmd("EVAL");
    script.arg("while true do end").arg(0);
    connection.send_packed_command(&script.get_packed_command())
}

fn tell(name: &str, done: RedisResult<()>) {
    if let Err(error) = done {
        eprintln!("{name}: {error}");
    }
}
