//! The fair lock: a reentrant lock, and a line of waiters on the server.
//!
//! A waiter asks every 0.3 × `fair_wait` to keep its place ([`Order::Server`]).

use std::{borrow::Cow, time::Duration};

use bytes::Bytes;

use super::{
    args::{ScriptArgs, Wish},
    contract::{MOST_LISTED, Order, Protocol},
};
use crate::{
    config::Settings,
    names,
    owner::{HoldId, Identity},
    wire::{Arg, Invocation, Script},
};

static ACQUIRE: Script = script!("fair/acquire");
static RELEASE: Script = script!("fair/release");
static WITHDRAW: Script = script!("fair/withdraw");
static FORCE_UNLOCK: Script = script!("fair/force_unlock");
static INSPECT: Script = script!("fair/inspect");

/// How often a waiter asks, in tenths of `fair_wait`. `lua/fair/acquire.lua` reckons with the same: the next
/// in line is told of a lease that ends sooner.
const HEARTBEAT_TENTHS: u64 = 3;

#[derive(Debug)]
pub(crate) struct Fair {
    key: Bytes,
    queue: Bytes,
    deadlines: Bytes,
    /// Each waiter's channel begins with this one.
    channel: Bytes,
    /// How long a waiter of this crate keeps its place after it last asked, in ms.
    wait: u64,
    /// How long a waiter of Redisson keeps its place, in ms. The script takes twice `wait` if that is
    /// longer.
    theirs: u64,
}

impl Fair {
    pub(crate) fn new(name: &str, settings: &Settings) -> Self {
        Self {
            key: name.to_owned().into(),
            queue: names::fair_queue(name).into(),
            deadlines: names::fair_deadlines(name).into(),
            channel: names::unlock_channel(name).into(),
            wait: settings.fair_wait.as_millis() as u64,
            theirs: settings.redisson_fair_wait.as_millis() as u64,
        }
    }

    fn call(&self, script: &'static Script, args: impl IntoIterator<Item = Arg>) -> Invocation {
        let keys = [&self.key, &self.queue, &self.deadlines].map(Arg::from);
        Invocation { script, keys: keys.len(), args: keys.into_iter().chain(args).collect() }
    }
}

impl Protocol for Fair {
    fn key(&self) -> &Bytes {
        &self.key
    }

    fn order(&self) -> Order {
        Order::Server { heartbeat: Duration::from_millis(self.wait * HEARTBEAT_TENTHS / 10) }
    }

    fn channel(&self, id: &HoldId) -> Option<Cow<'_, str>> {
        Some(format!("{}:{}", names::text(&self.channel), id.as_str()).into())
    }

    fn id(&self, identity: &Identity) -> HoldId {
        identity.next_in_line()
    }

    fn acquire(&self, id: &HoldId, args: ScriptArgs, wish: &Wish) -> Invocation {
        self.call(
            &ACQUIRE,
            [
                id.as_bytes().into(),
                args.lease.into(),
                args.not_after.into(),
                self.wait.into(),
                self.theirs.into(),
                u64::from(wish.stand).into(),
                (&self.channel).into(),
                Arg::Publish,
            ],
        )
    }

    fn release(&self, id: &HoldId, count: u32) -> Invocation {
        self.call(
            &RELEASE,
            [
                id.as_bytes().into(),
                u64::from(count).into(),
                self.wait.into(),
                (&self.channel).into(),
                Arg::Publish,
            ],
        )
    }

    fn undo(&self, id: &HoldId) -> Invocation {
        self.call(
            &WITHDRAW,
            [id.as_bytes().into(), self.wait.into(), (&self.channel).into(), Arg::Publish],
        )
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        self.call(
            &FORCE_UNLOCK,
            [not_after.into(), self.wait.into(), (&self.channel).into(), Arg::Publish],
        )
    }

    fn inspect(&self) -> Invocation {
        self.call(&INSPECT, [self.wait.into(), MOST_LISTED.into()])
    }
}
