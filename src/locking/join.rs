//! What a caller does with [`Sharing`](super::sharing): a reader [joins](join()) the hold of other local
//! readers, and a waiting [`Writer`] keeps new readers out.

use std::sync::Arc;

use tokio::time::Instant;

use super::{hold::Hold, registry::LockState, request::Request, share::Share, sharing::Entry};
use crate::observer::Outcome;

/// How an acquisition goes on.
#[derive(Debug)]
pub(crate) enum Joining {
    /// With a hold that others have too.
    Joined(Share),
    /// In line: a writer waits.
    KeptOut,
    /// With a hold of its own. `Some`: since then it has asked the server about the others' hold, and
    /// that time counts against its bounds.
    Alone(Option<Instant>),
}

/// Joins a hold that local readers share, if that needs no request.
pub(crate) fn join_at_once(lock: &Arc<LockState>, request: &Request) -> Option<Share> {
    let hold = lock.target.shares.then(|| lock.sharing().join_at_once(request)).flatten();
    hold.map(|hold| joined(lock, request, hold))
}

fn joined(lock: &Arc<LockState>, request: &Request, hold: Arc<Hold>) -> Share {
    request.granted(Outcome::Joined);
    Share::counted(lock.clone(), hold, true)
}

/// Joins a hold that local readers share, if there is one. `after_grant`: the one before it in line
/// was granted just now.
pub(crate) async fn join(lock: &Arc<LockState>, request: &Request, after_grant: bool) -> Joining {
    if !lock.target.shares {
        return Joining::Alone(None);
    }
    let (mut asked, mut since) = (false, None);
    loop {
        match lock.sharing().enter(request, after_grant) {
            Entry::Join(hold) => return Joining::Joined(joined(lock, request, hold)),
            Entry::KeptOut => return Joining::KeptOut,
            Entry::Ask(check) if !asked => {
                asked = true;
                let begun = Instant::now();
                let is_silent = check.ask().await.is_none();
                if is_silent || request.bounds.deadline().is_some() {
                    since = Some(begun);
                }
            }
            Entry::Ask(_) | Entry::Alone => return Joining::Alone(since),
        }
    }
}

/// A local caller that waits to write. While it lives no reader joins, but for a moment at its beginning.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    lock: &'a Arc<LockState>,
}

impl<'a> Writer<'a> {
    pub(crate) fn waits(lock: &'a Arc<LockState>) -> Self {
        lock.sharing().writer_waits();
        Self { lock }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.lock.sharing().writer_leaves();
        self.lock.nudge_readers();
    }
}
