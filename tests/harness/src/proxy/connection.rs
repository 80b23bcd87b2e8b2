//! One connection through the proxy.
//!
//! ```text
//! client ── requests ──▶ [judged] ──▶ [held back] ──▶ server
//! client ◀── [delayed] ◀── [lost, or passed on] ◀── replies
//! ```
//! The two sides end separately. When the client's side is closed, what was read from it still goes to the server.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::faults::{Fate, Faults, LostReply, Needle};
use crate::resp::{frame_len, is_push, is_subscribe, request_len};

/// How much of what a client has sent is remembered for [`Link::has_sent`].
const MEMORY: usize = 1 << 20;

/// What the connections of a proxy share.
#[derive(Debug)]
pub(super) struct Shared {
    /// The port of the server to which new connections lead.
    pub(super) upstream: AtomicU16,
    /// How many connections were ever made.
    pub(super) accepted: AtomicUsize,
    pub(super) faults: Mutex<Faults>,
    /// Requests with this needle are kept back while it is there.
    pub(super) held: watch::Sender<Option<Needle>>,
    pub(super) links: Mutex<HashMap<u64, Arc<Link>>>,
}

impl Shared {
    pub(super) fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().expect("the faults")
    }

    pub(super) fn links(&self) -> MutexGuard<'_, HashMap<u64, Arc<Link>>> {
        self.links.lock().expect("the connections")
    }
}

/// What the proxy knows about a connection, and the way to cut it.
#[derive(Debug, Default)]
pub(super) struct Link {
    cut: watch::Sender<bool>,
    /// Nothing is read from the client.
    unread: watch::Sender<bool>,
    subscribed: AtomicBool,
    torn: AtomicBool,
    dead: AtomicBool,
    sent: Mutex<Vec<u8>>,
    /// One for each request the server has not answered: how its reply is lost, if it is to be.
    unanswered: Mutex<VecDeque<Option<LostReply>>>,
}

impl Link {
    pub(super) fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// Whether anything is to be read from the client.
    pub(super) fn read(&self, on: bool) {
        self.unread.send_replace(!on);
    }

    pub(super) fn is_open(&self) -> bool {
        !*self.cut.borrow()
    }

    /// From now on nothing comes through it, and it stays open.
    pub(super) fn die(&self) {
        self.dead.store(true, Ordering::Relaxed);
    }

    fn is_dead(&self) -> bool {
        self.dead.load(Ordering::Relaxed)
    }

    /// Whether a blackhole took something from it.
    pub(super) fn is_torn(&self) -> bool {
        self.torn.load(Ordering::Relaxed)
    }

    pub(super) fn has_sent(&self, needle: &Needle) -> bool {
        needle.is_in(&self.sent.lock().expect("the bytes sent"))
    }

    fn remember(&self, request: &[u8]) {
        let mut sent = self.sent.lock().expect("the bytes sent");
        if sent.len() < MEMORY {
            sent.extend_from_slice(request);
        }
        if is_subscribe(request) {
            self.subscribed.store(true, Ordering::Relaxed);
        }
    }

    async fn cut_off(&self) {
        let mut cut = self.cut.subscribe();
        let _ = cut.wait_for(|&cut| cut).await;
    }
}

/// A request on its way to the server.
struct Forwarded {
    bytes: Vec<u8>,
    lose_reply: Option<LostReply>,
}

/// What is next on the way to the client.
enum Outgoing {
    /// A reply, not to arrive before its time.
    Reply { bytes: Vec<u8>, due: Instant },
    /// In place of a reply that is lost: the end of the connection.
    Lost(watch::Sender<usize>),
}

/// Carries a connection to its end.
pub(super) async fn run(shared: &Shared, link: &Link, client: TcpStream) {
    let upstream = shared.upstream.load(Ordering::Relaxed);
    let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)).await else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (requests, forwarded) = mpsc::unbounded_channel();
    let (replies, due) = mpsc::unbounded_channel();

    tokio::join!(
        async {
            tokio::select! {
                biased;
                () = link.cut_off() => {}
                _ = read_requests(shared, link, from_client, requests) => link.cut(),
            }
        },
        write_requests(shared, link, to_server, forwarded),
        async {
            let _ = read_replies(shared, link, from_server, replies).await;
        },
        async {
            tokio::select! {
                biased;
                () = link.cut_off() => {}
                _ = write_replies(to_client, due) => link.cut(),
            }
        },
    );
}

async fn read_requests(
    shared: &Shared,
    link: &Link,
    mut client: OwnedReadHalf,
    requests: mpsc::UnboundedSender<Forwarded>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    let mut unread = link.unread.subscribe();
    loop {
        let _ = unread.wait_for(|&unread| !unread).await;
        let read = tokio::select! {
            biased;
            _ = unread.wait_for(|&unread| unread) => continue,
            read = client.read_buf(&mut buffer) => read?,
        };
        if read == 0 {
            break;
        }
        while let Some(len) = request_len(&buffer)? {
            let bytes: Vec<u8> = buffer.drain(..len).collect();
            link.remember(&bytes);
            if link.is_dead() {
                continue;
            }
            let fate = shared.faults().judge(&bytes);
            let lose_reply = match fate {
                Fate::Forwarded => None,
                Fate::ReplyLost(lost) => Some(lost),
                Fate::Swallowed => {
                    link.torn.store(true, Ordering::Relaxed);
                    continue;
                }
                Fate::RequestLost(fired) => {
                    link.cut();
                    happened(&fired);
                    return Ok(());
                }
            };
            let _ = requests.send(Forwarded { bytes, lose_reply });
        }
    }
    Ok(())
}

/// Ends when the client has gone and everything of it is delivered.
async fn write_requests(
    shared: &Shared,
    link: &Link,
    mut server: OwnedWriteHalf,
    mut requests: mpsc::UnboundedReceiver<Forwarded>,
) {
    let mut held = shared.held.subscribe();
    while let Some(Forwarded { bytes, lose_reply }) = requests.recv().await {
        let may_go =
            |held: &Option<Needle>| held.as_ref().is_none_or(|needle| !needle.is_in(&bytes));
        if !may_go(&held.borrow()) {
            shared.faults().waiting += 1;
            let _ = held.wait_for(may_go).await;
            shared.faults().waiting -= 1;
        }
        link.unanswered.lock().expect("the requests").push_back(lose_reply);
        if server.write_all(&bytes).await.is_err() {
            return;
        }
    }
    let _ = server.shutdown().await;
}

/// Ends when the server closes; when the client has gone it reads on all the same, so that the server can write.
async fn read_replies(
    shared: &Shared,
    link: &Link,
    mut server: OwnedReadHalf,
    replies: mpsc::UnboundedSender<Outgoing>,
) -> io::Result<()> {
    let mut buffer = Vec::new();
    while server.read_buf(&mut buffer).await? > 0 {
        while let Some(len) = frame_len(&buffer)? {
            let mut bytes: Vec<u8> = buffer.drain(..len).collect();
            let answers_a_request = !is_push(&bytes) && !link.subscribed.load(Ordering::Relaxed);
            if answers_a_request {
                let answered = link.unanswered.lock().expect("the requests").pop_front();
                match answered.flatten() {
                    Some(LostReply { fired, instead: Some(line) }) => {
                        bytes = format!("{line}\r\n").into_bytes();
                        happened(&fired);
                    }
                    Some(LostReply { fired, instead: None }) => {
                        if let Err(mpsc::error::SendError(Outgoing::Lost(fired))) =
                            replies.send(Outgoing::Lost(fired))
                        {
                            happened(&fired);
                        }
                        continue;
                    }
                    None => {}
                }
            }
            if link.is_dead() {
                continue;
            }
            let (swallowed, delay) = {
                let faults = shared.faults();
                (faults.swallow_replies, faults.delay)
            };
            if swallowed {
                link.torn.store(true, Ordering::Relaxed);
                continue;
            }
            let _ = replies.send(Outgoing::Reply { bytes, due: Instant::now() + delay });
        }
    }
    Ok(())
}

/// Ends, and the connection with it, when the server has closed or a reply is to be lost.
async fn write_replies(
    mut client: OwnedWriteHalf,
    mut replies: mpsc::UnboundedReceiver<Outgoing>,
) -> io::Result<()> {
    while let Some(outgoing) = replies.recv().await {
        match outgoing {
            Outgoing::Reply { bytes, due } => {
                tokio::time::sleep_until(due).await;
                client.write_all(&bytes).await?;
            }
            Outgoing::Lost(fired) => {
                drop(client);
                happened(&fired);
                return Ok(());
            }
        }
    }
    Ok(())
}

fn happened(fired: &watch::Sender<usize>) {
    fired.send_modify(|count| *count += 1);
}
