use std::{
    convert::Infallible,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::time::Instant;

use super::{
    Awaited, LocalLine,
    head::{Entered, Head, Next, SHORTEST_PAUSE},
    waiter::{WaitWarnings, Waiter},
};
use crate::{
    engine::{Backoff, Subscriptions},
    error::Error,
    options::Replicas,
    protocol::Order,
    wire::Event,
};

/// A lock of which nobody here ever has a hold to leave.
#[derive(Clone)]
pub(super) struct Remote {
    pub(super) line: Arc<LocalLine>,
    subscriptions: Arc<Subscriptions>,
    pub(super) emptied: Arc<AtomicBool>,
    /// How many holds somebody here has.
    pub(super) holds: usize,
}

impl Remote {
    pub(super) fn new() -> Self {
        let subscriptions = Subscriptions::new();
        Self { line: Arc::default(), subscriptions, emptied: Arc::default(), holds: 0 }
    }
}

impl Awaited for Remote {
    type Offer = Infallible;

    fn line(&self) -> &LocalLine {
        &self.line
    }

    fn name(&self) -> &str {
        "remote"
    }

    fn holds_here(&self) -> usize {
        self.holds
    }

    fn subscriptions(&self) -> &Arc<Subscriptions> {
        &self.subscriptions
    }

    fn check_open(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn closing(&self) -> Error {
        pending().await
    }

    fn start_minder(&self) {}

    fn take_offer(&self) -> Option<Infallible> {
        None
    }

    fn is_offered(&self) -> bool {
        false
    }

    fn may_be_offered(&self) -> bool {
        false
    }

    fn yields_until(&self, _: Option<u64>) -> Option<Instant> {
        None
    }

    fn emptied(&self) {
        self.emptied.store(true, Ordering::Relaxed);
    }
}

pub(super) fn waiter(order: Order) -> Waiter<'static> {
    Waiter {
        deadline: None,
        lease: Duration::from_secs(30),
        replicas: Replicas::None,
        order,
        channel: Some("c".into()),
        polls: false,
        pauses: Backoff::new(),
        first_pause: Duration::from_millis(1),
        retry_timeout: Duration::from_secs(3),
        seen_held: false,
        warnings: WaitWarnings::new(),
    }
}

pub(super) async fn enter(lock: &Remote) -> Result<Entered<'_, Remote>, Box<Error>> {
    Head::enter(lock, &waiter(Order::Local)).await
}

pub(super) async fn head(lock: &Remote) -> Head<'_, Remote> {
    match enter(lock).await {
        Ok(Entered::Head(head)) => head,
        other => panic!("not the head, but {:?}", other.map(|_| ())),
    }
}

#[tokio::test(start_paused = true)]
async fn waiters_are_served_in_order_and_a_cancelled_one_is_passed_over() {
    let lock = Remote::new();
    let first = head(&lock).await;
    let mut second = Box::pin(enter(&lock));
    let mut third = Box::pin(enter(&lock));
    assert!((&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    drop(second);
    drop(first);
    assert!(!lock.emptied.load(Ordering::Relaxed));
    assert!(third.now_or_never().is_some());
    assert!(lock.line.is_empty());
    assert!(lock.emptied.load(Ordering::Relaxed));
}

#[tokio::test(start_paused = true)]
async fn the_last_to_leave_gives_the_subscription_back() {
    let lock = Remote::new();
    let mut first = head(&lock).await;
    first.subscribe("c").await;
    let mut second = Box::pin(enter(&lock));
    assert!((&mut second).now_or_never().is_none());
    drop(first);
    assert!(lock.subscriptions.is_subscribed("c"), "kept for the next");
    drop(second);
    assert!(!lock.subscriptions.is_subscribed("c"));
}

#[tokio::test(start_paused = true)]
async fn a_message_the_head_did_not_follow_wakes_the_next() {
    let lock = Remote::new();
    let mut first = head(&lock).await;
    let mut second = Box::pin(enter(&lock));
    assert!((&mut second).now_or_never().is_none());
    first.subscribe("c").await;
    first.arm();
    first.held_for(None, None);
    assert!(!first.is_due());
    lock.subscriptions.on_event(Event::Message("c".into()));
    drop(first);
    let Ok(Entered::Head(second)) = second.await else { panic!("not the head") };
    assert!(second.is_due());
}

#[tokio::test(start_paused = true)]
async fn a_dead_server_is_found_out_once_for_all_who_wait() {
    let lock = Remote::new();
    let mut first = head(&lock).await;
    let mut waiter = waiter(Order::Local);
    assert!(matches!(first.next(&mut waiter).await, Ok(Next::Ask)));
    let mut second = Box::pin(enter(&lock));
    assert!((&mut second).now_or_never().is_none());
    tokio::time::advance(Duration::from_secs(10)).await;
    first.failed(&Error::timed_out(), &waiter);
    drop(first);
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(matches!(second.await, Err(error) if matches!(*error, Error::Redis(_))));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(enter(&lock).await.is_ok(), "a later one tries for itself");
}

#[tokio::test(start_paused = true)]
async fn a_ttl_of_zero_is_no_reason_to_spin() {
    let lock = Remote::new();
    let mut head = head(&lock).await;
    head.held_for(Some(Duration::ZERO), None);
    assert!(!head.is_due());
    let begun = Instant::now();
    head.news().await;
    assert!(begun.elapsed() >= SHORTEST_PAUSE);
}

#[tokio::test(start_paused = true)]
async fn once_the_line_is_open_all_who_waited_may_try_and_newcomers_wait() {
    let lock = Remote::new();
    let mut first = head(&lock).await;
    let mut second = Box::pin(enter(&lock));
    let mut third = Box::pin(enter(&lock));
    assert!((&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    tokio::time::advance(Duration::from_millis(1)).await;
    first.granted(&mut waiter(Order::Shared));
    drop(first);
    assert!(matches!(second.await, Ok(Entered::Opened)));
    assert!(matches!(third.await, Ok(Entered::Opened)));
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(matches!(enter(&lock).await, Ok(Entered::Head(_))));
}

/// Whether the server has answered since, or nobody has asked.
#[tokio::test(start_paused = true)]
async fn a_failure_of_long_ago_fails_nobody() {
    for (later, answers) in [(Duration::from_secs(1), true), (Duration::from_secs(3600), false)] {
        let lock = Remote::new();
        let mut first = head(&lock).await;
        let mut asking = waiter(Order::Local);
        assert!(matches!(first.next(&mut asking).await, Ok(Next::Ask)));
        // It stands in line when the server is found dead, but is not polled, and is put out.
        let mut unpolled = Box::pin(enter(&lock));
        assert!((&mut unpolled).now_or_never().is_none());
        tokio::time::advance(Duration::from_secs(10)).await;
        first.failed(&Error::timed_out(), &asking);
        drop(first);
        tokio::time::advance(later).await;
        let between = Box::pin(enter(&lock));
        while !lock.line.fifo.tick(false).put_out {}
        let Ok(Entered::Head(mut between)) = between.await else { panic!("not the head") };
        assert!((&mut unpolled).now_or_never().is_none(), "it stands in line anew");
        if answers {
            let mut asking = waiter(Order::Local);
            assert!(matches!(between.next(&mut asking).await, Ok(Next::Ask)));
            between.granted(&mut asking);
        }
        drop(between);
        let entered = unpolled.await;
        assert!(matches!(entered, Ok(Entered::Head(_))), "failed by what was {later:?} ago");
    }
}

#[tokio::test(start_paused = true)]
async fn no_subscription_is_left_when_the_last_is_put_out() {
    let lock = Remote::new();
    let mut first = head(&lock).await;
    {
        let subscribing = first.subscribe("c");
        tokio::pin!(subscribing);
        assert!((&mut subscribing).now_or_never().is_none());
    }
    let mut unpolled = Box::pin(enter(&lock));
    assert!((&mut unpolled).now_or_never().is_none());
    drop(first);
    assert!(lock.subscriptions.is_subscribed("c"));
    while !lock.line.fifo.tick(false).put_out {}
    drop(unpolled);
    assert!(lock.line.is_empty());
    assert!(!lock.subscriptions.is_subscribed("c"), "still subscribed, and nobody waits");
}

/// They need replicas, and one between them does not.
#[tokio::test(start_paused = true)]
async fn a_failure_that_an_answer_followed_fails_nobody_who_waited_meanwhile() {
    let lock = Remote::new();
    let [mut strict, other] =
        [(); 2].map(|()| Waiter { replicas: Replicas::AtLeast(1), ..waiter(Order::Local) });
    let Ok(Entered::Head(mut first)) = Head::enter(&lock, &strict).await else {
        panic!("not the head")
    };
    assert!(matches!(first.next(&mut strict).await, Ok(Next::Ask)));
    let (mut second, mut third) = (Box::pin(enter(&lock)), Box::pin(Head::enter(&lock, &other)));
    assert!((&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    tokio::time::advance(Duration::from_millis(1)).await;
    first.failed(&Error::NotReplicated { acknowledged: 0, needed: 1 }, &strict);
    drop(first);
    let Ok(Entered::Head(mut second)) = second.await else { panic!("not the head") };
    let mut asking = waiter(Order::Local);
    assert!(matches!(second.next(&mut asking).await, Ok(Next::Ask)));
    second.held(None, &mut asking);
    drop(second);
    assert!(matches!(third.await, Ok(Entered::Head(_))), "failed by what was before");
}

/// One of this client has it for a whole lease.
#[tokio::test(start_paused = true)]
async fn the_next_does_not_ask_for_what_the_one_before_has_just_been_granted() {
    let lock = Remote::new();
    let mut first = head(&lock).await;
    let mut second = Box::pin(enter(&lock));
    assert!((&mut second).now_or_never().is_none());
    first.granted(&mut waiter(Order::Local));
    drop(first);
    let Ok(Entered::Head(second)) = second.await else { panic!("not the head") };
    tokio::time::advance(Duration::from_millis(100)).await;
    assert!(!second.is_due());
    // It is not subscribed, and polls.
    tokio::time::advance(Duration::from_millis(150)).await;
    assert!(second.is_due());
}
