//! The faults to cause, and how often each has occurred.

use std::time::Duration;

use tokio::sync::watch;

use crate::wait::PATIENCE;

/// What a request must contain to be meant: every one of these parts, somewhere in its bytes.
#[derive(Debug, Clone)]
pub struct Needle(Vec<Vec<u8>>);

impl Needle {
    pub(super) fn is_in(&self, bytes: &[u8]) -> bool {
        self.0
            .iter()
            .all(|part| part.is_empty() || bytes.windows(part.len()).any(|window| window == part))
    }
}

impl From<&str> for Needle {
    fn from(part: &str) -> Self {
        Self(vec![part.into()])
    }
}

impl From<&String> for Needle {
    fn from(part: &String) -> Self {
        part.as_str().into()
    }
}

impl<const N: usize> From<[&str; N]> for Needle {
    fn from(parts: [&str; N]) -> Self {
        Self(parts.map(Into::into).to_vec())
    }
}

/// How often a fault has happened.
#[derive(Debug)]
pub struct Fired(watch::Receiver<usize>);

impl Fired {
    /// How often so far.
    pub fn count(&self) -> usize {
        *self.0.borrow()
    }

    /// Waits until it has happened so often.
    ///
    /// # Panics
    /// When it does not in [`PATIENCE`].
    pub async fn reached(&self, count: usize) {
        let mut fired = self.0.clone();
        let reached =
            tokio::time::timeout(PATIENCE, fired.wait_for(|&so_far| so_far >= count)).await;
        assert!(
            matches!(reached, Ok(Ok(_))),
            "a fault was to happen {count} times, it did {} times",
            self.count()
        );
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    Request,
    Reply,
    /// The client gets this line instead of the reply.
    ReplyFor(&'static str),
}

/// What becomes of one request.
#[derive(Debug)]
pub(super) enum Fate {
    Forwarded,
    /// It vanishes and nobody is told.
    Swallowed,
    /// It is carried out; then its reply is lost.
    ReplyLost(LostReply),
    /// It and the connection are lost.
    RequestLost(watch::Sender<usize>),
}

/// A reply that is lost.
#[derive(Debug)]
pub(super) struct LostReply {
    pub(super) fired: watch::Sender<usize>,
    /// The line that comes in its place, else the connection ends.
    pub(super) instead: Option<&'static str>,
}

#[derive(Debug, Default)]
pub(super) struct Faults {
    pub(super) refuse: bool,
    pub(super) swallow_requests: bool,
    pub(super) swallow_replies: bool,
    /// Nothing is read from new connections.
    pub(super) unread: bool,
    pub(super) delay: Duration,
    /// How many requests are kept back.
    pub(super) waiting: usize,
    losses: Vec<Planned>,
}

#[derive(Debug)]
struct Planned {
    loss: Loss,
    needle: Needle,
    left: usize,
    fired: watch::Sender<usize>,
}

impl Faults {
    pub(super) fn lose(&mut self, loss: Loss, needle: Needle, left: usize) -> Fired {
        let (fired, seen) = watch::channel(0);
        self.losses.push(Planned { loss, needle, left, fired });
        Fired(seen)
    }

    /// Decides about a request, and counts it when it is one of those to lose.
    pub(super) fn judge(&mut self, request: &[u8]) -> Fate {
        if self.swallow_requests {
            return Fate::Swallowed;
        }
        let Some(planned) = self
            .losses
            .iter_mut()
            .find(|planned| planned.left > 0 && planned.needle.is_in(request))
        else {
            return Fate::Forwarded;
        };
        planned.left -= 1;
        let fired = planned.fired.clone();
        match planned.loss {
            Loss::Request => Fate::RequestLost(fired),
            Loss::Reply => Fate::ReplyLost(LostReply { fired, instead: None }),
            Loss::ReplyFor(line) => Fate::ReplyLost(LostReply { fired, instead: Some(line) }),
        }
    }

    pub(super) fn heal(&mut self) {
        *self = Self { waiting: self.waiting, ..Self::default() };
    }
}
