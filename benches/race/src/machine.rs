//! The machine and the versions behind the figures.

use std::{fs, process::Command, thread::available_parallelism, time::Duration};

use harness::{RedisServer, redis::cmd};

const LOCKED: &str = include_str!("../../../Cargo.lock");

/// What it ran on, in a sentence each.
pub(crate) fn describe(server: &RedisServer, load_before: &str, took: Duration) -> String {
    let cores = available_parallelism().map_or(0, usize::from);
    let redis: String = cmd("INFO").arg("server").query(&mut server.client()).expect("INFO");
    let version = redis.lines().find_map(|line| line.strip_prefix("redis_version:"));
    let (rust, java) = (first_line("rustc", &["--version"]), first_line("java", &["-version"]));
    format!(
        "{} {}, {cores} cores for the clients and the server together ({}); Redis {}; {rust}; {java}. The load before was \
         {load_before}; it took {:.0} s.",
        std::env::consts::OS,
        std::env::consts::ARCH,
        processor(),
        version.unwrap_or("?"),
        took.as_secs_f64(),
    )
}

/// The load average, where there is a file that tells.
pub(crate) fn load() -> String {
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    load.split(' ').next().filter(|load| !load.is_empty()).unwrap_or("unknown").to_owned()
}

/// Of a package that is in `Cargo.lock` once.
pub(crate) fn locked_version(package: &str) -> String {
    let after = LOCKED.split(&format!("name = \"{package}\"\nversion = \"")).nth(1);
    after.and_then(|rest| rest.split('"').next()).unwrap_or("?").to_owned()
}

fn processor() -> String {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = told.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    model.map_or_else(
        || first_line("sysctl", &["-n", "machdep.cpu.brand_string"]),
        |(_, name)| name.into(),
    )
}

/// Java says it on its standard error.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let said = Command::new(program).args(arguments).output();
    let line = said.ok().and_then(|said| {
        let all = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
        all.lines().next().map(str::to_owned)
    });
    line.unwrap_or_else(|| format!("no {program}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert_eq!(locked_version("redisson-lock-race"), env!("CARGO_PKG_VERSION"));
        assert_eq!(locked_version("no-such-package"), "?");
    }
}
