//! The subjects of the tests: the semaphore, and the latch.

use harness::RedisServer;

use super::Number;
use super::rules::{Rule, Rules};
use super::scripts::{REQUESTS, Scripts};
use super::terms::Sort;
use super::theirs::CapturedCounter;
use crate::LOCK;
use crate::fuzz::Fuzzed;
use crate::model::Server;

/// The semaphore.
pub(crate) enum Semaphore {}

/// The count-down latch.
pub(crate) enum Latch {}

macro_rules! fuzzed {
    ($of:ty, $sort:ident, $schedules:literal) => {
        impl Fuzzed for $of {
            type Model = Number;
            type Rule = Rule;
            type Scripts = Scripts;

            const SCHEDULES: u64 = $schedules;
            const WATCHED: &[&str] = &[LOCK, REQUESTS];

            fn load(server: &mut Server, rules: Rules) -> Scripts {
                Scripts::load(server, rules, Sort::$sort)
            }

            fn invite_redisson(scripts: &mut Scripts, redis: &RedisServer, test: &str) -> bool {
                scripts.theirs = CapturedCounter::capture(redis, test, Sort::$sort);
                scripts.theirs.is_some()
            }

            fn known(scripts: &Scripts) -> String {
                scripts.known.told()
            }

            fn model(rules: Rules, scripts: &Scripts) -> Number {
                Number::new(rules, scripts)
            }
        }
    };
}

fuzzed!(Semaphore, Semaphore, 2_000);
fuzzed!(Latch, Latch, 1_000);
