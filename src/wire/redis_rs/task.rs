//! The task that runs one connection: it writes, reads, and looks for timeouts.

use std::sync::Arc;

use combine::{
    parser::combinator::AnySendSyncPartialState,
    stream::{PointerOffset, decoder::Decoder},
};
use redis::{ErrorKind, Value, parse_redis_value_async};
use tokio::{io::ReadHalf, time::sleep_until};

use super::{
    answers::{answer, unread},
    writer::Writer,
};
use crate::wire::{
    answers::Failure,
    connection::{Heard, Listener},
    queue::Queue,
    socket::{Socket, broken},
};

/// Runs a connection until it ends.
pub(super) async fn run(
    reader: ReadHalf<Socket>,
    writer: Arc<Writer>,
    queue: Arc<Queue>,
    mut listener: Option<Listener>,
) {
    // If this task is aborted.
    let closing = Closing(queue.clone(), writer.clone());
    let why = tokio::select! {
        biased;
        why = read(reader, &queue, &mut listener) => why,
        error = writer.run(&queue) => broken(&error),
        never = expire(&queue) => never,
    };
    let is_wanted = queue.close(why);
    drop(closing);
    if let Some(listener) = &mut listener
        && !is_wanted
    {
        listener(Heard::Lost);
    }
}

struct Closing(Arc<Queue>, Arc<Writer>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(Failure::gone());
        self.1.close();
    }
}

async fn read(
    mut socket: ReadHalf<Socket>,
    queue: &Queue,
    listener: &mut Option<Listener>,
) -> Failure {
    let mut decoder = Decoder::<AnySendSyncPartialState, PointerOffset<[u8]>>::new();
    loop {
        let value = match parse_redis_value_async(&mut decoder, &mut socket).await {
            // It is the reply to no command.
            Ok(Value::Push { .. }) => return unread(&(ErrorKind::Parse, "a push").into()),
            Ok(value) => value,
            Err(error) => return unread(&error),
        };
        match queue.deliver(answer(value)) {
            Ok(Some(heard)) => {
                if let Some(listener) = listener {
                    listener(heard);
                }
            }
            Ok(None) => {}
            Err(why) => return why,
        }
    }
}

async fn expire(queue: &Queue) -> Failure {
    loop {
        match queue.expire() {
            Some(next) => sleep_until(next).await,
            None => queue.watched.notified().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::{queue::Expected, script::Reply};

    /// As a reply it would shift all later ones to the wrong callers.
    #[tokio::test]
    async fn a_push_is_no_reply() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let queue = Arc::new(Queue::new(Duration::from_secs(3), false));
        let [first, second] = queue.push(b"ab", [Expected::Reply, Expected::Reply], true).unwrap();
        let (reader, writer) = tokio::io::split(Box::new(ours) as Socket);
        let writer = Arc::new(Writer::new(writer, true));
        let running = tokio::spawn(run(reader, writer, queue.clone(), None));
        tokio::io::AsyncReadExt::read_exact(&mut theirs, &mut [0; 2]).await.unwrap();
        tokio::io::AsyncWriteExt::write_all(
            &mut theirs,
            b">2\r\n+invalidate\r\n*0\r\n:1\r\n:2\r\n",
        )
        .await
        .unwrap();
        assert!(first.await.unwrap().is_err());
        assert_ne!(second.await.unwrap(), Ok(Reply::Int(1)), "the reply to the first");
        running.abort();
    }
}
