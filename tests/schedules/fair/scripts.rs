//! The scripts: this crate's as shipped or with a rule left out, Redisson's as captured.

use super::call::{Call, Turn, Verb, wire};
use super::rules::{Rule, Rules};
use super::times::WAIT;
use crate::clients::{CapturedScripts, THEIR_WAIT};
use crate::model::{Arg, Change, Invocation, Script, Server, text};
use crate::template::Filling;
use crate::{LOCK, PUBLISH};

pub(super) const QUEUE: &str = "redisson_lock_queue:{lock}";
pub(super) const DEADLINES: &str = "redisson_lock_timeout:{lock}";
pub(super) const CHANNEL: &str = "redisson_lock__channel:{lock}";

const ACQUIRE: &str = include_str!("../../../lua/fair/acquire.lua");
const WITHDRAW: &str = include_str!("../../../lua/fair/withdraw.lua");
const RELEASE: &str = include_str!("../../../lua/fair/release.lua");
const FORCE_UNLOCK: &str = include_str!("../../../lua/fair/force_unlock.lua");
const REENTER: &str = include_str!("../../../lua/reentrant/reenter.lua");
const RENEW: &str = include_str!("../../../lua/reentrant/renew.lua");

const CHANGES: [Change<Rule>; 16] = [
    (Rule::FreeOnly, "acquire", "if ttl == -2 and (not head", "if (not head"),
    (
        Rule::Ttl,
        "acquire",
        "  local set = redis.pcall('pexpire', lock, lease)\n",
        "  local set = 1\n",
    ),
    (
        Rule::HeadOnly,
        "acquire",
        "(not head or head == me) then\n  if head then",
        "true then\n  if head == me then",
    ),
    (Rule::CountsGrants, "acquire", "need, before = need + theirs,", "need, before = need,"),
    (
        Rule::LooksAhead,
        "acquire",
        "rest >= wait * 4 / 5 and kept_for(holder, deadline) > wait / 4",
        "true",
    ),
    (Rule::KeepsDistance, "acquire", "if not deadline or moved ~= 0 then", "if not deadline then"),
    (Rule::HeadIsLevel, "acquire", "math.floor(first) <= now + wait", "true"),
    (Rule::GrantLevels, "acquire", "math.floor(had) > now + wait", "false"),
    (Rule::Marks, "acquire", "    redis.call('zadd', deadlines, seen(had), me)\n", ""),
    (Rule::UnseenGo, "acquire", "(33 - unseen) * step", "(99 - unseen) * step"),
    (Rule::GrantTells, "acquire", "(set ~= 1 or tonumber(lease) < wait * 3 / 10) and 0", "false"),
    (Rule::LeavesBoth, "withdraw", "redis.call('zrem', KEYS[3], ARGV[1])\n", ""),
    (Rule::ReleaseWakes, "release", "redis.call(ARGV[5],", "tostring("),
    (Rule::WithdrawalWakes, "withdraw", "redis.call(ARGV[4],", "tostring("),
    (Rule::DropWakes, "acquire", "if ttl == -2 and dropped then", "if false then"),
    (
        Rule::HolderReleases,
        "release",
        "if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then",
        "if redis.call('del', KEYS[1]) == 0 then",
    ),
];

/// All scripts, loaded.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    acquire: Script,
    withdraw: Script,
    release: Script,
    force: Script,
    reenter: Script,
    renew: Script,
    /// Without them there are no Redisson threads.
    pub(crate) theirs: Option<CapturedScripts>,
    /// Whether its waiters are asynchronous: they give up with the default wait, whatever they asked for.
    pub(crate) asynchronous: bool,
    /// Whether owners of ours take part.
    pub(crate) ours: bool,
}

impl Scripts {
    pub(super) fn load(server: &mut Server, rules: Rules) -> Self {
        let mut load = |name, text: &str| server.load(&rules.apply(&CHANGES, name, text));
        Self {
            acquire: load("acquire", ACQUIRE),
            withdraw: load("withdraw", WITHDRAW),
            release: load("release", RELEASE),
            force: load("force_unlock", FORCE_UNLOCK),
            reenter: load("reenter", REENTER),
            renew: load("renew", RENEW),
            theirs: None,
            asynchronous: false,
            ours: true,
        }
    }

    /// What goes to the server for this call.
    pub(super) fn invocation(&self, call: &Call) -> Invocation {
        let id = text(wire(call.id));
        let (script, args) = match call.verb {
            Verb::Acquire { lease, not_after, terms: Turn { stands } } => (
                &self.acquire,
                vec![
                    id,
                    Arg::Lease(lease),
                    Arg::NotAfter(not_after),
                    Arg::Lease(WAIT),
                    Arg::Lease(THEIR_WAIT),
                    text(u8::from(stands)),
                    text(CHANNEL),
                    text(PUBLISH),
                ],
            ),
            Verb::Reenter { count, lease, not_after } => {
                (&self.reenter, vec![id, Arg::Lease(lease), Arg::NotAfter(not_after), text(count)])
            }
            Verb::Release { count } => (
                &self.release,
                vec![id, text(count), Arg::Lease(WAIT), text(CHANNEL), text(PUBLISH)],
            ),
            Verb::Tidy => {
                (&self.withdraw, vec![id, Arg::Lease(WAIT), text(CHANNEL), text(PUBLISH)])
            }
            Verb::Renew { lease } => (&self.renew, vec![id, Arg::Lease(lease)]),
            Verb::Force { not_after } => (
                &self.force,
                vec![Arg::NotAfter(not_after), Arg::Lease(WAIT), text(CHANNEL), text(PUBLISH)],
            ),
            Verb::Redisson(theirs) => {
                let (holder, operation, clock) = (&wire(call.id), call.operation, call.clock);
                let filling = Filling { holder, operation, clock, ..Filling::default() };
                return self.theirs().invocation(theirs, filling);
            }
            Verb::Own(never) => match never {},
        };
        let keys = match call.verb {
            Verb::Reenter { .. } | Verb::Renew { .. } => vec![LOCK.into()],
            _ => vec![LOCK.into(), QUEUE.into(), DEADLINES.into()],
        };
        Invocation { script: script.clone(), keys, args }
    }

    fn theirs(&self) -> &CapturedScripts {
        self.theirs.as_ref().expect("Redisson's scripts")
    }
}
