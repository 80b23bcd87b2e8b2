//! [`State`] of [`Sharing`](super::Sharing): the hold that readers may join, and the door that is closed for the
//! sake of a writer. It is told what happens and when, and does no I/O.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{
    locking::{
        budget::{ASK_AFTER, UNBROKEN, Yielding},
        hold::Hold,
        request::Request,
    },
    options::Replicas,
    sometimes::sometimes,
};

/// While the server is asked about the hold, others join it if it was confirmed within this
/// time.
const ASKED_ABOUT: Duration = Duration::from_millis(10);

/// Readers go on joining for this long after a local writer begins to wait. Nobody reads during a change
/// between readers and a writer, which costs several requests. This makes changes rarer.
pub(super) const LAST_JOINS: Duration = Duration::from_millis(1);

/// Newcomers wait for a writer for at most this long. It also bounds a caller that reads a second time
/// without an owner under its own first read: it waits for itself.
const CLOSED: Duration = Duration::from_millis(100);

/// For this long readers join after a closure that kept one out to its end, whoever waits.
const OPEN_AGAIN: Duration = Duration::from_secs(1);

/// For this long readers join after the lock was free and no writer came. It doubles each time, up to
/// [`OPEN_AGAIN`]: the other listeners may all be readers.
const OPEN_IF_NO_WRITER: Duration = Duration::from_millis(32);
/// How many times it doubles.
const MOST_VAIN: u32 = 5;

/// What is known of the readers and the writers of one lock of one client.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The hold that readers may join.
    pub(super) joinable: Option<Joinable>,
    /// How many local callers wait to write.
    pub(super) writers: usize,
    /// Since when there have been such callers.
    pub(super) writers_since: Option<Instant>,
    pub(super) writers_turn: Option<WritersTurn>,
    /// Since when a reader waits for writers, if none was let in since.
    pub(super) kept_out: Option<Instant>,
    /// Since when each release of a read was heard by others, and the lock was not left to them.
    pub(super) heard_since: Option<Instant>,
    /// In how many gaps in a row nobody came.
    pub(super) vain_gaps: u32,
    /// Until then readers join, whoever waits.
    pub(super) open_until: Option<Instant>,
    /// How many times in a row no writer came.
    pub(super) vain: u32,
    /// How many times the lock was left to others.
    pub(super) times_left: u32,
    pub(super) arrivals: Arrivals,
}

/// Which readers have come and have no hold yet.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// When the first one came, and which replicas it asks for.
    pub(super) first: Option<(Instant, Replicas)>,
    /// How many answers of the server have come.
    pub(super) answers: u64,
    /// How many wait for its answer.
    pub(super) others: usize,
}

#[derive(Debug)]
pub(super) struct Joinable {
    pub(super) hold: Arc<Hold>,
    /// When the server's last confirmation came.
    pub(super) confirmed: Instant,
    /// Whether a reader asks about it now.
    pub(super) is_asking: bool,
    /// Whether others have joined it.
    pub(super) was_joined: bool,
    /// When it was granted.
    pub(super) since: Instant,
}

impl Joinable {
    /// Whether this reader may have it.
    pub(super) fn suits(&self, request: &Request) -> bool {
        self.hold.suits_another(request.lease, request.replicas)
    }

    /// For how long after a confirmation the hold is joined and left without a request.
    pub(super) fn fresh_for(&self) -> Duration {
        if self.is_asking { ASKED_ABOUT } else { ASK_AFTER }
    }
}

/// No newcomer joins.
#[derive(Debug)]
pub(super) struct WritersTurn {
    pub(super) since: Instant,
    /// How many other clients listened, when the server was last asked.
    pub(super) others: u64,
    /// Since the last local reader has left: for how long the lock is left to others.
    pub(super) left: Option<Yielding>,
    /// Whether it is only a gap between reads: see [`State::begin_gap`].
    pub(super) is_gap: bool,
}

impl WritersTurn {
    /// When it ends in any case. A reader may be kept out by one closure after the other.
    pub(super) fn ends_at(&self, kept_out: Option<Instant>) -> Instant {
        kept_out.map_or(self.since, |since| since.min(self.since)) + CLOSED
    }
}

impl State {
    /// Takes a share of the hold, if that needs no request.
    pub(super) fn share(&mut self, request: &Request, now: Instant) -> Option<Arc<Hold>> {
        let joinable = self.joinable.as_mut().filter(|joinable| joinable.suits(request))?;
        if now >= joinable.confirmed + joinable.fresh_for() {
            return None;
        }
        sometimes!("readers share a hold");
        joinable.was_joined = true;
        joinable.hold.lease.add_share();
        self.kept_out = None;
        Some(joinable.hold.clone())
    }

    /// What is known of this hold, if readers may join it.
    pub(super) fn joinable_of(&mut self, hold: &Arc<Hold>) -> Option<&mut Joinable> {
        self.joinable.as_mut().filter(|joinable| Arc::ptr_eq(&joinable.hold, hold))
    }

    /// Opens the door that is closed for local writers only.
    pub(super) fn open_for_readers(&mut self) {
        self.writers_turn.take_if(|writers_turn| writers_turn.others == 0);
    }

    /// A writer has the lock. What was known of readers is over. Returns it, to be dropped when nothing
    /// is locked.
    pub(super) fn begin_anew(&mut self) -> Self {
        let arrivals = std::mem::take(&mut self.arrivals);
        let Self { writers, writers_since, times_left, .. } = *self;
        let anew = Self { writers, writers_since, times_left, arrivals, ..Self::default() };
        std::mem::replace(self, anew)
    }

    pub(super) fn writer_waits(&mut self, now: Instant) {
        self.writers += 1;
        self.writers_since.get_or_insert(now);
    }

    pub(super) fn writer_leaves(&mut self) {
        self.writers -= 1;
        if self.writers == 0 {
            self.writers_since = None;
            self.open_for_readers();
        }
    }

    /// Closes the door if there is a hold to join, and a local caller has waited to write for a moment.
    /// Without such a hold, the server keeps readers and writers apart.
    pub(super) fn close_for_writers(&mut self, now: Instant) {
        if self.writers_since.is_some_and(|since| since + LAST_JOINS <= now)
            && self.joinable.is_some()
        {
            self.close(now, 0);
        }
    }

    /// The last reader leaves the hold that others could join. If a local caller waits to write, it is
    /// that one's turn.
    pub(super) fn last_leaves(&mut self, now: Instant) -> Option<Joinable> {
        if self.writers > 0 {
            self.close(now, 0);
        }
        self.joinable.take()
    }

    /// Readers have left the lock free, and so many others listen. Begins a gap if one is due: reads have followed each
    /// other for long, and the server was not asked who else waits, because nobody has joined another. In the gap no
    /// reader asks for the lock. Readers of other clients may be all that listen, so a gap says nothing about writers.
    pub(super) fn begin_gap(&mut self, now: Instant, others: u64, left: Yielding) {
        if others == 0 {
            self.heard_since = None;
            return;
        }
        let since = *self.heard_since.get_or_insert(now);
        let is_due = since + UNBROKEN * (1 << self.vain_gaps) <= now;
        if is_due && !self.is_writers_turn(now) && !self.has_to_be_open(now) {
            sometimes!("readers: a gap between reads");
            self.heard_since = None;
            let left = Some(left);
            self.writers_turn = Some(WritersTurn { since: now, others, left, is_gap: true });
        }
    }

    /// Ends a gap. Gaps in which nobody came are rarer.
    fn end_gap(&mut self) {
        let left = self.writers_turn.take().and_then(|turn| turn.left);
        let is_in_vain = left.is_some_and(|left| left.is_in_vain());
        self.vain_gaps = if is_in_vain { (self.vain_gaps + 1).min(MOST_VAIN) } else { 0 };
    }

    fn has_to_be_open(&self, now: Instant) -> bool {
        self.open_until.is_some_and(|until| until > now)
    }

    /// Closes the door, unless it is closed, or has to be open.
    pub(super) fn close(&mut self, now: Instant, others: u64) {
        if !self.is_writers_turn(now) && !self.has_to_be_open(now) {
            self.heard_since = None;
            self.writers_turn = Some(WritersTurn { since: now, others, left: None, is_gap: false });
        }
    }

    pub(super) fn is_writers_turn(&mut self, now: Instant) -> bool {
        let Some(writers_turn) = &self.writers_turn else { return false };
        if writers_turn.is_gap && writers_turn.left.as_ref().is_none_or(|left| left.is_over(now)) {
            self.end_gap();
            return false;
        }
        let ends_at = writers_turn.ends_at(self.kept_out);
        if now < ends_at {
            return true;
        }
        sometimes!("readers waited for a writer in vain");
        (self.writers_turn, self.kept_out) = (None, None);
        self.open_until = Some(ends_at + OPEN_AGAIN);
        false
    }

    /// Whether it is a writer's turn, and a local caller says when it is over.
    pub(super) fn is_local_turn(&mut self, now: Instant) -> bool {
        self.is_writers_turn(now) && (self.writers > 0 || !self.is_left_to_others(now))
    }

    /// Whether it is a writer's turn, and the last local reader has left.
    pub(super) fn is_left_to_others(&mut self, now: Instant) -> bool {
        self.is_writers_turn(now)
            && self.writers_turn.as_ref().is_some_and(|turn| turn.left.is_some())
    }

    pub(super) fn yields_until(&mut self, now: Instant, heard: Option<u64>) -> Option<Instant> {
        if !self.is_writers_turn(now) {
            return None;
        }
        let writers_turn = self.writers_turn.as_mut()?;
        let ends_at = writers_turn.ends_at(self.kept_out);
        match &mut writers_turn.left {
            None => Some(ends_at),
            // A local writer needs no message to know that it is its turn.
            Some(_) if self.writers > 0 => Some(ends_at),
            Some(left) => match left.until(now, heard) {
                Some(until) => Some(until.min(ends_at)),
                None if writers_turn.is_gap => {
                    self.end_gap();
                    None
                }
                None => {
                    if left.is_in_vain() {
                        let open = OPEN_IF_NO_WRITER * (1 << self.vain);
                        self.open_until = Some(now + open.min(OPEN_AGAIN));
                        self.vain = (self.vain + 1).min(MOST_VAIN);
                    } else {
                        self.vain = 0;
                    }
                    self.writers_turn = None;
                    None
                }
            },
        }
    }
}
