//! The first of several readers that come at once asks the server. The others wait for its answer, and
//! join its hold.

use tokio::time::{Duration, Instant, timeout_at};

use super::Sharing;
use crate::{locking::request::Request, sometimes::sometimes};

/// The others wait for the first one for this long. It may be far from the server, or not be polled
/// any more.
const ANSWERED: Duration = Duration::from_millis(100);

/// What a reader does that has no hold to join.
#[derive(Debug)]
pub(crate) enum Arriving<'a> {
    /// It asks the server, and drops this when it has an answer.
    First(Arrival<'a>),
    /// It waits for the answer to another's request, and looks then.
    Behind(Behind<'a>),
    /// It asks the server, whoever else comes.
    Alone,
}

impl Sharing {
    /// A reader has come, and there is no hold to join.
    pub(crate) fn arrive(&self, request: &Request) -> Arriving<'_> {
        if !request.may_share || request.bounds.is_one_answer() {
            return Arriving::Alone;
        }
        let now = Instant::now();
        let arrivals = &mut self.state().arrivals;
        if let Some((since, replicas)) = arrivals.first
            && now < since + ANSWERED
        {
            if replicas != request.replicas {
                return Arriving::Alone;
            }
            arrivals.others += 1;
            let answers = arrivals.answers;
            return Arriving::Behind(Behind { sharing: self, since, answers });
        }
        arrivals.first = Some((now, request.replicas));
        Arriving::First(Arrival { sharing: self, since: now })
    }

    /// The server has answered a reader: those that have waited for it look.
    pub(super) fn answered(&self) {
        let others = {
            let arrivals = &mut self.state().arrivals;
            arrivals.first = None;
            arrivals.answers += 1;
            arrivals.others
        };
        if others > 0 {
            self.behind.notify_waiters();
        }
    }
}

/// How a reader's wait for the first one ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Waited {
    /// The first one has its answer.
    Answered,
    /// It was dropped, or failed.
    Dropped,
    /// It has no answer in time, or by the deadline.
    TooLong,
}

/// The first reader. If it is dropped before it has an answer, another one is the first.
#[derive(Debug)]
pub(crate) struct Arrival<'a> {
    sharing: &'a Sharing,
    since: Instant,
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        // Another one may be the first by now.
        let is_first = |first: &mut (Instant, _)| first.0 == self.since;
        let was_first = self.sharing.state().arrivals.first.take_if(is_first).is_some();
        if was_first {
            self.sharing.behind.notify_waiters();
        }
    }
}

/// A reader that waits for the first one.
#[derive(Debug)]
pub(crate) struct Behind<'a> {
    sharing: &'a Sharing,
    /// When the first one came.
    since: Instant,
    /// How many answers had come then.
    answers: u64,
}

impl Behind<'_> {
    /// Waits until the first one has its answer.
    pub(crate) async fn wait(self, deadline: Option<Instant>) -> Waited {
        let end = self.since + ANSWERED;
        let until = deadline.map_or(end, |deadline| end.min(deadline));
        loop {
            let answered = self.sharing.behind.notified();
            let (has_first, answers) = {
                let arrivals = &self.sharing.state().arrivals;
                (arrivals.first.is_some(), arrivals.answers)
            };
            if answers != self.answers {
                sometimes!("readers: one asks for all");
                return Waited::Answered;
            }
            if !has_first {
                return Waited::Dropped;
            }
            if timeout_at(until, answered).await.is_err() {
                return Waited::TooLong;
            }
        }
    }
}

impl Drop for Behind<'_> {
    fn drop(&mut self) {
        self.sharing.state().arrivals.others -= 1;
    }
}
