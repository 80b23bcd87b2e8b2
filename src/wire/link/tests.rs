use std::{
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::future::{BoxFuture, ready};

use super::*;
use crate::wire::{
    connection::{Command, Connected, Connecting, Connection, Done, Driver},
    script::Reply,
    url::read_url,
};

/// Connections that say the same to everything, after a while, and end then if they are to.
#[derive(Clone)]
struct Says {
    answer: Result<(), Failure>,
    after: Duration,
    ends: bool,
    made: Arc<AtomicUsize>,
}

impl Says {
    fn at_once(answer: Result<(), Failure>) -> Self {
        Self { answer, after: Duration::ZERO, ends: false, made: Arc::default() }
    }
}

impl Driver for Says {
    fn connect(&self, _: Endpoint, _: Options) -> Connecting {
        self.made.fetch_add(1, Ordering::Relaxed);
        let connection = Box::new(self.clone());
        let task = tokio::spawn(pending::<()>()).abort_handle();
        let end = match self.ends {
            true => sleep(self.after + Duration::from_millis(1)).boxed(),
            false => pending().boxed(),
        };
        ready(Ok(Connected { connection, task, end })).boxed()
    }
}

impl Connection for Says {
    fn send<'a>(&'a self, _: Command<'_>, _: Option<Duration>) -> BoxFuture<'a, Answer> {
        let answer = self.answer.clone().map(|()| Reply::Nil);
        sleep(self.after).map(|()| answer).boxed()
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

fn subscriber(driver: Says) -> Link {
    let endpoint = read_url("redis://127.0.0.1").unwrap().single().unwrap();
    Link::subscriber(endpoint, ConnectionSettings::for_tests(Arc::new(driver), OnBreak::Reconnect))
}

/// Whether a link for messages, and one for commands, are up when the server says this.
async fn are_up(says: Result<(), Failure>) -> [Result<(), FailureKind>; 2] {
    let subscriber = subscriber(Says::at_once(says));
    let commands = Link::commands(&subscriber);
    let mut told = [Ok(()), Ok(())];
    for (link, told) in [&subscriber, &commands].into_iter().zip(&mut told) {
        *told = link.connect().await.map_err(|error| error.kind);
        assert_eq!(link.session().is_some(), told.is_ok());
    }
    told
}

/// Over fred, one that the server ended during the login may count as made.
#[tokio::test]
async fn a_connection_over_which_no_answer_comes_is_not_up() {
    assert_eq!(are_up(Err(Failure::gone())).await, [Err(FailureKind::Gone); 2]);
    assert_eq!(are_up(Err(Failure::timed_out())).await, [Err(FailureKind::TimedOut); 2]);
}

#[tokio::test]
async fn any_answer_will_do() {
    let refusal = |text| Err(Failure::refused(text));
    for says in [
        Ok(()),
        refusal("ERR wrong number of arguments for 'evalsha' command"),
        refusal("LOADING Redis is loading the dataset in memory"),
        refusal("NOPERM no"),
        refusal("MISCONF no disk"),
    ] {
        assert_eq!(are_up(says).await, [Ok(()), Ok(())]);
    }
}

#[tokio::test]
async fn a_server_that_does_not_know_scripts_takes_no_calls() {
    for text in ["ERR unknown command 'EVALSHA'", "ERR unknown command `EVALSHA`, with args"] {
        let told = are_up(Err(Failure::refused(text))).await;
        assert_eq!(told, [Ok(()), Err(FailureKind::Refused)]);
    }
}

/// They end just after their first answer, and the pauses grow.
#[tokio::test(start_paused = true)]
async fn connections_that_are_slow_to_answer_do_not_last_for_that() {
    let made = Arc::default();
    let says = Says { answer: Ok(()), after: LASTING, ends: true, made: Arc::clone(&made) };
    let link = subscriber(says);
    link.connect().await.unwrap();
    sleep(Duration::from_secs(30)).await;
    // Without pauses there are 60, with pauses of a second 20 to 30.
    let made = made.load(Ordering::Relaxed);
    assert!(made < 35, "{made} connections");
}
