use std::sync::LazyLock;

use super::*;
use crate::{config::Config, engine::scripted::Scripted, observer::LockKind, owner::Identity};

const LEASE: Duration = Duration::from_secs(30);

static ME: LazyLock<Identity> = LazyLock::new(Identity::new);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn hold_of(kind: LockKind, due: Instant) -> Arc<Lease> {
    let (_, settings) = Config::default().into_settings().unwrap();
    let protocol = kind.protocol("l", &settings);
    let hold = Lease::new(&*protocol, ME.next(), Instant::now(), LEASE, LEASE, None);
    hold.watch(due);
    Arc::new(hold)
}

fn hold_due(due: Instant) -> Arc<Lease> {
    hold_of(LockKind::Reentrant, due)
}

fn watchdog() -> Arc<Watchdog> {
    Arc::new(Watchdog::new(LEASE, Duration::from_secs(3)))
}

fn renewal(transport: &Arc<Scripted>, quota: Arc<Semaphore>) -> Renewal {
    Renewal { watchdog: watchdog(), transport: transport.clone(), quota }
}

/// What became of a hold.
#[derive(Debug, PartialEq)]
enum Became {
    Renewed,
    /// Due again soon.
    PutOff,
    Lost(Loss),
}

/// Renews so many holds with these replies.
async fn renew_with<const N: usize>(
    kind: LockKind,
    replies: impl IntoIterator<Item = Result<Reply, WireError>>,
) -> ([Became; N], Vec<usize>) {
    let transport = Arc::new(Scripted::new(replies));
    let now = Instant::now();
    let holds: [_; N] = std::array::from_fn(|_| hold_of(kind, now));
    let due = holds.iter().map(|hold| {
        hold.schedule(now).unwrap();
        let Check::Renew(to) = hold.check(now, now) else { panic!("it is due") };
        (hold.clone(), to)
    });
    renewal(&transport, Arc::new(Semaphore::new(BATCH))).run(due.collect()).await;
    let now = Instant::now();
    let became = holds.map(|hold| match (hold.loss(), hold.schedule(now)) {
        (Some(loss), _) => Became::Lost(loss),
        (None, Some(at)) if at == now + LEASE / 30 => Became::PutOff,
        (None, Some(at)) if at > now + LEASE / 4 => Became::Renewed,
        (None, at) => panic!("{at:?}"),
    });
    assert!(transport.replies.lock().unwrap().is_empty(), "all replies were wanted");
    (became, transport.keys())
}

fn answers(each: impl IntoIterator<Item = i64>) -> Result<Reply, WireError> {
    Ok(Reply::Array(each.into_iter().map(Reply::Int).collect()))
}

fn apart() -> Result<Reply, WireError> {
    Ok(Reply::Array(vec![Reply::Bytes("TRYAGAIN multiple keys".into())]))
}

#[test]
fn checks_are_frequent_and_an_unanswered_renewal_leaves_time_for_another() {
    let times = |lease, command| {
        let watchdog = Watchdog::new(lease, command);
        (watchdog.tick, watchdog.timeout)
    };
    assert_eq!(times(LEASE, ms(3_000)), (ms(250), ms(3_000)));
    assert_eq!(times(LEASE, ms(30_000)), (ms(250), LEASE / 8));
    assert_eq!(times(ms(12_000), ms(3_000)), (ms(100), ms(1_500)));
    assert_eq!(times(ms(100), ms(3_000)).0, ms(5));
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_along_what_is_due_soon_and_nothing_else() {
    let (now, watchdog) = (Instant::now(), watchdog());
    let holds = [8_000, 9_900, 10_100].map(|due| hold_due(now + ms(due)));
    holds.iter().for_each(|hold| watchdog.add(hold));
    assert!(watchdog.due().is_empty());
    tokio::time::advance(ms(7_750)).await;
    assert!(watchdog.due().is_empty(), "nothing is due, so nothing is taken along");
    tokio::time::advance(ms(250)).await;
    let due = watchdog.due();
    assert_eq!(due.len(), 2, "{due:?}");
    assert!(due.iter().all(|(hold, to)| !Arc::ptr_eq(hold, &holds[2]) && *to == LEASE));
    assert!(watchdog.due().is_empty(), "they are under way");
}

#[tokio::test(start_paused = true)]
async fn what_is_due_soon_fills_a_batch_that_is_sent_anyway() {
    for (at_once, soon, taken) in [(150, 200, 200), (100, 50, 100), (1, 20, 21)] {
        let (now, watchdog) = (Instant::now(), watchdog());
        let holds: Vec<_> = (0..at_once).map(|_| hold_due(now)).collect();
        let others: Vec<_> = (0..soon).map(|_| hold_due(now + ms(1_500))).collect();
        holds.iter().chain(&others).for_each(|hold| watchdog.add(hold));
        let due = watchdog.due();
        assert_eq!(due.len(), taken);
        let is_due = |hold| due.iter().any(|(due, _)| Arc::ptr_eq(due, hold));
        assert!(holds.iter().all(is_due), "those that are due come first");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_closes_tells_those_it_knows_and_no_one_who_has_released() {
    let (now, watchdog) = (Instant::now(), watchdog());
    let holds: [_; 4] = std::array::from_fn(|_| hold_due(now + LEASE / 4));
    let [known, released, fresh, removed] = &holds;
    watchdog.add(known);
    watchdog.add(released);
    watchdog.due();
    watchdog.add(fresh);
    watchdog.add(removed);
    watchdog.remove(removed);
    for hold in [known, fresh, removed] {
        hold.set_shares(1);
    }
    watchdog.close();
    let closed = Some(Loss::Closed);
    assert_eq!(holds.map(|hold| hold.loss()), [closed, None, closed, None]);
}

#[tokio::test(start_paused = true)]
async fn each_hold_of_a_batch_has_its_own_answer() {
    let (became, calls) = renew_with(LockKind::Reentrant, [answers([1, 0, -1])]).await;
    assert_eq!(became, [Became::Renewed, Became::Lost(Loss::Removed), Became::Lost(Loss::Taken)]);
    assert_eq!(calls, [3]);
    let mixed = Reply::Array(vec![Reply::Bytes("OOM no memory".into()), Reply::Int(1)]);
    let (became, calls) = renew_with(LockKind::Reentrant, [Ok(mixed)]).await;
    assert_eq!((became, calls), ([Became::PutOff, Became::Renewed], vec![2]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_refused_is_sent_hold_by_hold() {
    let refused = || Err(WireError::from_server("NOPERM"));
    let replies = [refused(), answers([1]), refused(), answers([1])];
    let (became, calls) = renew_with(LockKind::Reentrant, replies).await;
    assert_eq!(became, [Became::Renewed, Became::PutOff, Became::Renewed]);
    assert_eq!(calls, [3, 1, 1, 1]);
    let (became, calls) = renew_with(LockKind::Reentrant, [refused()]).await;
    assert_eq!((became, calls), ([Became::PutOff], vec![1]), "one alone is not sent twice");
    let too_few = [answers([1]), answers([1]), answers([1])];
    let (became, calls) = renew_with(LockKind::Reentrant, too_few).await;
    assert_eq!((became, calls), ([Became::Renewed, Became::Renewed], vec![2, 1, 1]));
}

#[tokio::test(start_paused = true)]
async fn a_batch_whose_slot_moves_is_sent_hold_by_hold_and_no_other_that_may_succeed_later() {
    let not_now = |text: &str| Err(WireError::from_server(text));
    let replies = [not_now("TRYAGAIN multiple keys"), answers([1]), answers([1])];
    let (became, calls) = renew_with(LockKind::Reentrant, replies).await;
    assert_eq!((became, calls), ([Became::Renewed, Became::Renewed], vec![2, 1, 1]));
    let (became, calls) = renew_with(LockKind::Reentrant, [not_now("LOADING")]).await;
    assert_eq!((became, calls), ([Became::PutOff, Became::PutOff], vec![2]));
}

#[tokio::test(start_paused = true)]
async fn a_read_whose_keys_are_on_two_servers_is_renewed_on_both() {
    let one = |n| Ok(Reply::Int(n));
    let (became, calls) = renew_with(LockKind::Read, [apart(), answers([1]), one(1)]).await;
    assert_eq!((became, calls), ([Became::Renewed], vec![2, 1, 1]));
    let (became, _) = renew_with(LockKind::Read, [apart(), answers([1]), one(0)]).await;
    assert_eq!(became, [Became::PutOff], "the key beside it may be on its way");
    let (became, calls) = renew_with(LockKind::Read, [apart(), answers([0])]).await;
    assert_eq!((became, calls), ([Became::Lost(Loss::Removed)], vec![2, 1]));
    let (became, _) = renew_with(LockKind::Read, [apart(), apart()]).await;
    assert_eq!(became, [Became::PutOff]);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_without_an_answer_is_given_up_in_time() {
    let begun = Instant::now();
    let (became, calls) = renew_with(LockKind::Reentrant, []).await;
    assert_eq!((became, calls), ([Became::PutOff, Became::PutOff], vec![2]));
    assert!((ms(3_000)..ms(3_010)).contains(&begun.elapsed()), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_renewal_waits_for_its_turn_and_renews_no_hold_that_was_lost_or_given_up_meanwhile() {
    let ends: [fn(&Lease); 2] = [|hold| hold.lose(Loss::Removed), |hold| hold.end(Instant::now())];
    for end in ends {
        let (now, quota) = (Instant::now(), Arc::new(Semaphore::new(2)));
        let transport = Arc::new(Scripted::new([answers([1])]));
        let taken = quota.clone().acquire_many_owned(1).await.unwrap();
        let holds = [hold_due(now), hold_due(now)];
        let batch = holds.each_ref().map(|hold| (hold.clone(), LEASE)).to_vec();
        let renewed = renewal(&transport, quota.clone()).run(batch);
        let meanwhile = async {
            tokio::time::sleep(ms(100)).await;
            assert!(transport.keys().is_empty());
            end(&holds[0]);
            drop(taken);
        };
        tokio::join!(renewed, meanwhile);
        assert_eq!(transport.keys(), [1]);
        assert_eq!(quota.available_permits(), 2);
    }
}

/// Else three such calls in a row replace the connections, to a server that is well.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_had_its_turn_late_says_nothing_about_the_server() {
    for (turn_after, given_up) in [(0, 1), (1_000, 1), (2_000, 0), (2_999, 0)] {
        let quota = Arc::new(Semaphore::new(1));
        let transport = Arc::new(Scripted::default());
        let taken = quota.clone().acquire_many_owned(1).await.unwrap();
        let batch = vec![(hold_due(Instant::now()), LEASE)];
        let renewed = renewal(&transport, quota.clone()).run(batch);
        let others = async {
            tokio::time::sleep(ms(turn_after)).await;
            drop(taken);
        };
        tokio::join!(renewed, others);
        assert_eq!(transport.keys(), [1]);
        assert_eq!(*transport.given_up.lock().unwrap(), given_up, "a turn after {turn_after} ms");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_renews_holds_of_one_script_and_the_quota_is_kept_while_it_is_under_way() {
    let (now, watchdog) = (Instant::now(), watchdog());
    let scripted = Arc::new(Scripted::default());
    let transport: Arc<dyn Transport> = scripted.clone();
    let kinds = [
        LockKind::Reentrant,
        LockKind::Read,
        LockKind::Reentrant,
        LockKind::Read,
        LockKind::Reentrant,
    ];
    let holds = kinds.map(|kind| hold_of(kind, now));
    holds.iter().for_each(|hold| watchdog.add(hold));
    watchdog.tick(&transport);
    tokio::time::sleep(ms(1)).await;
    let mut keys = scripted.keys();
    keys.sort_unstable();
    assert_eq!(keys, [3, 4], "three holds of one key, and two of two");
    watchdog.tick(&transport);
    assert_eq!(watchdog.quota.len(), 1, "one server");
    let quota = watchdog.quota.get(&0).map(|quota| quota.available_permits());
    assert_eq!(quota, Some(4 * BATCH - holds.len()));
    tokio::time::sleep(ms(3_500)).await;
    drop(holds);
    watchdog.tick(&transport);
    assert_eq!(watchdog.quota.len(), 0, "nothing is under way");
}

/// It is in memory until then.
#[tokio::test(start_paused = true)]
async fn a_hold_that_ends_is_forgotten_long_before_a_long_watchdog() {
    const DAY: Duration = Duration::from_secs(86_400);
    let (_, settings) = Config::default().into_settings().unwrap();
    let protocol = LockKind::Reentrant.protocol("l", &settings);
    let now = Instant::now();
    let hold = Lease::new(&*protocol, ME.next(), now, DAY, DAY, None);
    hold.watch(now + DAY / 3);
    let looked_at = hold.schedule(now).expect("a check");
    assert!(looked_at <= now + Duration::from_secs(60), "{:?}", looked_at - now);
}
