use std::{sync::Mutex, time::Duration};

use futures::{FutureExt, future::LocalBoxFuture};
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;
use crate::{
    engine::{
        lifecycle::Lifecycle,
        scripted::Scripted,
        subscriptions::{NOBODY, task::run},
    },
    runtime::ClientRuntime,
    wire::Event,
};

#[tokio::test(start_paused = true)]
async fn the_refusal_of_one_channel_does_not_affect_the_others() {
    let transport = Arc::new(Scripted { refused: vec!["c"], ..Scripted::default() });
    let subscriptions = Subscriptions::new();
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let mut subscribed = names.map(|name| subscriptions.subscribe(name));
    let touched = names.map(str::to_owned).to_vec();
    let as_transport: Arc<dyn Transport> = transport.clone();
    let settled = settle(&subscriptions, &as_transport, touched.clone(), 1).await;
    assert!(matches!(settled, Err(WireError::Refused(_))));
    for subscription in &mut subscribed {
        subscription.ready().await;
        assert_eq!(subscription.is_confirmed(), subscription.name != "c", "{}", subscription.name);
    }
    assert_eq!(*transport.subscribed.lock().unwrap(), [8, 4, 2, 2, 1, 1, 4]);
    let by = |name: &str| subscriptions.subscribed.get(name).map(|by| *by);
    assert!(names.iter().all(|name| by(name) == Some(if *name == "c" { NOBODY } else { 1 })));
    let again = settle(&subscriptions, &as_transport, vec!["a".to_owned()], 1).await;
    assert!(again.is_ok() && transport.subscribed.lock().unwrap().len() == 7, "it is subscribed");
    let by_another = settle(&subscriptions, &as_transport, vec!["a".to_owned()], 2).await;
    assert!(by_another.is_ok() && transport.subscribed.lock().unwrap().len() == 8);
}

#[tokio::test]
async fn an_unsubscription_is_repeated_after_an_error_that_passes() {
    let answers = ["BUSY Redis is busy", "NOPERM"].map(|text| Err(WireError::from_server(text)));
    let transport =
        Arc::new(Scripted { unsubscribed: Mutex::new(answers.into()), ..Scripted::default() });
    let subscriptions = Subscriptions::new();
    let mut queue = subscriptions.take_queue().unwrap();
    let wanted = subscriptions.subscribe("wanted");
    subscriptions.subscribed.insert("stale".to_owned(), 1);
    let names = || ["stale", "wanted"].map(str::to_owned).to_vec();
    let as_transport: Arc<dyn Transport> = transport.clone();
    let busy = settle(&subscriptions, &as_transport, names(), 1).await;
    assert!(matches!(busy, Err(WireError::NotNow(_))), "{busy:?}");
    assert!(wanted.is_confirmed(), "it waits for no other channel");
    assert!(subscriptions.subscribed.contains_key("stale"));
    let mut again = Vec::new();
    queue.recv_many(&mut again, 10).await;
    assert_eq!(again, ["wanted", "stale"], "the first by its waiter");
    // What is refused for good is not.
    assert!(settle(&subscriptions, &as_transport, names(), 1).await.is_ok());
    assert!(!subscriptions.subscribed.contains_key("stale"));
}

/// It may be asked for again and again, by those who come one after another.
#[tokio::test(start_paused = true)]
async fn the_refusal_of_one_channel_delays_no_other() {
    let unsubscribed = std::iter::repeat_with(|| Ok(())).take(100).collect();
    let transport = Scripted {
        refused: vec!["no"],
        unsubscribed: Mutex::new(unsubscribed),
        ..Scripted::default()
    };
    let subscriptions = Subscriptions::new();
    let queue = subscriptions.take_queue().unwrap();
    tokio::spawn(work(0, subscriptions.clone(), Arc::new(transport), queue));
    for _ in 0..20 {
        let mut refused = subscriptions.subscribe("no");
        refused.ready().await;
        assert!(!refused.is_confirmed());
    }
    let (begun, mut subscribed) = (tokio::time::Instant::now(), subscriptions.subscribe("yes"));
    subscribed.ready().await;
    assert!(subscribed.is_confirmed());
    assert!(begun.elapsed() < Duration::from_millis(5), "{:?}", begun.elapsed());
}

/// The client is told of the move before, while or after the subscription stands, or never.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_made_while_its_slot_moves_is_ended() {
    let at = Duration::from_millis;
    for (left_after, told_after) in (0..25).flat_map(|left| (0..30).map(move |told| (left, told))) {
        let transport = Arc::new(Scripted { subscribing: at(10), ..Scripted::default() });
        let (subscriptions, runtime) = (Subscriptions::new(), ClientRuntime::current());
        let life = Arc::new(Lifecycle::new(runtime));
        let as_transport: Arc<dyn Transport> = transport.clone();
        let task = run(Arc::downgrade(&life), subscriptions.clone(), as_transport);
        let task = tokio::spawn(task);
        let waits = subscriptions.subscribe("a");
        sleep(at(left_after)).await;
        transport.server.store(1, Ordering::Relaxed);
        drop(waits);
        sleep(at(told_after)).await;
        if told_after < 25 {
            subscriptions.on_event(Event::Gap);
        }
        sleep(at(100)).await;
        let listening = transport.listening.lock().unwrap().clone();
        assert!(listening.is_empty(), "left after {left_after} ms, told {told_after} ms later");
        task.abort();
    }
}

/// A gap ends the worker at a moment when it runs. The next worker finds nothing to end, and then the first one
/// is cut short.
#[tokio::test(start_paused = true)]
async fn an_unsubscription_that_is_cut_short_is_repeated() {
    let transport =
        Arc::new(Scripted { subscribing: Duration::from_millis(10), ..Scripted::default() });
    let as_transport: Arc<dyn Transport> = transport.clone();
    let subscriptions = Subscriptions::new();
    let mut queue = subscriptions.take_queue().unwrap();
    let names = || vec!["a".to_owned()];
    transport.listening.lock().unwrap().extend(names());
    subscriptions.subscribed.insert("a".to_owned(), 1);
    let mut cut = Box::pin(settle(&subscriptions, &as_transport, names(), 1));
    assert!(futures::poll!(&mut cut).is_pending());
    settle(&subscriptions, &as_transport, names(), 2).await.unwrap();
    drop(cut);
    let again = queue.try_recv().expect("it is checked again");
    settle(&subscriptions, &as_transport, vec![again], 2).await.unwrap();
    assert!(transport.listening.lock().unwrap().is_empty());
    assert!(queue.try_recv().is_err());
}

/// A client of a transport that takes 10 ms for a change, and keeps no map.
struct Slow {
    transport: Arc<Scripted>,
    as_transport: Arc<dyn Transport>,
    subscriptions: Arc<Subscriptions>,
}

impl Slow {
    fn new() -> Self {
        let transport = Arc::new(Scripted {
            subscribing: Duration::from_millis(10),
            keeps_no_map: true,
            ..Scripted::default()
        });
        let as_transport = transport.clone();
        Self { transport, as_transport, subscriptions: Subscriptions::new() }
    }

    async fn settle(&self, worker: WorkerId) -> Result<(), WireError> {
        settle(&self.subscriptions, &self.as_transport, vec!["a".to_owned()], worker).await
    }

    /// The first worker, which subscribes for a waiter that has gone.
    async fn subscribes_for_nobody(
        &self,
        queue: &mut UnboundedReceiver<String>,
    ) -> LocalBoxFuture<'_, Result<(), WireError>> {
        let waits = self.subscriptions.subscribe("a");
        let mut one = self.settle(1).boxed_local();
        assert!(futures::poll!(&mut one).is_pending());
        drop(waits);
        while queue.try_recv().is_ok() {}
        one
    }

    fn is_listening(&self) -> bool {
        !self.transport.listening.lock().unwrap().is_empty()
    }
}

/// The same, and it is the subscription that is cut short: it stands after the next worker has found nothing.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_is_cut_short_and_forgotten_is_ended() {
    let slow = Slow::new();
    let mut queue = slow.subscriptions.take_queue().unwrap();
    let cut = slow.subscribes_for_nobody(&mut queue).await;
    slow.settle(2).await.unwrap();
    slow.transport.listening.lock().unwrap().insert("a".to_owned());
    drop(cut);
    assert_eq!(queue.try_recv().expect("it is checked again"), "a");
    slow.settle(2).await.unwrap();
    assert!(!slow.is_listening());
}

/// It was not cut short, and the next worker has ended nothing before it stood.
#[tokio::test(start_paused = true)]
async fn a_subscription_that_nobody_needs_any_more_is_not_forgotten() {
    let slow = Slow::new();
    let mut queue = slow.subscriptions.take_queue().unwrap();
    let one = slow.subscribes_for_nobody(&mut queue).await;
    let mut other = slow.settle(2).boxed_local();
    assert!(futures::poll!(&mut other).is_pending());
    one.await.unwrap();
    other.await.unwrap();
    while queue.try_recv().is_ok() {
        slow.settle(2).await.unwrap();
    }
    assert!(!slow.is_listening());
}

/// A gap that comes between the confirmation and the worker that waits for it.
#[tokio::test(start_paused = true)]
async fn a_confirmation_that_comes_with_a_gap_is_not_relied_on() {
    let ms = Duration::from_millis;
    let transport = Arc::new(Scripted { subscribing: ms(10), ..Scripted::default() });
    let as_transport: Arc<dyn Transport> = transport.clone();
    let subscriptions = Subscriptions::new();
    let waits = subscriptions.subscribe("a");
    for (gap_at, is_confirmed) in [(15, false), (25, true)] {
        let me = subscriptions.workers.fetch_add(1, Ordering::Relaxed) + 1;
        let gap = async {
            sleep(ms(gap_at)).await;
            subscriptions.on_event(Event::Gap);
            assert!(!waits.is_confirmed());
        };
        let settling = async {
            settle(&subscriptions, &as_transport, vec!["a".to_owned()], me).await.unwrap();
            assert_eq!(waits.is_confirmed(), is_confirmed, "a gap after {gap_at} ms");
        };
        tokio::join!(gap, settling);
    }
}
