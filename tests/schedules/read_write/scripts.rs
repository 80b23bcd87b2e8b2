//! The scripts: ours as they are shipped, Redisson's as they were overheard, and those that leave a rule out.

use super::WATCHDOG;
use super::call::{Call, Verb};
use super::rules::{Rule, Rules};
use crate::reentrant::{Filling, Overheard, Template, changed};
use crate::sim::{Arg, Invocation, Ms, Script, Server};

/// The lock all clients want.
pub(super) const LOCK: &str = "lock";
/// What the names of all timeout keys match.
pub(super) const TIMEOUTS: &str = "{lock}:*";
pub(super) const CHANNEL: &str = "redisson_rwlock:{lock}";
/// Instead of `publish`: the key of this name keeps the last message, until the truth takes it away.
const PUBLISH: &str = "set";

const READ_ACQUIRE: &str = include_str!("../../../lua/read/acquire.lua");
const READ_REENTER: &str = include_str!("../../../lua/read/reenter.lua");
const READ_RELEASE: &str = include_str!("../../../lua/read/release.lua");
const READ_RENEW: &str = include_str!("../../../lua/read/renew.lua");
const READ_FORCE: &str = include_str!("../../../lua/read/force_unlock.lua");
const WRITE_ACQUIRE: &str = include_str!("../../../lua/write/acquire.lua");
const WRITE_RELEASE: &str = include_str!("../../../lua/write/release.lua");
const WRITE_FORCE: &str = include_str!("../../../lua/write/force_unlock.lua");
const PLAIN_ACQUIRE: &str = include_str!("../../../lua/reentrant/acquire.lua");
const PLAIN_REENTER: &str = include_str!("../../../lua/reentrant/reenter.lua");
const PLAIN_RELEASE: &str = include_str!("../../../lua/reentrant/release.lua");
const PLAIN_RENEW: &str = include_str!("../../../lua/reentrant/renew.lua");

/// What a script reads without a rule: the rule, the script, what goes, what comes in its place.
const CHANGES: [(Rule, &str, &str, &str); 10] = [
    (
        Rule::OnlyOwnReads,
        READ_ACQUIRE,
        "ARGV[4] ~= '' and redis.call('hexists', KEYS[1], ARGV[4]) == 1",
        "true",
    ),
    (
        Rule::KnowsItsKind,
        READ_ACQUIRE,
        "return redis.error_reply('WRONGTYPE not a read/write lock')",
        "redis.call('hset', KEYS[1], 'mode', 'read') mode = 'read'",
    ),
    (Rule::ReleaseRecomputes, READ_RELEASE, "redis.call('pexpire', KEYS[1], longest)", ""),
    (Rule::OneTimeoutKey, READ_REENTER, "':rwlock_timeout:1'", "':rwlock_timeout:' .. ARGV[4]"),
    (Rule::WriteModeKeeps, READ_RELEASE, "redis.call('hget', KEYS[1], 'mode') == 'write'", "false"),
    (Rule::RenewalRaises, READ_RENEW, "redis.call('pttl', key) < tonumber(lease)", "true"),
    (
        Rule::RenewalSetsAnew,
        READ_RENEW,
        "redis.call('set', timeout, '1', 'px', lease)",
        "redis.call('pexpire', timeout, lease)",
    ),
    (
        Rule::DowngradeWakes,
        WRITE_RELEASE,
        "redis.call(ARGV[4], ARGV[3], '1')",
        "if longest == 0 then redis.call(ARGV[4], ARGV[3], '1') end",
    ),
    (Rule::DowngradeRecomputes, WRITE_RELEASE, "redis.call('pexpire', KEYS[1], longest)", ""),
    (
        Rule::NoPileUp,
        PLAIN_REENTER,
        "if redis.call('pttl', KEYS[1]) < tonumber(ARGV[2]) then\n  redis.call('pexpire', KEYS[1], ARGV[2])",
        "do redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + ARGV[2])",
    ),
];

/// All scripts, loaded; of two, the first is for reading and the second for writing.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    acquire: [Script; 2],
    reenter: [Script; 2],
    release: [Script; 2],
    renew: [Script; 2],
    force: [Script; 2],
    plain_acquire: Script,
    plain_release: Script,
    /// Without them there are no Redisson threads.
    pub(crate) theirs: Option<[Overheard; 2]>,
}

impl Scripts {
    pub(crate) fn load(server: &mut Server, rules: Rules) -> Self {
        let mut load = |script: &str| {
            let left_out =
                CHANGES.iter().find(|(rule, of, ..)| *of == script && !rules.keep(*rule));
            match left_out {
                Some((_, _, from, to)) => server.load(&changed(script, (from, to))),
                None => server.load(script),
            }
        };
        Self {
            acquire: [READ_ACQUIRE, WRITE_ACQUIRE].map(&mut load),
            reenter: [READ_REENTER, PLAIN_REENTER].map(&mut load),
            release: [READ_RELEASE, WRITE_RELEASE].map(&mut load),
            renew: [READ_RENEW, PLAIN_RENEW].map(&mut load),
            force: [READ_FORCE, WRITE_FORCE].map(&mut load),
            plain_acquire: load(PLAIN_ACQUIRE),
            plain_release: load(PLAIN_RELEASE),
            theirs: None,
        }
    }

    /// What goes to the server for this call.
    pub(crate) fn invocation(&self, call: &Call) -> Invocation {
        let (id, side) = (call.id, usize::from(call.id.write));
        let release = |count: u32| vec![text(id), text(count), text(CHANNEL), text(PUBLISH)];
        let (script, args) = match call.verb {
            Verb::Acquire { lease, not_after, under } => {
                let own = under.map_or_else(|| text(""), text);
                let words = [text(id), Arg::Lease(lease), Arg::NotAfter(not_after)];
                let args = words.into_iter().chain((!id.write).then_some(own)).collect();
                (&self.acquire[side], args)
            }
            Verb::Reenter { count, lease, not_after } => (
                &self.reenter[side],
                vec![text(id), Arg::Lease(lease), Arg::NotAfter(not_after), text(count)],
            ),
            Verb::Release { count } => (&self.release[side], release(count)),
            Verb::Tidy => (&self.release[side], release(0)),
            Verb::Renew { lease } if id.write => {
                (&self.renew[side], vec![Arg::Lease(lease), text(id)])
            }
            Verb::Renew { lease } => (&self.renew[side], vec![text(id), Arg::Lease(lease)]),
            Verb::Force { not_after } => {
                (&self.force[side], vec![Arg::NotAfter(not_after), text(CHANNEL), text(PUBLISH)])
            }
            Verb::PlainLock { lease } => {
                (&self.plain_acquire, vec![text(id), Arg::Lease(lease), Arg::NotAfter(Ms::MAX)])
            }
            Verb::PlainUnlock => (&self.plain_release, release(0)),
            Verb::TheirLock { lease } => {
                return fill(&self.theirs(side).lock, call, lease.unwrap_or(WATCHDOG));
            }
            Verb::TheirUnlock { lease, .. } => return fill(&self.theirs(side).unlock, call, lease),
            Verb::TheirRenewal => return fill(&self.theirs(side).renewal, call, WATCHDOG),
            Verb::TheirForce => return fill(&self.theirs(side).force_unlock, call, WATCHDOG),
        };
        Invocation { script: script.clone(), keys: vec![LOCK.into()], args }
    }

    fn theirs(&self, side: usize) -> &Overheard {
        &self.theirs.as_ref().expect("Redisson's scripts")[side]
    }
}

/// The latch that keeps Redisson's unlock from counting twice.
pub(super) fn latch(call: &Call) -> String {
    format!("redisson_unlock_latch:{{{LOCK}}}:{:032x}", call.operation)
}

/// Their holder is the thread; that it writes is part of their own words.
fn fill(template: &Template, call: &Call, lease: Ms) -> Invocation {
    let holder = &super::Id { write: false, ..call.id }.to_string();
    template.fill(Filling { lock: LOCK, holder, latch: &latch(call), publish: PUBLISH, lease })
}

fn text(value: impl ToString) -> Arg {
    Arg::Text(value.to_string())
}
