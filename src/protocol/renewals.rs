//! Renewals of many holds in one call.

use bytes::{Bytes, BytesMut};

use super::{contract::RENEW, read_write};
use crate::{
    owner::HoldId,
    permit_id::PermitId,
    wire::{Arg, Invocation, Script},
};

/// One hold in a batch of renewals.
#[derive(Clone, Debug)]
pub(crate) struct Renew {
    pub(crate) key: Bytes,
    pub(crate) id: HoldId,
    /// What the script looks for, if it is not the id.
    pub(crate) members: Option<Bytes>,
}

impl Renew {
    fn sought(&self) -> &Bytes {
        self.members.as_ref().unwrap_or(self.id.as_bytes())
    }

    /// How many members the script raises for it: one for each permit.
    pub(crate) fn size(&self) -> usize {
        self.members.as_ref().map_or(1, |members| members.len() / PermitId::LENGTH)
    }
}

/// Renews a batch of holds of one kind, each to a lease in ms.
pub(crate) fn renew<'a>(
    script: &'static Script,
    holds: impl ExactSizeIterator<Item = (&'a Renew, u64)> + Clone,
) -> Invocation {
    let reads = script.or_with_one_key;
    let keys = holds.len() * if reads { 2 } else { 1 };
    // All arguments share one piece of memory: counting references to each costs more than copying.
    let bytes = holds.clone().map(|(hold, _)| hold.key.len() + hold.sought().len()).sum();
    let mut text = BytesMut::with_capacity(bytes);
    let mut word = |word: &[u8]| {
        text.extend_from_slice(word);
        Arg::Bytes(text.split().freeze())
    };
    let mut leases = holds.clone().map(|(_, lease)| lease);
    let first = leases.next();
    let alike = leases.all(|lease| Some(lease) == first);
    let leases = if alike { holds.len().min(1) } else { holds.len() };
    let mut args = Vec::with_capacity(keys + holds.len() + leases);
    args.extend(holds.clone().map(|(hold, _)| word(&hold.key)));
    if reads {
        let timeouts = holds.clone().map(|(hold, _)| read_write::timeout(&hold.key, &hold.id));
        args.extend(timeouts.map(Arg::Bytes));
    }
    args.extend(holds.clone().map(|(hold, _)| word(hold.sought())));
    // One lease, if it is that of all.
    args.extend(holds.take(leases).map(|(_, lease)| Arg::from(lease)));
    Invocation { script, keys, args }
}

/// Renews a hold whose two keys are on two servers, each on its server: the hold first, then the
/// key beside it. `None`: such a hold has one key.
pub(crate) fn renew_apart(
    script: &'static Script,
    hold: &Renew,
    lease: u64,
) -> Option<[Invocation; 2]> {
    script.or_with_one_key.then(|| {
        let lock = renew(&RENEW, std::iter::once((hold, lease)));
        [lock, read_write::renew_apart(&hold.key, &hold.id, lease)]
    })
}
