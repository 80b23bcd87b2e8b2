//! A network between a client and a server that loses exactly what a test tells it to lose.

mod connection;
mod faults;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use connection::{Link, Shared};
use faults::Loss;
pub use faults::{Fired, Needle};

use crate::wait::PATIENCE;

/// A TCP proxy on a free loopback port in front of a server, honest until told otherwise.
///
/// Faults of a request or a reply are exact: the proxy cuts both streams into messages and counts, so it knows which
/// reply belongs to which request, pipelined or not. Connections that have subscribed to something are an exception:
/// their replies are passed on and never lost one by one.
///
/// What the proxy has read is in flight: closing a connection does not stop it from reaching the server.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

impl Proxy {
    /// Starts a proxy for the server on this loopback port.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free loopback port");
        let port = listener.local_addr().expect("its address").port();
        let shared = Arc::new(Shared {
            upstream: upstream.into(),
            accepted: AtomicUsize::new(0),
            faults: Mutex::default(),
            held: watch::Sender::new(None),
            links: Mutex::default(),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { port, shared, accepting }
    }

    /// The proxy's own port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `redis://127.0.0.1:port`.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.links().values().filter(|link| link.is_open()).count()
    }

    /// How many connections were ever made.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Waits until `count` connections are open.
    ///
    /// # Panics
    /// When it does not come to that in [`PATIENCE`].
    pub async fn connected(&self, count: usize) {
        let what = format!("{count} connections through the proxy");
        crate::eventually(PATIENCE, &what, || (self.connections() == count).then_some(())).await;
    }

    /// Closes every connection now; says how many.
    pub fn cut_all(&self) -> usize {
        self.cut_where(|_| true)
    }

    /// Closes every connection that has ever sent a request with this in it, such as `SUBSCRIBE`; says how many.
    pub fn cut_matching(&self, needle: impl Into<Needle>) -> usize {
        let needle = needle.into();
        self.cut_where(|link| link.has_sent(&needle))
    }

    /// New connections lead to the server on this loopback port; those that are open stay where they are.
    pub fn lead_to(&self, upstream: u16) {
        self.shared.upstream.store(upstream, Ordering::Relaxed);
    }

    /// While on, a new connection is closed at once.
    pub fn refuse(&self, on: bool) {
        self.shared.faults().refuse = on;
    }

    /// Whether a new connection is closed at once.
    pub fn refuses(&self) -> bool {
        self.shared.faults().refuse
    }

    /// While on, requests and replies vanish and connections stay open.
    ///
    /// When it is turned off, the connections that lost something are closed, as a network would in the end:
    /// their replies could no longer be told apart.
    pub fn blackhole(&self, on: bool) {
        self.swallow(on, on);
    }

    /// While on, requests vanish. Replies and messages still arrive, and connections stay open: one direction of a
    /// blackhole, and it ends as one.
    pub fn swallow_requests(&self, on: bool) {
        self.swallow(on, false);
    }

    /// While on, requests arrive, and replies and messages vanish: the other direction.
    pub fn swallow_replies(&self, on: bool) {
        self.swallow(false, on);
    }

    fn swallow(&self, requests: bool, replies: bool) {
        {
            let mut faults = self.shared.faults();
            faults.swallow_requests = requests;
            faults.swallow_replies = replies;
        }
        if !requests && !replies {
            self.cut_where(Link::is_torn);
        }
    }

    /// From now on the connections that are open swallow everything, and stay open; new ones are honest. So it is after a
    /// firewall has forgotten them.
    pub fn forget_connections(&self) {
        for link in self.shared.links().values() {
            link.die();
        }
    }

    /// While on, nothing is read from any client, new ones included: what they send fills the buffers between, until
    /// their writes block. Nothing is lost.
    pub fn stop_reading(&self, on: bool) {
        self.shared.faults().unread = on;
        self.shared.links().values().for_each(|link| link.read(!on));
    }

    /// Nothing is read any more from the connections that are open now; new ones are as ever. Ends with
    /// [`Proxy::heal`].
    pub fn stop_reading_open(&self) {
        self.shared.links().values().for_each(|link| link.read(false));
    }

    /// Every reply takes so much longer from now on.
    pub fn delay_replies(&self, delay: Duration) {
        self.shared.faults().delay = delay;
    }

    /// Keeps all requests back, also those of a client that has gone, until [`Proxy::release_held`].
    pub fn hold_requests(&self) {
        self.hold_requests_with("");
    }

    /// Keeps back the requests with this in them, and what follows them on their connections.
    pub fn hold_requests_with(&self, needle: impl Into<Needle>) {
        self.shared.held.send_replace(Some(needle.into()));
    }

    /// How many requests are kept back.
    pub fn held(&self) -> usize {
        self.shared.faults().waiting
    }

    /// Delivers what was kept back.
    pub fn release_held(&self) {
        self.shared.held.send_replace(None);
    }

    /// The next request with this in it is carried out, but its reply is lost and the connection with it.
    pub fn lose_next_reply(&self, needle: impl Into<Needle>) -> Fired {
        self.lose_replies(needle, 1)
    }

    /// The same `count` times.
    pub fn lose_replies(&self, needle: impl Into<Needle>, count: usize) -> Fired {
        self.shared.faults().lose(Loss::Reply, needle.into(), count)
    }

    /// The next request with this in it is carried out, and the client gets this line instead of its reply.
    pub fn answer_next(&self, needle: impl Into<Needle>, line: &'static str) -> Fired {
        self.shared.faults().lose(Loss::ReplyFor(line), needle.into(), 1)
    }

    /// The next `count` requests with this in them never arrive, and their connections are lost.
    pub fn lose_requests(&self, needle: impl Into<Needle>, count: usize) -> Fired {
        self.shared.faults().lose(Loss::Request, needle.into(), count)
    }

    /// Ends all faults; the connections that are open stay so.
    pub fn heal(&self) {
        self.blackhole(false);
        self.stop_reading(false);
        self.release_held();
        self.shared.faults().heal();
    }

    fn cut_where(&self, which: impl Fn(&Link) -> bool) -> usize {
        let links = self.shared.links();
        let cut = links.values().filter(|link| link.is_open() && which(link));
        cut.map(|link| link.cut()).count()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The connections are its children.
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    for id in 0.. {
        let Ok((client, _)) = listener.accept().await else {
            return;
        };
        shared.accepted.fetch_add(1, Ordering::Relaxed);
        while connections.try_join_next().is_some() {}
        let (refuse, unread) = {
            let faults = shared.faults();
            (faults.refuse, faults.unread)
        };
        if refuse {
            continue;
        }
        let link = Arc::new(Link::default());
        link.read(!unread);
        shared.links().insert(id, Arc::clone(&link));
        let shared = Arc::clone(&shared);
        connections.spawn(async move {
            connection::run(&shared, &link, client).await;
            shared.links().remove(&id);
        });
    }
}

#[cfg(test)]
mod tests;
