//! The scripts: this crate's as shipped, Redisson's as captured, and those that leave a rule out.

use super::call::{Call, Verb};
use super::rules::{Rule, Rules};
use super::terms::{KEPT, Sort};
use super::theirs::CapturedCounter;
use crate::known::Known;
use crate::model::{Arg, Change, Invocation, Script, Server, text};
use crate::{LOCK, PUBLISH};

/// The ids of requests.
pub(super) const REQUESTS: &str = "redisson_lock_requests:{lock}";

const CHANGES: [Change<Rule>; 7] = [
    (Rule::ReleaseLooks, "release", "redis.call('zscore', KEYS[2], ARGV[1])", "false"),
    (Rule::AcquireLooks, "acquire", "redis.call('zscore', KEYS[2], ARGV[1])", "nil"),
    (Rule::CountLooks, "count_down", "redis.call('zscore', KEYS[2], ARGV[1])", "false"),
    (
        Rule::WithdrawalMarks,
        "withdraw",
        "redis.call('zadd', KEYS[2], string.format('%.0f', -now - ARGV[3]), ARGV[1])",
        "redis.call('zrem', KEYS[2], ARGV[1])",
    ),
    (Rule::ReleaseTells, "release", "free > 0", "false"),
    (Rule::ReleaseTells, "withdraw", "free > 0", "false"),
    (Rule::ZeroTells, "count_down", "count == 0", "false"),
];

/// All scripts, loaded.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    pub(super) sort: Sort,
    set: Script,
    acquire: Script,
    release: Script,
    drain: Script,
    count_down: Script,
    withdraw: Script,
    cancel: Script,
    delete: Script,
    expire: Script,
    /// Without them there are no clients of Redisson's.
    pub(super) theirs: Option<CapturedCounter>,
    /// What Redisson's copies were seen to do.
    pub(super) known: Known,
}

impl Scripts {
    pub(super) fn load(server: &mut Server, rules: Rules, sort: Sort) -> Self {
        let mut load = |name: &str, text: &str| server.load(&rules.apply(&CHANGES, name, text));
        Self {
            sort,
            set: load("set", include_str!("../../../lua/counter/try_set.lua")),
            acquire: load("acquire", include_str!("../../../lua/semaphore/acquire.lua")),
            release: load("release", include_str!("../../../lua/semaphore/release.lua")),
            drain: load("drain", include_str!("../../../lua/semaphore/drain.lua")),
            count_down: load("count_down", include_str!("../../../lua/latch/count_down.lua")),
            withdraw: load("withdraw", include_str!("../../../lua/semaphore/withdraw.lua")),
            cancel: load("cancel", include_str!("../../../lua/counter/cancel.lua")),
            delete: load("delete", "return redis.call('del', KEYS[1])"),
            expire: load("expire", "return redis.call('pexpire', KEYS[1], ARGV[1])"),
            theirs: None,
            known: Known::default(),
        }
    }

    /// What goes to the server for this call.
    pub(super) fn invocation(&self, call: &Call) -> Invocation {
        if call.theirs {
            return self.theirs.as_ref().expect("Redisson's scripts").invocation(call.verb);
        }
        let id = text(format!("{}:{}", call.who, call.operation));
        let timely = [Arg::NotAfter(call.not_after), Arg::Lease(KEPT)];
        let told = [text(channel(self.sort)), text(PUBLISH)];
        let settled = call.settled.iter().map(|id| text(format!("{}:{id}", call.who)));
        let changes = |script, number: i64, rest: Vec<Arg>| {
            let args = [id.clone(), text(number)].into_iter().chain(timely.clone());
            (script, args.chain(rest).collect::<Vec<_>>())
        };
        let (script, mut args) = match call.verb {
            Verb::Set(n) => {
                let message = if self.sort == Sort::Latch { 1 } else { n };
                changes(&self.set, n, [told.to_vec(), vec![text(message)]].concat())
            }
            Verb::Acquire(n) => changes(&self.acquire, n, vec![]),
            Verb::Release { permits, .. } => {
                changes(&self.release, permits, [told.to_vec(), vec![text(1)]].concat())
            }
            Verb::Add(n) => changes(&self.release, n, [told.to_vec(), vec![text(0)]].concat()),
            Verb::Drain { expected } => changes(&self.drain, expected, vec![]),
            Verb::CountDown => {
                (&self.count_down, [vec![id], timely.to_vec(), told.to_vec()].concat())
            }
            Verb::Withdraw(n) => {
                (&self.withdraw, [vec![id, text(n), Arg::Lease(KEPT)], told.to_vec()].concat())
            }
            Verb::Cancel => {
                let (script, args) = (self.cancel.clone(), vec![id, Arg::Lease(KEPT)]);
                return Invocation { script, keys: vec![REQUESTS.into()], args };
            }
            Verb::Delete => (&self.delete, vec![]),
            Verb::Expire(ttl) => (&self.expire, vec![Arg::Lease(ttl)]),
        };
        if !call.verb.is_undo() {
            args.extend(settled);
        }
        Invocation { script: script.clone(), keys: vec![LOCK.into(), REQUESTS.into()], args }
    }
}

/// The channel that wakes waiters.
pub(super) fn channel(sort: Sort) -> &'static str {
    match sort {
        Sort::Semaphore => "redisson_sc:{lock}",
        Sort::Latch => "redisson_countdownlatch__channel__{lock}",
    }
}
