//! The subjects of the tests: the plain reentrant lock, and the fenced one.

use harness::RedisServer;

use super::Reentrant;
use super::rules::{Rule, Rules};
use super::scripts::{Scripts, TOKEN};
use crate::LOCK;
use crate::clients::capture_scripts;
use crate::fuzz::Fuzzed;
use crate::model::Server;

/// The reentrant lock.
pub(crate) enum Plain {}

/// The fenced lock: the same, and each grant has a token.
pub(crate) enum Fenced {}

impl Fuzzed for Plain {
    type Model = Reentrant;
    type Rule = Rule;
    type Scripts = Scripts;

    const SCHEDULES: u64 = 2_000;
    const WATCHED: &[&str] = &[LOCK];

    fn load(server: &mut Server, rules: Rules) -> Scripts {
        Scripts::load(server, rules, false)
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
        Scripts::load(server, rules, true)
    }

    fn invite_redisson(scripts: &mut Scripts, redis: &RedisServer, test: &str) -> bool {
        scripts.theirs = capture_scripts(redis, test, "fenced");
        scripts.theirs.is_some()
    }

    fn model(rules: Rules, scripts: &Scripts) -> Reentrant {
        Reentrant::new(rules, scripts)
    }
}
