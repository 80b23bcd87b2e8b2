//! [`OneKey`]: a lock that is one key, with one channel, and the calls that several such kinds share.

use bytes::Bytes;

use super::args::ScriptArgs;
use crate::{
    names,
    owner::HoldId,
    wire::{Arg, Invocation, Script},
};

/// The key and the channel of a lock with one name.
#[derive(Debug)]
pub(super) struct OneKey {
    pub(super) key: Bytes,
    pub(super) channel: Bytes,
}

impl OneKey {
    pub(super) fn new(name: &str, channel: String) -> Self {
        Self { key: name.to_owned().into(), channel: channel.into() }
    }

    /// The channel, as text.
    pub(super) fn channel_text(&self) -> &str {
        names::text(&self.channel)
    }

    pub(super) fn acquire(
        &self,
        script: &'static Script,
        id: &HoldId,
        args: ScriptArgs,
    ) -> Invocation {
        let ScriptArgs { lease, not_after } = args;
        let args = vec![(&self.key).into(), id.as_bytes().into(), lease.into(), not_after.into()];
        Invocation { script, keys: 1, args }
    }

    pub(super) fn release(&self, script: &'static Script, id: &HoldId, count: u32) -> Invocation {
        Invocation {
            script,
            keys: 1,
            args: vec![
                (&self.key).into(),
                id.as_bytes().into(),
                u64::from(count).into(),
                (&self.channel).into(),
                Arg::Publish,
            ],
        }
    }

    pub(super) fn force_unlock(&self, script: &'static Script, not_after: u64) -> Invocation {
        let args = vec![(&self.key).into(), not_after.into(), (&self.channel).into(), Arg::Publish];
        Invocation { script, keys: 1, args }
    }
}
