//! The scripts: this crate's as shipped, Redisson's as captured, and those that leave a rule out.

use super::call::{Call, Swap, Verb};
use super::plain;
use super::rules::{Rule, Rules};
use super::sort::Sort;
use crate::clients::CapturedScripts;
use crate::model::{Arg, Change, Invocation, Script, Server, text};
use crate::template::Filling;
use crate::{LOCK, PUBLISH};

/// Where a fenced lock counts its tokens.
pub(super) const TOKEN: &str = "redisson_lock_token:{lock}";
const CHANNEL: &str = "redisson_lock__channel:{lock}";

const ACQUIRE: &str = include_str!("../../../lua/reentrant/acquire.lua");
const SWAP: &str = include_str!("../../../lua/reentrant/swap.lua");
const FENCED_SWAP: &str = include_str!("../../../lua/fenced/swap.lua");
const FENCED_ACQUIRE: &str = include_str!("../../../lua/fenced/acquire.lua");
const REENTER: &str = include_str!("../../../lua/reentrant/reenter.lua");
const RELEASE: &str = include_str!("../../../lua/reentrant/release.lua");
const RENEW: &str = include_str!("../../../lua/reentrant/renew.lua");
const FORCE_UNLOCK: &str = include_str!("../../../lua/reentrant/force_unlock.lua");

const CHANGES: [Change<Rule>; 4] = [
    (
        Rule::RepeatsKeepTheirToken,
        "fenced/acquire",
        "redis.call('get', KEYS[2]) or redis.call('incr', KEYS[2])",
        "redis.call('incr', KEYS[2])",
    ),
    (
        Rule::CounterLasts,
        "fenced/acquire",
        "redis.call('persist', KEYS[2])",
        "redis.call('pexpire', KEYS[2], ARGV[2])",
    ),
    (Rule::TheirsInFirst, "reentrant/swap", THEIRS_IN_FIRST, MINE_OUT_FIRST),
    (Rule::TheirsInFirst, "fenced/swap", THEIRS_IN_FIRST, MINE_OUT_FIRST),
];

const THEIRS_IN_FIRST: &str = "
  redis.call('hset', KEYS[1], ARGV[1], '1')
  redis.call('hdel', KEYS[1], ARGV[4])
  redis.call('pexpire', KEYS[1], ARGV[2])
";
/// The key vanishes in between, and its time with it.
const MINE_OUT_FIRST: &str = "
  local until_then = redis.call('pttl', KEYS[1])
  redis.call('hdel', KEYS[1], ARGV[4])
  redis.call('hset', KEYS[1], ARGV[1], '1')
  if until_then < tonumber(ARGV[2]) then redis.call('pexpire', KEYS[1], ARGV[2]) end
";

/// Rule 2 left out: a count that decides. The arguments are those of our scripts, the effect is that of Redisson's.
const COUNTING_ACQUIRE: &str = "
    local time = redis.call('time')
    if time[1] * 1000 > tonumber(ARGV[3]) then return {time[1] * 1000} end
    if redis.call('exists', KEYS[1]) == 1 and redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
        return redis.call('pttl', KEYS[1])
    end
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return nil";
const COUNTING_REENTER: &str = "
    local time = redis.call('time')
    if time[1] * 1000 > tonumber(ARGV[3]) then return {time[1] * 1000} end
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
    redis.call('hincrby', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 1";
const COUNTING_RELEASE: &str = "
    if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
    if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then return 1 end
    redis.call('del', KEYS[1])
    redis.call(ARGV[4], ARGV[3], '0')
    return 1";

/// All scripts, loaded.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    acquire: Script,
    reenter: Script,
    release: Script,
    tidy: Script,
    renew: Script,
    force: Script,
    swap: Script,
    pub(super) sort: Sort,
    /// Without them there are no Redisson threads.
    pub(crate) theirs: Option<CapturedScripts>,
    /// What other clients of a plain lock call.
    pub(super) foreign: Option<CapturedScripts>,
}

impl Scripts {
    pub(super) fn load(server: &mut Server, rules: Rules, sort: Sort) -> Self {
        if sort == Sort::Plain {
            return Self::plain(server, rules);
        }
        let fenced = sort == Sort::Fenced;
        let counting = !rules.keep(Rule::ExistenceDecides);
        let [acquire, reenter, release] = if counting {
            [COUNTING_ACQUIRE, COUNTING_REENTER, COUNTING_RELEASE]
        } else {
            [ACQUIRE, REENTER, RELEASE]
        };
        let fenced_acquire = &rules.apply(&CHANGES, "fenced/acquire", FENCED_ACQUIRE);
        let swap = match fenced {
            false => rules.apply(&CHANGES, "reentrant/swap", SWAP),
            true => rules.apply(&CHANGES, "fenced/swap", FENCED_SWAP),
        };
        Self {
            acquire: server.load(if fenced { fenced_acquire } else { acquire }),
            reenter: server.load(reenter),
            release: server.load(release),
            tidy: server.load(RELEASE),
            renew: server.load(RENEW),
            force: server.load(FORCE_UNLOCK),
            swap: server.load(&swap),
            sort,
            theirs: None,
            foreign: None,
        }
    }

    /// Those of a plain lock. There is none for a re-entry, nor for a hand-over.
    fn plain(server: &mut Server, rules: Rules) -> Self {
        let release = rules.apply(&plain::CHANGES, "plain/release", plain::RELEASE);
        let renew = rules.apply(&plain::CHANGES, "plain/renew", plain::RENEW);
        let none = server.load("return redis.error_reply('there is no such script')");
        Self {
            acquire: server.load(plain::ACQUIRE),
            reenter: none.clone(),
            release: server.load(&release),
            tidy: server.load(&release),
            renew: server.load(&renew),
            force: server.load(plain::FORCE_UNLOCK),
            swap: none,
            sort: Sort::Plain,
            theirs: None,
            foreign: Some(plain::foreign(server)),
        }
    }

    /// What goes to the server for this call.
    pub(super) fn invocation(&self, call: &Call) -> Invocation {
        let id = call.id;
        let (fenced, plain) = (self.sort == Sort::Fenced, self.sort == Sort::Plain);
        let channel = if plain { plain::CHANNEL } else { CHANNEL };
        // A plain lock has no count.
        let release = |count: u32| {
            let count = (!plain).then(|| text(count));
            [text(id)].into_iter().chain(count).chain([text(channel), text(PUBLISH)]).collect()
        };
        let mut keys = vec![LOCK.to_string()];
        let (script, args) = match call.verb {
            Verb::Acquire { lease, not_after, .. } => {
                keys.extend(fenced.then(|| TOKEN.to_string()));
                (&self.acquire, vec![text(id), Arg::Lease(lease), Arg::NotAfter(not_after)])
            }
            Verb::Reenter { count, lease, not_after } => (
                &self.reenter,
                vec![text(id), Arg::Lease(lease), Arg::NotAfter(not_after), text(count)],
            ),
            Verb::Release { count } => (&self.release, release(count)),
            Verb::Tidy => (&self.tidy, release(0)),
            Verb::Renew { lease } => (&self.renew, vec![text(id), Arg::Lease(lease)]),
            Verb::Own(Swap { to, lease, not_after }) => {
                keys.extend(fenced.then(|| TOKEN.to_string()));
                let terms = [Arg::Lease(lease), Arg::NotAfter(not_after)];
                (&self.swap, [text(to)].into_iter().chain(terms).chain([text(id)]).collect())
            }
            Verb::Force { not_after } => {
                (&self.force, vec![Arg::NotAfter(not_after), text(channel), text(PUBLISH)])
            }
            Verb::Redisson(theirs) => {
                let (holder, operation) = (&id.to_string(), call.operation);
                let filling = Filling { holder, operation, ..Filling::default() };
                return self.theirs().invocation(theirs, filling);
            }
        };
        Invocation { script: script.clone(), keys, args }
    }

    fn theirs(&self) -> &CapturedScripts {
        self.theirs.as_ref().expect("Redisson's scripts")
    }
}
