//! The task that runs one connection: it writes, reads, and looks for timeouts.

use std::{io, sync::Arc, time::Duration};

use combine::{
    parser::combinator::AnySendSyncPartialState,
    stream::{PointerOffset, decoder::Decoder},
};
use redis::{ErrorKind, Value, parse_redis_value_async};
use tokio::{
    io::{AsyncWriteExt, ReadHalf, WriteHalf, split},
    time::{sleep, sleep_until},
};

use super::answers::{answer, unread};
use crate::wire::{
    answers::Failure,
    connection::Listener,
    queue::Queue,
    socket::{Socket, broken},
};

/// A larger buffer is not kept.
const KEPT: usize = 1 << 16;

/// How long a server's last words are waited for when nothing can be written to it any more.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// Runs a connection until it ends.
pub(super) async fn run(socket: Socket, queue: Arc<Queue>, mut listener: Option<Listener>) {
    // If this task is aborted.
    let _closing = Closing(queue.clone());
    let (reader, writer) = split(socket);
    let why = tokio::select! {
        biased;
        why = read(reader, &queue, &mut listener) => why,
        error = write(writer, &queue) => broken(&error),
        never = expire(&queue) => never,
    };
    queue.close(why);
}

struct Closing(Arc<Queue>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close(Failure::gone());
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

async fn write(mut socket: WriteHalf<Socket>, queue: &Queue) -> io::Error {
    let mut buffer = Vec::new();
    loop {
        queue.take(&mut buffer);
        if buffer.is_empty() {
            queue.filled.notified().await;
            continue;
        }
        let written = async {
            socket.write_all(&buffer).await?;
            socket.flush().await
        };
        if let Err(error) = written.await {
            sleep(LAST_WORDS).await;
            return error;
        }
        buffer.clear();
        if buffer.capacity() > KEPT {
            buffer = Vec::new();
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
    use super::*;
    use crate::wire::{queue::Expected, script::Reply};

    /// As a reply it would shift all later ones to the wrong callers.
    #[tokio::test]
    async fn a_push_is_no_reply() {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        let queue = Arc::new(Queue::new(Duration::from_secs(3), false));
        let [first, second] = queue.push(b"ab", [Expected::Reply, Expected::Reply], true).unwrap();
        let running = tokio::spawn(run(Box::new(ours), queue.clone(), None));
        tokio::io::AsyncReadExt::read_exact(&mut theirs, &mut [0; 2]).await.unwrap();
        theirs.write_all(b">2\r\n+invalidate\r\n*0\r\n:1\r\n:2\r\n").await.unwrap();
        assert!(first.await.unwrap().is_err());
        assert_ne!(second.await.unwrap(), Ok(Reply::Int(1)), "the reply to the first");
        running.abort();
    }
}
