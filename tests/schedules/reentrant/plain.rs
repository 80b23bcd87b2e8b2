//! The plain lock: this crate's scripts as shipped, and what other clients of it call.
//!
//! Those acquire by `SET key token NX PX lease`. They release and renew by scripts that compare the token, as redis-py's `Lock`
//! does. An operator frees the lock by `DEL`.

use super::rules::Rule;
use crate::clients::CapturedScripts;
use crate::model::{Change, Script, Server};
use crate::template::{HOLDER_HOLE, NAME_HOLE, Part, Template};

pub(super) const CHANNEL: &str = "redisson_lock_plain:{lock}";

pub(super) const ACQUIRE: &str = include_str!("../../../lua/plain/acquire.lua");
pub(super) const RELEASE: &str = include_str!("../../../lua/plain/release.lua");
pub(super) const RENEW: &str = include_str!("../../../lua/plain/renew.lua");
pub(super) const FORCE_UNLOCK: &str = include_str!("../../../lua/plain/force_unlock.lua");

pub(super) const CHANGES: [Change<Rule>; 2] = [
    (
        Rule::ReleaseByToken,
        "plain/release",
        "if redis.call('get', KEYS[1]) ~= ARGV[1] then",
        "if not redis.call('get', KEYS[1]) then",
    ),
    (Rule::RenewalByToken, "plain/renew", "if holder == ARGV[i] then", "if holder then"),
];

const THEIR_LOCK: &str = "
    if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', ARGV[2]) then return nil end
    return redis.call('pttl', KEYS[1])";
const THEIR_UNLOCK: &str = "
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return nil end
    return redis.call('del', KEYS[1])";
const THEIR_RENEWAL: &str = "
    if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
    return redis.call('pexpire', KEYS[1], ARGV[2])";
const THEIR_DELETION: &str = "return redis.call('del', KEYS[1])";

/// What other clients call, loaded.
pub(super) fn foreign(server: &mut Server) -> CapturedScripts {
    let theirs = [THEIR_LOCK, THEIR_UNLOCK, THEIR_RENEWAL, THEIR_DELETION];
    let [lock, unlock, renewal, deletion] = theirs.map(|text| server.load(text));
    CapturedScripts::by_hand(
        template(lock, true),
        template(unlock, false),
        template(renewal, true),
        template(deletion, false),
    )
}

fn template(script: Script, has_lease: bool) -> Template {
    let holder = Part::Text(HOLDER_HOLE.into());
    let args = [holder].into_iter().chain(has_lease.then_some(Part::Lease)).collect();
    Template { script, keys: vec![Part::Text(NAME_HOLE.into())], args }
}
