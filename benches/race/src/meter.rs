//! The server's own counters.

use std::{collections::HashMap, time::Duration};

use harness::redis::{Connection, cmd};

pub(crate) struct Meter(Connection);

/// So far, or between two readings.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// By command, those of scripts too.
    calls: HashMap<String, u64>,
}

impl Meter {
    pub(crate) fn new(connection: Connection) -> Self {
        Self(connection)
    }

    pub(crate) fn read(&mut self) -> Usage {
        let mut info = |section: &str| -> String {
            cmd("INFO").arg(section).query(&mut self.0).expect("what the server says of itself")
        };
        Usage { cpu: cpu(&info("cpu")), calls: calls(&info("commandstats")) }
    }
}

impl Usage {
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (command, calls) in &before.calls {
            self.calls.entry(command.clone()).and_modify(|now| *now -= calls);
        }
        Self { cpu: self.cpu - before.cpu, ..self }
    }

    pub(crate) fn calls(&self, command: &str) -> u64 {
        self.calls.get(command).copied().unwrap_or(0)
    }
}

fn cpu(info: &str) -> Duration {
    let used = |line: &str| {
        let (name, seconds) = line.split_once(':')?;
        let is_ours = ["used_cpu_user", "used_cpu_sys"].contains(&name);
        is_ours.then(|| seconds.trim().parse().map(Duration::from_secs_f64).expect("seconds"))
    };
    info.lines().filter_map(used).sum()
}

/// `cmdstat_evalsha:calls=3,usec=…` and so on.
fn calls(info: &str) -> HashMap<String, u64> {
    let one = |line: &str| {
        let (command, stats) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        Some((command.to_owned(), stats.split_once(',')?.0.parse().ok()?))
    };
    info.lines().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use harness::RedisServer;

    use super::*;

    #[test]
    fn what_was_done_in_between_is_counted() {
        let server = RedisServer::start();
        let mut meter = Meter::new(server.client());
        let mut client = server.client();
        cmd("ECHO").arg("a").exec(&mut client).unwrap();
        let before = meter.read();
        for _ in 0..3 {
            cmd("ECHO").arg("a").exec(&mut client).unwrap();
        }
        cmd("EVAL").arg("return redis.call('echo', 'a')").arg(0).exec(&mut client).unwrap();
        let usage = meter.read().since(&before);
        assert_eq!((usage.calls("echo"), usage.calls("eval"), usage.calls("get")), (4, 1, 0));
        assert!(usage.cpu > Duration::ZERO);
    }
}
