//! The subjects of the tests: the reentrant lock, the fenced one and the plain one.

use harness::RedisServer;

use super::Reentrant;
use super::rules::{Rule, Rules};
use super::scripts::{Scripts, TOKEN};
use super::sort::Sort;
use crate::LOCK;
use crate::clients::capture_scripts;
use crate::fuzz::Fuzzed;
use crate::model::Server;

/// The reentrant lock.
pub(crate) enum Simple {}

/// The fenced lock: the same, and each grant has a token.
pub(crate) enum Fenced {}

/// The plain lock: a string with the token of its holder.
pub(crate) enum Plain {}

impl Fuzzed for Simple {
    type Model = Reentrant;
    type Rule = Rule;
    type Scripts = Scripts;

    const SCHEDULES: u64 = 2_000;
    const WATCHED: &[&str] = &[LOCK];

    fn load(server: &mut Server, rules: Rules) -> Scripts {
        Scripts::load(server, rules, Sort::Reentrant)
    }

    fn invite_redisson(scripts: &mut Scripts, redis: &RedisServer, test: &str) -> bool {
        scripts.theirs = capture_scripts(redis, test, "lock");
        scripts.theirs.is_some()
    }

    fn model(rules: Rules, scripts: &Scripts) -> Reentrant {
        Reentrant::new(rules, scripts)
    }
}

impl Fuzzed for Fenced {
    type Model = Reentrant;
    type Rule = Rule;
    type Scripts = Scripts;

    const SCHEDULES: u64 = 600;
    const WATCHED: &[&str] = &[LOCK, TOKEN];

    fn load(server: &mut Server, rules: Rules) -> Scripts {
        Scripts::load(server, rules, Sort::Fenced)
    }

    fn invite_redisson(scripts: &mut Scripts, redis: &RedisServer, test: &str) -> bool {
        scripts.theirs = capture_scripts(redis, test, "fenced");
        scripts.theirs.is_some()
    }

    fn model(rules: Rules, scripts: &Scripts) -> Reentrant {
        Reentrant::new(rules, scripts)
    }
}

impl Fuzzed for Plain {
    type Model = Reentrant;
    type Rule = Rule;
    type Scripts = Scripts;

    const SCHEDULES: u64 = 1_000;
    const WATCHED: &[&str] = &[LOCK];

    fn load(server: &mut Server, rules: Rules) -> Scripts {
        Scripts::load(server, rules, Sort::Plain)
    }

    /// They need no Java: clients that lock by `SET key token NX PX`.
    fn invite_redisson(scripts: &mut Scripts, _: &RedisServer, _: &str) -> bool {
        scripts.theirs.clone_from(&scripts.foreign);
        scripts.theirs.is_some()
    }

    fn model(rules: Rules, scripts: &Scripts) -> Reentrant {
        Reentrant::new(rules, scripts)
    }
}
