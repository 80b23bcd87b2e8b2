//! One connection, as its callers see it.

use std::{sync::Arc, time::Duration};

use futures::{
    FutureExt,
    future::{BoxFuture, try_join_all},
};
use tokio::{sync::oneshot, task::AbortHandle, time::timeout};

use super::task::run;
use crate::wire::{
    answers::{Answer, Failure, FailureKind},
    connection::{Command, Connected, Connection, Done, Options},
    queue::{Expected, Queue},
    resp,
    socket::Socket,
};

struct RedisRsConnection {
    queue: Arc<Queue>,
    task: AbortHandle,
}

/// Starts the task that runs a connection.
pub(super) fn start(socket: Socket, options: Options) -> Connected {
    let Options { command_timeout, listener } = options;
    let queue = Arc::new(Queue::new(command_timeout, listener.is_some()));
    let running = tokio::spawn(run(socket, queue.clone(), listener));
    let task = running.abort_handle();
    let connection = Box::new(RedisRsConnection { queue, task: task.clone() });
    Connected { connection, task, end: running.map(drop).boxed() }
}

impl Drop for RedisRsConnection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection for RedisRsConnection {
    fn send<'a>(&'a self, command: Command<'_>, within: Option<Duration>) -> BoxFuture<'a, Answer> {
        let bytes = resp::command(&command);
        if command.asking {
            return self.ask(bytes, within).boxed();
        }
        async move {
            let [answer] = self.queue.push(&bytes, [Expected::Reply], within.is_none())?;
            answered(answer, within).await
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_> {
        match sharded {
            false => self.each(channels, "SUBSCRIBE", "subscribe"),
            true => self.each(channels, "SSUBSCRIBE", "ssubscribe"),
        }
    }

    fn unsubscribe(&self, channels: Vec<String>, sharded: bool) -> Done<'_> {
        match sharded {
            false => self.each(channels, "UNSUBSCRIBE", "unsubscribe"),
            true => self.each(channels, "SUNSUBSCRIBE", "sunsubscribe"),
        }
    }

    fn quit(&self) -> BoxFuture<'_, ()> {
        async {
            if let Ok([answer]) = self.queue.push(b"*1\r\n$4\r\nQUIT\r\n", [Expected::Reply], true)
            {
                let _ = answer.await;
            }
        }
        .boxed()
    }
}

impl RedisRsConnection {
    /// Sends a command for a slot that is being moved to this server. ASKING counts for the next
    /// command of the connection only.
    async fn ask(&self, command: Vec<u8>, within: Option<Duration>) -> Answer {
        let bytes = [b"*1\r\n$6\r\nASKING\r\n", &command[..]].concat();
        let expected = [Expected::Reply, Expected::Reply];
        let [asked, answer] = self.queue.push(&bytes, expected, within.is_none())?;
        let both = async { (answered(asked, None).await, answered(answer, None).await) };
        let both = match within {
            None => Ok(both.await),
            Some(within) => timeout(within, both).await,
        };
        match both.map_err(|_| Failure::timed_out())? {
            // A server that refuses ASKING redirects the command, and this error says why.
            (Err(why), Err(error)) if error.kind == FailureKind::Redirected => Err(why),
            (_, answer) => answer,
        }
    }

    /// Sends the command once for each channel: channels need not share a slot, and each has its
    /// own answer.
    fn each(&self, channels: Vec<String>, command: &'static str, kind: &'static str) -> Done<'_> {
        async move {
            let answers = channels.into_iter().map(|channel| {
                let bytes = resp::of_channel(command, &channel);
                let [answer] =
                    self.queue.push(&bytes, [Expected::Confirmation(kind, channel)], true)?;
                Ok(answered(answer, None))
            });
            let answers = answers.collect::<Result<Vec<_>, Failure>>()?;
            try_join_all(answers).await.map(drop)
        }
        .boxed()
    }
}

/// The answer, within the time of its caller or the usual time.
async fn answered(answer: oneshot::Receiver<Answer>, within: Option<Duration>) -> Answer {
    let answer = match within {
        None => answer.await,
        Some(within) => timeout(within, answer).await.map_err(|_| Failure::timed_out())?,
    };
    answer.unwrap_or_else(|_| Err(Failure::gone()))
}
