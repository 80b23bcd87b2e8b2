//! The owners of a crowd, and their observations.

use std::time::Duration;

use harness::{Answer, Lang, Peer, PeerArgs};

/// More than anything takes here, on a busy machine and behind somebody dead.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

pub(crate) async fn peer(lang: Lang, args: &PeerArgs) -> Peer {
    Peer::spawn(lang, args).await.unwrap_or_else(|error| panic!("{lang}: {error}"))
}

/// When an operation was begun, in µs since 1970, by the one clock of this machine.
pub(crate) fn begun(answer: &Answer) -> u64 {
    answer.at - answer.us
}
