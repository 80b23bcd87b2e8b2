//! [`Writer`]: writes the queued commands of one connection.
//!
//! While few commands wait for replies, the caller writes its command itself: it costs a system
//! call, and the connection's task need not be woken. Otherwise the task writes, many at a time. With
//! TLS only the task writes: a write may have to read, and would take the wake-up of the task.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncWrite, WriteHalf},
    time::sleep,
};

use crate::wire::{queue::Queue, socket::Socket};

/// A larger buffer is not kept.
const KEPT: usize = 1 << 16;

/// How long a server's last words are waited for when nothing can be written to it any more.
const LAST_WORDS: Duration = Duration::from_millis(100);

pub(super) struct Writer {
    /// `None`: the connection has ended, and its socket is closed.
    state: Mutex<Option<Writing>>,
    /// Whether callers may write.
    is_plain: bool,
}

struct Writing {
    socket: WriteHalf<Socket>,
    /// What was taken from the queue, and how much of it is written.
    buffer: Vec<u8>,
    written: usize,
    is_flushed: bool,
}

impl Writer {
    /// `is_plain`: without TLS.
    pub(super) fn new(socket: WriteHalf<Socket>, is_plain: bool) -> Self {
        let writing = Writing { socket, buffer: Vec::new(), written: 0, is_flushed: true };
        Self { state: Mutex::new(Some(writing)), is_plain }
    }

    fn writing(&self) -> MutexGuard<'_, Option<Writing>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes what the socket takes without waiting. Returns whether nothing is left to be written.
    pub(super) fn write_now(&self, queue: &Queue) -> bool {
        if !self.is_plain {
            return false;
        }
        let Ok(mut writing) = self.state.try_lock() else { return false };
        let mut context = Context::from_waker(Waker::noop());
        let written = writing.as_mut().map(|writing| writing.poll(queue, &mut context));
        matches!(written, Some(Poll::Ready(Ok(()))))
    }

    /// Writes what is queued, again and again. Completes when that has failed.
    pub(super) async fn run(&self, queue: &Queue) -> io::Error {
        let poll = |context: &mut Context<'_>| match &mut *self.writing() {
            Some(writing) => writing.poll(queue, context),
            None => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        };
        loop {
            if let Err(error) = poll_fn(poll).await {
                sleep(LAST_WORDS).await;
                return error;
            }
            queue.filled.notified().await;
        }
    }

    /// Closes the socket, if its other half is gone.
    pub(super) fn close(&self) {
        let closed = self.writing().take();
        drop(closed);
    }
}

impl Writing {
    /// Ready when nothing is left to be written.
    fn poll(&mut self, queue: &Queue, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if self.written < self.buffer.len() {
                let rest = &self.buffer[self.written..];
                match ready!(Pin::new(&mut self.socket).poll_write(context, rest))? {
                    0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                    written => self.written += written,
                }
                self.is_flushed = false;
            } else if !self.is_flushed {
                ready!(Pin::new(&mut self.socket).poll_flush(context))?;
                self.is_flushed = true;
            } else {
                self.buffer.clear();
                self.written = 0;
                if self.buffer.capacity() > KEPT {
                    self.buffer = Vec::new();
                }
                queue.take(&mut self.buffer);
                if self.buffer.is_empty() {
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, DuplexStream, duplex, split};

    use super::*;
    use crate::wire::queue::Expected;

    /// A connection whose socket takes so many bytes before they are read.
    fn connection(takes: usize, is_plain: bool) -> (Writer, Queue, DuplexStream) {
        let (ours, theirs) = duplex(takes);
        let (_, writer) = split(Box::new(ours) as Socket);
        (Writer::new(writer, is_plain), Queue::new(Duration::from_secs(3), false), theirs)
    }

    fn push(writer: &Writer, queue: &Queue, bytes: &[u8]) -> Option<bool> {
        let mut written = None;
        let write = || {
            let all = writer.write_now(queue);
            *written.insert(all)
        };
        let answers = queue.push_and(bytes, [Expected::Reply], true, write);
        assert!(answers.is_ok());
        written
    }

    #[tokio::test]
    async fn callers_write_while_few_commands_wait_and_then_the_task_does() {
        let (writer, queue, mut theirs) = connection(1024, true);
        let mut read = [0; 4];
        for text in [b"a", b"b", b"c", b"d"] {
            assert_eq!(push(&writer, &queue, text), Some(true));
        }
        theirs.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"abcd");
        for text in [b"ef", b"gh"] {
            assert_eq!(push(&writer, &queue, text), None, "the task writes");
        }
        tokio::select! {
            _ = writer.run(&queue) => panic!("it goes on"),
            done = theirs.read_exact(&mut read) => drop(done.unwrap()),
        }
        assert_eq!(&read, b"efgh");
    }

    #[tokio::test]
    async fn the_task_goes_on_where_the_socket_took_no_more_of_a_caller() {
        let (writer, queue, mut theirs) = connection(3, true);
        assert_eq!(push(&writer, &queue, b"abcd"), Some(false));
        assert_eq!(push(&writer, &queue, b"ef"), Some(false), "behind the rest of the first");
        let mut read = [0; 6];
        tokio::select! {
            _ = writer.run(&queue) => panic!("it goes on"),
            done = theirs.read_exact(&mut read) => drop(done.unwrap()),
        }
        assert_eq!(&read, b"abcdef");
    }

    #[tokio::test]
    async fn with_tls_and_after_its_end_no_caller_writes() {
        let (writer, queue, _theirs) = connection(1024, false);
        assert_eq!(push(&writer, &queue, b"a"), Some(false));
        let (writer, queue, mut theirs) = connection(1024, true);
        writer.close();
        assert_eq!(push(&writer, &queue, b"a"), Some(false));
        assert!(writer.run(&queue).await.kind() == io::ErrorKind::NotConnected);
        assert_eq!(theirs.read(&mut [0; 1]).await.unwrap(), 0, "the socket is closed");
    }
}
