//! The expirable semaphore: a string with the number of free permits, and a sorted set of the permits
//! that are out. Each has an id, and the server time at which its lease ends.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};

use super::{
    counting::{Countable, CounterKeys, RequestArgs},
    permitting::Permitting,
    renewals::Renew,
    replies::unexpected,
};
use crate::{
    names,
    owner::HoldId,
    permit_id::PermitId,
    wire::{Arg, Invocation, Reply, Script, WireError},
};

static ACQUIRE: Script = script!("expirable/acquire");
static RELEASE: Script = script!("expirable/release");
static CHANGE: Script = script!("expirable/change");
static SET_LEASE: Script = script!("expirable/set_lease");
static REMAINING: Script = script!("expirable/remaining");
static INSPECT: Script = script!("expirable/inspect");
pub(crate) static RENEW: Script = script!("expirable/renew");

/// The most permits of one request. It bounds how long a script takes.
pub(crate) const MOST_AT_ONCE: u32 = 100;

/// A lease of Redisson without an end has this score, or at least this time left.
const WITHOUT_END: u64 = 100 * 365 * 24 * 3600 * 1000;

/// An expirable semaphore with one name.
#[derive(Clone, Debug)]
pub(crate) struct Expirable {
    counter: CounterKeys,
    /// The permits that are out.
    timeouts: Bytes,
}

/// What a request for permits takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub(crate) permits: u32,
    /// In ms.
    pub(crate) lease: u64,
}

/// Which of several permits are returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Return {
    /// Those that are out.
    Each,
    /// None, unless all are out and no lease has ended. As Redisson's `tryRelease` of several.
    AllOrNone,
}

/// How the number of permits is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    By(i64),
    To(u32),
}

/// The state of an expirable semaphore on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stock {
    /// Permits that are free. It may be negative.
    pub(crate) free: i64,
    /// How many permits are out.
    pub(crate) out: u64,
    /// Some of them, with the remaining lease, the shortest first.
    pub(crate) permits: Vec<(PermitId, Left)>,
}

/// The rest of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// There is no such permit, or its lease has ended.
    Nothing,
    Time(Duration),
    /// It is a permit of Redisson without a lease.
    Forever,
}

impl Left {
    fn of(ms: i64) -> Self {
        match u64::try_from(ms) {
            Err(_) | Ok(0) => Self::Nothing,
            Ok(WITHOUT_END..) => Self::Forever,
            Ok(ms) => Self::Time(Duration::from_millis(ms)),
        }
    }
}

impl Countable for Expirable {
    const WHAT: &'static str = "expirable semaphore";
    const REMEDY: &'static str = ", or with one {tag}";

    fn new(name: &str) -> Self {
        let (requests, channel) = (names::semaphore_requests(name), names::semaphore_channel(name));
        let counter = CounterKeys::new(name, requests, channel);
        Self { counter, timeouts: names::permit_timeouts(name).into() }
    }

    fn keys(&self) -> &CounterKeys {
        &self.counter
    }

    fn is_for_a_cluster(name: &str) -> bool {
        !names::is_misread(name)
    }
}

impl Permitting for Expirable {
    type Wanted = Wanted;

    fn permits(wanted: Wanted) -> u32 {
        wanted.permits
    }

    fn acquire(&self, wanted: Wanted, request: &RequestArgs<'_>) -> Invocation {
        let args = [
            request.id.as_bytes().into(),
            wanted.lease.into(),
            request.not_after.into(),
            (&self.counter.channel).into(),
            Arg::Publish,
            u64::from(wanted.permits).into(),
        ];
        let permits = PermitId::of_request(request.id, wanted.permits).map(of_permit);
        self.call(&ACQUIRE, args.into_iter().chain(permits).chain(request.settled()))
    }

    fn withdraw(&self, id: &HoldId, wanted: Wanted, kept: u64) -> Invocation {
        let permits: Vec<_> = PermitId::of_request(id, wanted.permits).collect();
        let id = id.as_bytes().into();
        let args = self.release_args("".into(), id, kept, Return::Each, permits.len());
        self.call(&RELEASE, args.into_iter().chain(permits.into_iter().map(of_permit)))
    }
}

impl Expirable {
    fn call(&self, script: &'static Script, args: impl IntoIterator<Item = Arg>) -> Invocation {
        let CounterKeys { key, requests, .. } = &self.counter;
        let keys = [key.into(), requests.into(), (&self.timeouts).into()];
        Invocation { script, keys: 3, args: keys.into_iter().chain(args).collect() }
    }

    /// The key of the permits that are out.
    pub(crate) fn timeouts(&self) -> &[u8] {
        &self.timeouts
    }

    fn release_args(
        &self,
        id: Arg,
        withdrawn: Arg,
        kept: u64,
        which: Return,
        permits: usize,
    ) -> [Arg; 7] {
        let channel = (&self.counter.channel).into();
        let which = match which {
            Return::Each => "each",
            Return::AllOrNone => "all",
        };
        [id, withdrawn, kept.into(), channel, Arg::Publish, which.into(), (permits as u64).into()]
    }

    /// Returns permits. `withdrawn`: the acquisition of which a copy may still run. Whether all
    /// permits were out, [`done`](super::done) reads from the reply.
    pub(crate) fn release(
        &self,
        permits: &[PermitId],
        which: Return,
        withdrawn: Option<&HoldId>,
        request: &RequestArgs<'_>,
    ) -> Invocation {
        let withdrawn = withdrawn.map_or("".into(), |id| id.as_bytes().into());
        let id = request.id.as_bytes().into();
        let args = self.release_args(id, withdrawn, request.kept, which, permits.len());
        let permits = permits.iter().copied().map(of_permit);
        self.call(&RELEASE, args.into_iter().chain(permits).chain(request.settled()))
    }

    /// Changes the number of permits. The reply is read by [`done`](super::done).
    pub(crate) fn change(&self, change: Change, request: &RequestArgs<'_>) -> Invocation {
        let (number, how) = match change {
            Change::By(number) => (number, "by"),
            Change::To(number) => (number.into(), "to"),
        };
        let args = [
            request.id.as_bytes().into(),
            Arg::Bytes(number.to_string().into()),
            request.not_after.into(),
            request.kept.into(),
            (&self.counter.channel).into(),
            Arg::Publish,
            how.into(),
        ];
        self.call(&CHANGE, args.into_iter().chain(request.settled()))
    }

    /// Creates the semaphore. The permits that are out of an earlier one return to none.
    pub(crate) fn try_set(&self, permits: u32, request: &RequestArgs<'_>) -> Invocation {
        let mut call = self.counter.try_set(permits.into(), permits.into(), request);
        call.args.insert(call.keys, (&self.timeouts).into());
        call.keys += 1;
        call
    }

    /// Gives a permit another lease, in ms. The reply is read by [`done`](super::done).
    pub(crate) fn set_lease(&self, permit: PermitId, lease: u64, not_after: u64) -> Invocation {
        let args = vec![(&self.timeouts).into(), of_permit(permit), lease.into(), not_after.into()];
        Invocation { script: &SET_LEASE, keys: 1, args }
    }

    /// Asks when leases end. The reply is read by [`remaining`].
    pub(crate) fn remaining(&self, permits: &[PermitId]) -> Invocation {
        let permits = permits.iter().copied().map(of_permit);
        let args = std::iter::once((&self.timeouts).into()).chain(permits).collect();
        Invocation { script: &REMAINING, keys: 1, args }
    }

    /// Reads the state, and lists at most this many permits. The reply is read by [`stock`].
    pub(crate) fn inspect(&self, most: u64) -> Invocation {
        let args = vec![self.key().into(), (&self.timeouts).into(), most.into()];
        Invocation { script: &INSPECT, keys: 2, args }
    }

    /// How the permits of this request are renewed.
    pub(crate) fn renewal(&self, id: &HoldId, permits: &[PermitId]) -> Renew {
        let mut members = BytesMut::with_capacity(permits.len() * PermitId::LENGTH);
        permits.iter().for_each(|permit| members.put_slice(permit.as_bytes()));
        let members = Some(members.freeze());
        Renew { key: self.timeouts.clone(), id: id.clone(), members }
    }
}

fn of_permit(permit: PermitId) -> Arg {
    Arg::Bytes(Bytes::copy_from_slice(permit.as_bytes()))
}

/// Reads the reply to [`Expirable::remaining`].
pub(crate) fn remaining(reply: &Reply) -> Result<Vec<Left>, WireError> {
    let Reply::Array(parts) = reply else { return Err(unexpected(reply)) };
    let each = parts.iter().map(|part| part.as_int().map(Left::of));
    each.collect::<Option<_>>().ok_or_else(|| unexpected(reply))
}

/// Reads the reply to [`Expirable::inspect`]. Permits whose ids have another form are counted, but not
/// listed: very old versions of Redisson made such.
pub(crate) fn stock(reply: &Reply) -> Result<Stock, WireError> {
    let read = || {
        let Reply::Array(parts) = reply else { return None };
        let [free, out, rest @ ..] = &parts[..] else { return None };
        let mut permits = Vec::with_capacity(rest.len() / 2);
        for pair in rest.chunks(2) {
            let [Reply::Bytes(id), Reply::Int(ms)] = pair else { return None };
            permits.extend(PermitId::from_bytes(id).map(|id| (id, Left::of(*ms))));
        }
        Some(Stock { free: free.as_int()?, out: out.as_int()?.try_into().ok()?, permits })
    };
    match reply {
        Reply::Nil => Ok(Stock::default()),
        _ => read().ok_or_else(|| unexpected(reply)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_others_refused() {
        let array = |parts: &[Reply]| Reply::Array(parts.to_vec());
        let (int, id) = (Reply::Int, Reply::Bytes(Bytes::from_static(&[7; 16])));
        let ms = |n| Left::Time(Duration::from_millis(n));
        let left = remaining(&array(&[int(0), int(5), int(920_000_000_000_000)])).unwrap();
        assert_eq!(left, [Left::Nothing, ms(5), Left::Forever]);
        assert!(remaining(&int(1)).is_err() && remaining(&array(&[Reply::Nil])).is_err());
        assert_eq!(stock(&Reply::Nil).unwrap(), Stock::default());
        let old = Reply::Bytes("0707".into());
        let seen = stock(&array(&[int(-1), int(2), id.clone(), int(9), old, int(10)])).unwrap();
        let permits = vec![(PermitId::from_bytes(&[7; 16]).unwrap(), ms(9))];
        assert_eq!(seen, Stock { free: -1, out: 2, permits });
        for wrong in [int(1), array(&[int(1)]), array(&[int(1), int(1), id])] {
            assert!(stock(&wrong).is_err(), "{wrong:?}");
        }
    }
}
