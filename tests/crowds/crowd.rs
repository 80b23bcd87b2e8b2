//! The owners of a crowd, and their observations.

use std::{sync::OnceLock, thread::available_parallelism, time::Duration};

use harness::{Answer, Lang, Peer, PeerArgs};
use tokio::sync::{Semaphore, SemaphorePermit};

/// More than anything takes here, on a busy machine and behind somebody dead.
pub(crate) const LIMIT: Duration = Duration::from_secs(90);

/// A place on this machine. There are as many as cores, for a crowd computes where other tests wait. A test holds one while
/// its crowd is there.
pub(crate) async fn place() -> SemaphorePermit<'static> {
    static PLACES: OnceLock<Semaphore> = OnceLock::new();
    let places = PLACES
        .get_or_init(|| Semaphore::new(available_parallelism().map_or(2, |cores| cores.get())));
    places.acquire().await.expect("places are never closed")
}

pub(crate) async fn peer(lang: Lang, args: &PeerArgs) -> Peer {
    Peer::spawn(lang, args).await.unwrap_or_else(|error| panic!("{lang}: {error}"))
}

/// When an operation was begun, in µs since 1970, by the one clock of this machine.
pub(crate) fn begun(answer: &Answer) -> u64 {
    answer.at - answer.us
}
