use std::{
    future::pending,
    sync::atomic::{AtomicUsize, Ordering},
};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all, ready},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

use super::*;
use crate::wire::{
    connection::{Command, Connected, Connecting, Connection, Done, Driver, OnBreak, Options},
    script::Script,
    url::read_url,
};

/// How long the connection is away, and how long an answer takes: together longer than a call may take.
const AWAY: Duration = Duration::from_millis(2_900);
const SLOW: Duration = Duration::from_millis(200);
const USUAL: Duration = Duration::from_secs(3);

/// A server that answers slowly, and is away for a while once.
struct Outage {
    made: Arc<AtomicUsize>,
    /// Whether the connections from before have ended.
    over: watch::Receiver<bool>,
}

struct Slow;

impl Driver for Outage {
    fn connect(&self, _: Endpoint, _: Options) -> Connecting {
        self.made.fetch_add(1, Ordering::Relaxed);
        let task = tokio::spawn(pending::<()>()).abort_handle();
        let mut over = self.over.clone();
        let (is_back, after) = match *over.borrow() {
            true => (true, AWAY),
            false => (false, Duration::ZERO),
        };
        async move {
            sleep(after).await;
            let end = async move {
                match is_back {
                    true => pending().await,
                    false => drop(over.wait_for(|over| *over).await),
                }
            };
            Ok(Connected { connection: Box::new(Slow), task, end: end.boxed() })
        }
        .boxed()
    }
}

impl Connection for Slow {
    fn send<'a>(&'a self, command: Command<'_>, within: Option<Duration>) -> BoxFuture<'a, Answer> {
        if command.script.is_none() {
            let time = ["1", "0"].map(|part| Reply::Bytes(part.into()));
            return ready(Ok(Reply::Array(time.into()))).boxed();
        }
        let answered = timeout(within.unwrap_or(USUAL), sleep(SLOW));
        answered.map(|done| done.map(|()| Reply::Nil).map_err(|_| Failure::timed_out())).boxed()
    }

    fn subscribe(&self, _: Vec<String>, _: bool) -> Done<'_> {
        unreachable!("nobody subscribes")
    }

    fn unsubscribe(&self, _: Vec<String>, _: bool) -> Done<'_> {
        unreachable!("nobody unsubscribes")
    }

    fn quit(&self) -> BoxFuture<'_, ()> {
        ready(()).boxed()
    }
}

/// A node whose connections have ended just now, and how many were made.
async fn node_in_an_outage() -> (Arc<Node>, Arc<AtomicUsize>) {
    let (end, over) = watch::channel(false);
    let made = Arc::<AtomicUsize>::default();
    let driver = Arc::new(Outage { made: made.clone(), over });
    let endpoint = read_url("redis://127.0.0.1").unwrap().single().unwrap();
    let settings = ConnectionSettings::for_tests(driver, OnBreak::Reconnect);
    let node = Node::connect(endpoint, settings).await.unwrap();
    // Long enough to be replaced at once.
    sleep(Duration::from_secs(1)).await;
    end.send_replace(true);
    tokio::task::yield_now().await;
    (node, made)
}

/// Those who waited for the connection have little of their time left.
#[tokio::test(start_paused = true)]
async fn a_connection_that_is_back_is_not_given_up_for_calls_whose_time_was_nearly_over() {
    static SCRIPT: Script = Script::new("one", "return 1");
    let (node, made) = node_in_an_outage().await;
    let call = Invocation { script: &SCRIPT, keys: 0, args: Vec::new() };
    let calls = (0..5).map(|_| node.call(&call, false, Bound::of(USUAL)));
    for answer in join_all(calls).await {
        assert_eq!(answer.unwrap_err().kind, FailureKind::TimedOut);
    }
    let calls = (0..5).map(|_| node.call(&call, false, Bound::of(USUAL)));
    assert!(join_all(calls).await.iter().all(Result::is_ok));
    assert_eq!(made.load(Ordering::Relaxed), 4, "two connections, and two once more");
}

/// Who has waited for it gives up by a bound of its own.
#[tokio::test(start_paused = true)]
async fn what_is_not_answered_in_time_counts_from_when_the_connection_could_have_answered() {
    let (node, _) = node_in_an_outage().await;
    // It is away, has just come back, and has had its time.
    for (after, is_kept) in [(AWAY / 2, false), (AWAY, true), (USUAL, false)] {
        sleep(after).await;
        (0..TIMEOUTS_UNTIL_RECONNECT).for_each(|_| node.timed_out(USUAL));
        assert_eq!(node.commands.session().is_some(), is_kept, "after {after:?}");
    }
}

/// It was there for all of that time, which is less than a call may take.
#[tokio::test(start_paused = true)]
async fn a_renewal_that_gives_up_early_counts_for_a_connection_that_was_there_before() {
    let (node, _) = node_in_an_outage().await;
    for (after, is_kept) in [(AWAY + SLOW, true), (2 * SLOW, false)] {
        sleep(after).await;
        (0..TIMEOUTS_UNTIL_RECONNECT).for_each(|_| node.timed_out(2 * SLOW));
        assert_eq!(node.commands.session().is_some(), is_kept, "after {after:?}");
    }
}
