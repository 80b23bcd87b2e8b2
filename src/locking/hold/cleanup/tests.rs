use super::*;
use crate::{
    engine::scripted::{Scripted, engine},
    observer::LockKind,
    wire::{Reply, WireError},
};

const LEASE: Duration = Duration::from_secs(30);

/// Sweeps for a copy that may take a lock until the server's time is 1 000, on a server that says these
/// times. Returns how long that took, how many of the times were not asked for, and how often it was undone.
async fn swept(
    times: impl IntoIterator<Item = Result<u64, WireError>>,
) -> (Duration, usize, usize) {
    let transport = Scripted::new([Ok(Reply::Int(0))]);
    transport.times.lock().unwrap().extend(times);
    let transport = Arc::new(transport);
    let engine = engine(&transport);
    let protocol = LockKind::Reentrant.protocol("lock", &engine.settings).into();
    let id = engine.identity.next();
    let target = Arc::new(Target::new(engine, protocol, LockKind::Reentrant, Arc::default()));
    let begun = Instant::now();
    sweep(target, id, LEASE, 1_000).await;
    let left = transport.times.lock().unwrap().len();
    (begun.elapsed(), left, transport.calls.lock().unwrap().len())
}

fn unanswered() -> Result<u64, WireError> {
    Err(WireError::unanswered("no answer"))
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_undone_when_the_server_does_not_take_it_any_more_and_not_before() {
    assert_eq!(swept([Ok(1_001)]).await, (Duration::ZERO, 0, 1));
    // At its last moment it may still be taken.
    let (took, left, undone) = swept([Ok(500), Ok(1_000), Ok(1_001), Ok(1_002)]).await;
    assert_eq!((took, left, undone), (Duration::from_millis(502), 1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_undone_after_its_lease_though_the_server_says_that_it_is_too_early() {
    // The default of `Config::command_timeout`.
    let most = Duration::from_secs(3) + LEASE;
    let (took, _, undone) = swept((0..100).map(|_| Ok(0))).await;
    assert_eq!((took, undone), (most, 1), "the clock was set back");
    let (took, _, undone) = swept((0..100).map(|_| unanswered())).await;
    assert_eq!((took, undone), (most, 0), "a server that is away frees it by itself");
    let times = std::iter::once(Ok(0)).chain((0..100).map(|_| unanswered()));
    assert_eq!(swept(times).await.2, 0);
}
