//! The fenced lock: a reentrant lock, and a counter that each grant increments.

use std::borrow::Cow;

use bytes::Bytes;

use super::{
    args::{ScriptArgs, Wish},
    contract::Protocol,
    reentrant::Reentrant,
    replies::{AcquireReply, Timely, late, token},
};
use crate::{
    names,
    owner::HoldId,
    wire::{Invocation, Reply, Script, WireError},
};

static ACQUIRE: Script = script!("fenced/acquire");
static SWAP: Script = script!("fenced/swap");
static TOKEN: Script = script!("fenced/token");

#[derive(Debug)]
pub(crate) struct Fenced {
    lock: Reentrant,
    token: Bytes,
}

impl Fenced {
    pub(crate) fn new(name: &str) -> Self {
        Self { lock: Reentrant::new(name), token: names::token(name).into() }
    }
}

impl Protocol for Fenced {
    fn key(&self) -> &Bytes {
        self.lock.key()
    }

    fn channel(&self, id: &HoldId) -> Option<Cow<'_, str>> {
        self.lock.channel(id)
    }

    fn acquire(&self, id: &HoldId, args: ScriptArgs, _: &Wish) -> Invocation {
        Invocation {
            script: &ACQUIRE,
            keys: 2,
            args: vec![
                self.key().into(),
                (&self.token).into(),
                id.as_bytes().into(),
                args.lease.into(),
                args.not_after.into(),
            ],
        }
    }

    fn acquired(&self, reply: Reply) -> Result<Timely<AcquireReply>, WireError> {
        match &reply {
            Reply::Int(pttl) => Ok(Timely::InTime(AcquireReply::held(*pttl))),
            Reply::Array(answer) if answer.len() == 2 => token(&answer[1])
                .map(|token| Timely::InTime(AcquireReply::Granted { token: Some(token) })),
            _ => late(&reply),
        }
    }

    fn swap_script(&self) -> Option<&'static Script> {
        Some(&SWAP)
    }

    fn release(&self, id: &HoldId, count: u32) -> Invocation {
        self.lock.release(id, count)
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        self.lock.force_unlock(not_after)
    }

    fn token(&self) -> Option<Invocation> {
        Some(Invocation { script: &TOKEN, keys: 1, args: vec![(&self.token).into()] })
    }
}
