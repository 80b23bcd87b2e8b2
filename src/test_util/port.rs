//! [`Port`]: a TCP port at which other programs reach a server in the process.

use std::{fmt, io, net, net::SocketAddr, sync::Arc, thread, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedWriteHalf},
    runtime::{Builder, Runtime},
    sync::{mpsc, oneshot, watch},
    time::sleep,
};

use super::{
    host::{Host, Life, Phase},
    resp,
    session::Session,
};

/// A TCP port of a [`TestServer`](super::TestServer), on the loopback interface. Dropping it closes the
/// port and its connections.
///
/// One thread serves it. It speaks RESP2, and has the commands that locks call and those by which one
/// looks at a server.
#[must_use = "the port is closed as soon as this is dropped: keep it, `let port = …`"]
pub struct Port {
    address: SocketAddr,
    /// Dropped with this value: the thread ends.
    _open: oneshot::Sender<()>,
}

impl Port {
    pub(super) fn open(host: Arc<Host>) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let listener = net::TcpListener::bind(("127.0.0.1", 0))?;
        listener.set_nonblocking(true)?;
        let listener = {
            let _here = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let address = listener.local_addr()?;
        let (open, closed) = oneshot::channel();
        let thread = thread::Builder::new().name("redis-in-process".into());
        thread.spawn(move || serve(&runtime, host, listener, closed))?;
        Ok(Self { address, _open: open })
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL, such as `redis://127.0.0.1:40001`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port").field("address", &self.address).finish_non_exhaustive()
    }
}

fn serve(runtime: &Runtime, host: Arc<Host>, listener: TcpListener, closed: oneshot::Receiver<()>) {
    runtime.block_on(async {
        tokio::select! {
            _ = closed => {}
            () = accept(host, listener) => {}
        }
    });
}

/// Serves connections for ever.
async fn accept(host: Arc<Host>, listener: TcpListener) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // It fails while the process has too many open files.
            sleep(Duration::from_millis(10)).await;
            continue;
        };
        let life = host.life();
        let now = *life.borrow();
        // Its peer sees a connection that ends at once.
        if now.phase != Phase::Stopped {
            tokio::spawn(connection(host.clone(), stream, life, now.stops));
        }
    }
}

/// Serves one connection until it ends, or the server is stopped.
async fn connection(
    host: Arc<Host>,
    stream: TcpStream,
    mut life: watch::Receiver<Life>,
    stops: u64,
) {
    let _ = stream.set_nodelay(true);
    let (mut incoming, outgoing) = stream.into_split();
    let (out, queued) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write(outgoing, queued));
    let mut session = Session::new(host, out);
    let mut stopped = life.clone();
    let talk = async {
        let mut buffer = Vec::new();
        while incoming.read_buf(&mut buffer).await.is_ok_and(|count| count > 0) {
            while let Some(request) = resp::request(&mut buffer)? {
                // A stalled server leaves it where it is.
                let _ = life.wait_for(|life| life.phase != Phase::Stalled).await;
                if life.borrow().stops != stops || !session.serve(request) {
                    return Ok(());
                }
            }
        }
        Ok::<_, resp::Malformed>(())
    };
    tokio::select! {
        _ = talk => {}
        _ = stopped.wait_for(|life| life.stops != stops) => writer.abort(),
    }
    // With its last sender gone, the writer ends when it has written what is queued.
    drop(session);
}

async fn write(mut outgoing: OwnedWriteHalf, mut queued: mpsc::UnboundedReceiver<Vec<u8>>) {
    while let Some(bytes) = queued.recv().await {
        if outgoing.write_all(&bytes).await.is_err() {
            return;
        }
    }
}
