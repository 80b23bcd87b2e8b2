use std::{future::pending, sync::Arc};

use futures::future::{BoxFuture, ready};

use super::*;
use crate::wire::{
    connection::{Command, Connected, Connecting, Connection, Done, Driver},
    script::Reply,
    url::read_url,
};

/// Connections that say the same to everything.
#[derive(Clone)]
struct Says(Result<(), Failure>);

impl Driver for Says {
    fn connect(&self, _: Endpoint, _: Options) -> Connecting {
        let connection = Box::new(self.clone());
        let task = tokio::spawn(pending::<()>()).abort_handle();
        ready(Ok(Connected { connection, task, end: pending().boxed() })).boxed()
    }
}

impl Connection for Says {
    fn send<'a>(&'a self, _: Command<'_>, _: Option<Duration>) -> BoxFuture<'a, Answer> {
        ready(self.0.clone().map(|()| Reply::Nil)).boxed()
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

/// Whether a link for messages, and one for commands, are up when the server says this.
async fn are_up(says: Result<(), Failure>) -> [Result<(), FailureKind>; 2] {
    let endpoint = read_url("redis://127.0.0.1").unwrap().single().unwrap();
    let settings = ConnectionSettings::for_tests(Arc::new(Says(says)), OnBreak::Reconnect);
    let subscriber = Link::subscriber(endpoint, settings);
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
