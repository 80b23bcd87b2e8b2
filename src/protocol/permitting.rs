//! [`Permitting`]: what the protocols of the semaphore and the expirable semaphore have in common.

use std::time::Duration;

use super::{
    counting::{Countable, RequestArgs},
    replies::{Timely, late},
};
use crate::{
    owner::HoldId,
    wire::{Invocation, Reply, WireError},
};

/// A counter from which callers take permits.
pub(crate) trait Permitting: Countable {
    /// What a request takes. All its copies take the same.
    type Wanted: Copy + Send + Sync + 'static;

    fn permits(wanted: Self::Wanted) -> u32;

    /// Takes permits, if there are enough. The reply is read by [`taken`].
    fn acquire(&self, wanted: Self::Wanted, request: &RequestArgs<'_>) -> Invocation;

    /// Undoes what a request with this id took, and may still take. `kept` is in ms. The reply is
    /// read by [`cancelled`](super::cancelled).
    fn withdraw(&self, id: &HoldId, wanted: Self::Wanted, kept: u64) -> Invocation;
}

/// The server's answer to a request for permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    /// Whether the caller has them now.
    pub(crate) granted: bool,
    /// How many permits are free. It may be negative.
    pub(crate) free: i64,
    /// After this time, a lease ends, and a permit may be free. `None`: as far as known, none ends.
    pub(crate) next_end: Option<Duration>,
}

impl Taken {
    /// Whether replicas have something to confirm after this reply.
    pub(crate) fn needs_confirmation(reply: &Reply) -> bool {
        matches!(reply, Reply::Array(parts) if (2..=3).contains(&parts.len()) && parts[0] == Reply::Int(1))
    }
}

/// Reads the reply to [`Permitting::acquire`].
pub(crate) fn taken(reply: Reply) -> Result<Timely<Taken>, WireError> {
    let answer = match &reply {
        Reply::Array(parts) => match parts[..] {
            [Reply::Int(granted @ 0..=1), Reply::Int(free)] => {
                Some(Taken { granted: granted == 1, free, next_end: None })
            }
            [Reply::Int(granted @ 0..=1), Reply::Int(free), Reply::Int(ms)] => {
                let next_end = u64::try_from(ms).ok().map(Duration::from_millis);
                Some(Taken { granted: granted == 1, free, next_end })
            }
            _ => None,
        },
        _ => None,
    };
    match answer {
        Some(answer) => Ok(Timely::InTime(answer)),
        None => late(&reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_and_others_refused() {
        let of = |parts: &[i64]| Reply::Array(parts.iter().copied().map(Reply::Int).collect());
        let answer = |granted, free, ms: Option<u64>| {
            let next_end = ms.map(Duration::from_millis);
            Timely::InTime(Taken { granted, free, next_end })
        };
        assert_eq!(taken(of(&[1, 4])).unwrap(), answer(true, 4, None));
        assert_eq!(taken(of(&[0, -2])).unwrap(), answer(false, -2, None));
        assert_eq!(taken(of(&[0, 1, 70])).unwrap(), answer(false, 1, Some(70)));
        assert_eq!(taken(of(&[0, 1, -1])).unwrap(), answer(false, 1, None));
        assert_eq!(taken(of(&[1, 0, 5])).unwrap(), answer(true, 0, Some(5)));
        assert_eq!(taken(of(&[7])).unwrap(), Timely::Late(7));
        for wrong in [Reply::Int(1), of(&[2, 0]), of(&[2, 0, 5]), of(&[])] {
            assert!(taken(wrong).is_err());
        }
        assert!(Taken::needs_confirmation(&of(&[1, 0])));
        assert!(Taken::needs_confirmation(&of(&[1, 0, 5])));
        assert!(!Taken::needs_confirmation(&of(&[0, 1])));
        assert!(!Taken::needs_confirmation(&of(&[0, 1, 5])));
    }
}
