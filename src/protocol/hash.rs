//! Calls that all kinds whose lock is a hash `{ holder: count }` have in common.

use bytes::Bytes;

use super::args::ScriptArgs;
use crate::{
    owner::HoldId,
    wire::{Arg, Invocation, Script},
};

static EXTEND: Script = script!("reentrant/extend");
static REENTER: Script = script!("reentrant/reenter");
pub(super) static RENEW: Script = script!("reentrant/renew");
static INSPECT: Script = script!("reentrant/inspect");

/// How many holders, and how many waiters, an inspection lists. It bounds how long the server serves
/// no other client: 17 ms for 10,000 fields, 33 ms where there are more.
pub(super) const MOST_LISTED: u64 = 10_000;

pub(super) fn extend(key: &Bytes, id: &HoldId, lease: u64, channel: &Bytes) -> Invocation {
    let args = vec![key.into(), id.as_bytes().into(), lease.into(), channel.into(), Arg::Listening];
    Invocation { script: &EXTEND, keys: 1, args }
}

pub(super) fn reenter(key: &Bytes, id: &HoldId, args: ScriptArgs, count: u32) -> Invocation {
    Invocation {
        script: &REENTER,
        keys: 1,
        args: vec![
            key.into(),
            id.as_bytes().into(),
            args.lease.into(),
            args.not_after.into(),
            u64::from(count).into(),
        ],
    }
}

pub(super) fn inspect(key: &Bytes) -> Invocation {
    Invocation { script: &INSPECT, keys: 1, args: vec![key.into(), MOST_LISTED.into()] }
}

pub(super) fn look_for(key: &Bytes, id: &HoldId) -> Invocation {
    let args = vec![key.into(), MOST_LISTED.into(), id.as_bytes().into()];
    Invocation { script: &INSPECT, keys: 1, args }
}
