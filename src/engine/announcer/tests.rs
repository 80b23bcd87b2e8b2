use super::*;
use crate::{
    config::Config,
    engine::scripted::Scripted,
    observer::LockKind,
    owner::{HoldId, Identity},
    wire::{Arg, Reply},
};

const WATCHDOG: Duration = Duration::from_secs(30);

fn announcer() -> Announcer {
    let config = Config::default().announce("orders").unwrap();
    let (_, settings) = config.into_settings().unwrap();
    Announcer::new("c", settings.about.clone().unwrap(), &settings)
}

fn lease(id: HoldId) -> Arc<Lease> {
    lease_of("l", id)
}

fn lease_of(lock: &str, id: HoldId) -> Arc<Lease> {
    let (_, settings) = Config::default().into_settings().unwrap();
    let protocol = LockKind::Reentrant.protocol(lock, &settings);
    let lease = Arc::new(Lease::new(&*protocol, id, Instant::now(), WATCHDOG, WATCHDOG, None));
    lease.add_share();
    lease
}

async fn tell(
    announcer: &Announcer,
    told: &mut Told,
    leases: &[Arc<Lease>],
    replies: impl IntoIterator<Item = Reply>,
) -> (Result<(), WireError>, Vec<Vec<String>>) {
    let scripted = Arc::new(Scripted::new(replies.into_iter().map(Ok)));
    let transport: Arc<dyn Transport> = scripted.clone();
    let done = announcer.tell(told, leases.to_vec(), &transport).await;
    let calls = scripted.calls.lock().unwrap();
    let text = |arg: &Arg| match arg {
        Arg::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Arg::Int(n) => n.to_string(),
        other => panic!("{other:?}"),
    };
    let calls = calls.iter().map(|(call, _)| call.args.iter().map(text).collect()).collect();
    (done, calls)
}

/// The arguments behind the key, not-after and TTL.
fn rest(call: &[String]) -> Vec<&str> {
    call[3..].iter().map(|arg| &**arg).collect()
}

#[tokio::test(start_paused = true)]
async fn only_changes_are_written() {
    let (announcer, mut told) = (announcer(), Told::default());
    let lease = lease(Identity::new().next());
    let held = [lease.clone()];
    let (done, calls) = tell(&announcer, &mut told, &held, [Reply::Int(1)]).await;
    assert!(done.is_ok());
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(rest(call)[..5], ["", "1", "0", "app", "orders"]);
    assert!(!call.iter().any(|arg| arg.starts_with("hold:")), "too young: {call:?}");

    tokio::time::advance(WATCHDOG / 3).await;
    lease.note("a note");
    let (_, calls) = tell(&announcer, &mut told, &held, [Reply::Int(1)]).await;
    assert_eq!(rest(&calls[0]), ["1", "2", "0", "hold:1:l", "0 a note"]);
    let (_, calls) = tell(&announcer, &mut told, &held, [Reply::Int(1)]).await;
    assert_eq!(rest(&calls[0]), ["2", "3", "0"]);
    lease.note("another");
    let (_, calls) = tell(&announcer, &mut told, &held, [Reply::Int(1)]).await;
    assert_eq!(rest(&calls[0]), ["3", "4", "0", "hold:1:l", "0 another"]);
    lease.end(Instant::now());
    let (_, calls) = tell(&announcer, &mut told, &held, [Reply::Int(1)]).await;
    assert_eq!(rest(&calls[0]), ["4", "5", "1", "hold:1:l"]);
    assert!(told.holds.is_empty());
}

#[tokio::test(start_paused = true)]
async fn everything_is_written_again_where_another_revision_is_found() {
    let (announcer, mut told) = (announcer(), Told::default());
    let held = [lease(Identity::new().next())];
    tokio::time::advance(WATCHDOG / 3).await;
    let (done, _) = tell(&announcer, &mut told, &held, [Reply::Int(1)]).await;
    assert!(done.is_ok());
    let (done, calls) = tell(&announcer, &mut told, &held, [Reply::Int(0), Reply::Int(1)]).await;
    assert!(done.is_ok());
    let [change, whole] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(rest(change), ["1", "2", "0"]);
    assert_eq!(rest(whole)[..2], ["", "3"]);
    assert!(whole.contains(&"hold:1:l".to_owned()), "{whole:?}");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_came_too_late_is_sent_again_by_the_new_clock() {
    let (announcer, mut told) = (announcer(), Told::default());
    let late = Reply::Array(vec![Reply::Int(7)]);
    let (done, calls) = tell(&announcer, &mut told, &[], [late.clone(), Reply::Int(1)]).await;
    assert!(done.is_ok() && told.is_known);
    assert_eq!((rest(&calls[0])[0], rest(&calls[1])[0]), ("", ""));
    let (done, calls) = tell(&announcer, &mut told, &[], [late.clone(), late]).await;
    assert!(done.is_err());
    assert_eq!(rest(&calls[0])[0], rest(&calls[1])[0]);
}

#[tokio::test(start_paused = true)]
async fn many_holds_go_in_batches_and_their_number_has_an_end() {
    let (announcer, mut told) = (announcer(), Told::default());
    let identity = Identity::new();
    let held: Vec<_> = (0..MOST_HOLDS + 500).map(|_| lease(identity.next())).collect();
    tokio::time::advance(WATCHDOG / 3).await;
    let ok = || std::iter::repeat_n(Reply::Int(1), MOST_HOLDS);
    let (_, calls) = tell(&announcer, &mut told, &held, ok()).await;
    assert_eq!(calls.len(), MOST_HOLDS / BATCH);
    assert!(calls.iter().all(|call| call.len() <= 6 + 2 * (BATCH + 6)));
    assert_eq!(told.holds.len(), MOST_HOLDS);
    let (_, calls) = tell(&announcer, &mut told, &held, ok()).await;
    assert_eq!(calls.len(), 1);
    // Those that could not be announced take the places of those that have ended.
    let (_, calls) = tell(&announcer, &mut told, &held[300..], ok()).await;
    assert_eq!((calls.len(), told.holds.len()), (6, MOST_HOLDS));
    let (_, calls) = tell(&announcer, &mut told, &[], ok()).await;
    assert_eq!((calls.len(), told.holds.len()), (MOST_HOLDS / BATCH, 0));
}

#[tokio::test(start_paused = true)]
async fn a_hold_of_a_lock_with_a_long_name_is_not_announced() {
    let (announcer, mut told) = (announcer(), Told::default());
    let identity = Identity::new();
    let held = [LONGEST_NAME, LONGEST_NAME + 1]
        .map(|length| lease_of(&"l".repeat(length), identity.next()));
    tokio::time::advance(WATCHDOG / 2).await;
    let (done, calls) = tell(&announcer, &mut told, &held, [Reply::Int(1)]).await;
    assert!(done.is_ok());
    let holds = calls.iter().flatten().filter(|arg| arg.starts_with("hold:")).count();
    assert_eq!((holds, told.holds.len()), (1, 1));
}
