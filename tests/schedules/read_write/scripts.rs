//! The scripts: this crate's as shipped, Redisson's as captured, and those that leave a rule out.

use super::call::{Call, Id, Plain, Verb};
use super::rules::{Rule, Rules};
use crate::clients::CapturedScripts;
use crate::model::{Arg, Change, Invocation, Ms, Script, Server, text};
use crate::template::Filling;
use crate::{LOCK, PUBLISH};

/// What the names of all timeout keys match.
pub(super) const TIMEOUTS: &str = "{lock}:*";
pub(super) const CHANNEL: &str = "redisson_rwlock:{lock}";

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

const CHANGES: [Change<Rule>; 10] = [
    (
        Rule::OnlyOwnReads,
        "read/acquire",
        "ARGV[4] ~= '' and redis.call('hexists', KEYS[1], ARGV[4]) == 1",
        "true",
    ),
    (
        Rule::KnowsItsKind,
        "read/acquire",
        "return redis.error_reply('WRONGTYPE not a read/write lock')",
        "redis.call('hset', KEYS[1], 'mode', 'read') mode = 'read'",
    ),
    (Rule::ReleaseRecomputes, "read/release", "redis.call('pexpire', KEYS[1], longest)", ""),
    (
        Rule::OneTimeoutKey,
        "read/reenter",
        "local left = redis.call('pttl', KEYS[2])",
        "KEYS[2] = KEYS[2]:gsub('1$', ARGV[4])\nlocal left = redis.call('pttl', KEYS[2])",
    ),
    (
        Rule::WriteModeKeeps,
        "read/release",
        "redis.call('hget', KEYS[1], 'mode') == 'write'",
        "false",
    ),
    (Rule::RenewalRaises, "read/renew", "redis.call('pttl', lock) < tonumber(lease)", "true"),
    (
        Rule::RenewalSetsAnew,
        "read/renew",
        "redis.call('set', timeout, '1', 'px', lease)",
        "redis.call('pexpire', timeout, lease)",
    ),
    (
        Rule::DowngradeWakes,
        "write/release",
        "redis.call(ARGV[4], ARGV[3], '1')",
        "(longest > 0 and 0 or redis.call(ARGV[4], ARGV[3], '1'))",
    ),
    (Rule::DowngradeRecomputes, "write/release", "redis.call('pexpire', KEYS[1], longest)", ""),
    (
        Rule::NoPileUp,
        "reentrant/reenter",
        "if ttl ~= -1 and ttl < tonumber(ARGV[2]) then\n  redis.call('pexpire', KEYS[1], ARGV[2])",
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
    pub(crate) theirs: Option<[CapturedScripts; 2]>,
    /// Whether owners of ours take part.
    pub(crate) ours: bool,
}

impl Scripts {
    pub(super) fn load(server: &mut Server, rules: Rules) -> Self {
        let mut load = |name, text| server.load(&rules.apply(&CHANGES, name, text));
        Self {
            acquire: [load("read/acquire", READ_ACQUIRE), load("write/acquire", WRITE_ACQUIRE)],
            reenter: [load("read/reenter", READ_REENTER), load("reentrant/reenter", PLAIN_REENTER)],
            release: [load("read/release", READ_RELEASE), load("write/release", WRITE_RELEASE)],
            renew: [load("read/renew", READ_RENEW), load("reentrant/renew", PLAIN_RENEW)],
            force: [load("read/force_unlock", READ_FORCE), load("write/force_unlock", WRITE_FORCE)],
            plain_acquire: load("reentrant/acquire", PLAIN_ACQUIRE),
            plain_release: load("reentrant/release", PLAIN_RELEASE),
            theirs: None,
            ours: true,
        }
    }

    /// What goes to the server for this call.
    pub(super) fn invocation(&self, call: &Call) -> Invocation {
        let (id, side) = (call.id, usize::from(call.id.write));
        let release = |count: u32| vec![text(id), text(count), text(CHANNEL), text(PUBLISH)];
        let (script, args) = match call.verb {
            Verb::Acquire { lease, not_after, terms: under } => {
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
            Verb::Renew { lease } => (&self.renew[side], vec![text(id), Arg::Lease(lease)]),
            Verb::Force { not_after } => {
                (&self.force[side], vec![Arg::NotAfter(not_after), text(CHANNEL), text(PUBLISH)])
            }
            Verb::Own(Plain::Lock { lease }) => {
                (&self.plain_acquire, vec![text(id), Arg::Lease(lease), Arg::NotAfter(Ms::MAX)])
            }
            Verb::Own(Plain::Unlock) => (&self.plain_release, release(0)),
            Verb::Redisson(theirs) => {
                // Their holder is the thread; that it writes is part of their own words.
                let (holder, operation) = (&Id { write: false, ..id }.to_string(), call.operation);
                let filling = Filling { holder, operation, ..Filling::default() };
                return self.theirs(side).invocation(theirs, filling);
            }
        };
        let takes_its_key = !matches!(
            call.verb,
            Verb::Force { .. } | Verb::Own(Plain::Lock { .. }) | Verb::Own(Plain::Unlock)
        );
        let mut keys = vec![LOCK.into()];
        if takes_its_key && !id.write {
            keys.push(format!("{{{LOCK}}}:{id}:rwlock_timeout:1"));
        }
        Invocation { script: script.clone(), keys, args }
    }

    fn theirs(&self, side: usize) -> &CapturedScripts {
        &self.theirs.as_ref().expect("Redisson's scripts")[side]
    }
}
