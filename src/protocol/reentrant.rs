//! The reentrant lock: a hash `{ holder: count }` with a TTL.

use bytes::Bytes;

use super::{Attempt, Protocol, Reentry, Terms, late, unexpected};
use crate::{
    names,
    owner::OwnerId,
    wire::{Invocation, Reply, Script, WireError},
};

macro_rules! script {
    ($name:literal) => {
        Script::new($name, include_str!(concat!("../../lua/", $name, ".lua")))
    };
}

static ACQUIRE: Script = script!("reentrant/acquire");
static REENTER: Script = script!("reentrant/reenter");
static RELEASE: Script = script!("reentrant/release");
static RENEW: Script = script!("reentrant/renew");
static FORCE_UNLOCK: Script = script!("reentrant/force_unlock");
static INSPECT: Script = script!("reentrant/inspect");

const PUBLISH: &str = "publish";

#[derive(Debug)]
pub(crate) struct Reentrant {
    key: Bytes,
    channel: Bytes,
}

impl Reentrant {
    pub(crate) fn new(name: &str) -> Self {
        Self { key: name.to_owned().into(), channel: names::unlock_channel(name).into() }
    }
}

impl Protocol for Reentrant {
    fn key(&self) -> &Bytes {
        &self.key
    }

    fn channel(&self) -> &str {
        std::str::from_utf8(&self.channel).expect("made of a str")
    }

    fn acquire(&self, id: &OwnerId, terms: Terms) -> Invocation {
        Invocation {
            script: &ACQUIRE,
            keys: 1,
            args: vec![
                (&self.key).into(),
                id.as_bytes().into(),
                terms.lease.into(),
                terms.not_after.into(),
            ],
        }
    }

    fn acquired(&self, reply: Reply) -> Result<Attempt, WireError> {
        match reply {
            Reply::Nil => Ok(Attempt::Won),
            Reply::Int(pttl) => Ok(Attempt::Held(u64::try_from(pttl).ok())),
            _ => late(&reply).map(Attempt::Late).ok_or_else(|| unexpected(&reply)),
        }
    }

    fn reenter(&self, id: &OwnerId, terms: Terms, count: u32) -> Invocation {
        Invocation {
            script: &REENTER,
            keys: 1,
            args: vec![
                (&self.key).into(),
                id.as_bytes().into(),
                terms.lease.into(),
                terms.not_after.into(),
                u64::from(count).into(),
            ],
        }
    }

    fn reentered(&self, reply: Reply) -> Result<Reentry, WireError> {
        match reply {
            Reply::Int(1) => Ok(Reentry::Granted),
            Reply::Int(0) => Ok(Reentry::Gone),
            _ => late(&reply).map(Reentry::Late).ok_or_else(|| unexpected(&reply)),
        }
    }

    fn release(&self, id: &OwnerId, count: u32) -> Invocation {
        Invocation {
            script: &RELEASE,
            keys: 1,
            args: vec![
                (&self.key).into(),
                id.as_bytes().into(),
                u64::from(count).into(),
                (&self.channel).into(),
                PUBLISH.into(),
            ],
        }
    }

    fn renewal(&self) -> &'static Script {
        &RENEW
    }

    fn force_unlock(&self, not_after: u64) -> Invocation {
        Invocation {
            script: &FORCE_UNLOCK,
            keys: 1,
            args: vec![
                (&self.key).into(),
                not_after.into(),
                (&self.channel).into(),
                PUBLISH.into(),
            ],
        }
    }

    fn inspect(&self) -> Invocation {
        Invocation { script: &INSPECT, keys: 1, args: vec![(&self.key).into()] }
    }
}
