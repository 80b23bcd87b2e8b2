//! [`Fifo`]: first come, first served. A first that is not polled loses its place.
//!
//! ```text
//! (outside) --poll--> waiting --those before it leave--> first --leave--> (outside)
//!               ^        `------ gives no sign ------------' |
//!               `--------------------------------------------'
//! ```
//!
//! A future may be neither polled nor dropped for any time. If the first in line is not polled, nobody
//! asks the server. While others wait behind the first, it is therefore woken from time to time. It must
//! be polled before the second [`Fifo::tick`] after that, even if the line behind it is empty by then. If
//! it is not polled, it is removed from the line. So are others that were woken and not polled. When
//! such a waiter is polled again, it enters the line anew, at the end. Only the order suffers.

use std::{
    collections::VecDeque,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

/// A line whose first has a `T`, and leaves it to the next.
#[derive(Debug, Default)]
pub(crate) struct Fifo<T> {
    state: Mutex<State<T>>,
    len: AtomicUsize,
}

#[derive(Debug, Default)]
struct State<T> {
    /// In the order of the tickets. The first place is never one that has left.
    places: VecDeque<Place>,
    /// How many of them have left.
    left: usize,
    next_ticket: u64,
    /// What the last first has left.
    legacy: T,
    /// Whether there is news for the first.
    nudged: bool,
    ticks: u64,
    ticking: bool,
}

#[derive(Debug)]
struct Place {
    ticket: Ticket,
    has_left: bool,
    waker: Option<Waker>,
    /// It was woken and has not been polled since. From this tick on it is late.
    owes_since: Option<u64>,
}

/// A place in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ticket(u64);

/// What a first has left that no other inherits.
#[must_use = "to be dropped when nothing is locked"]
#[derive(Debug)]
pub(crate) struct Left<T> {
    /// Whether the line is empty.
    pub(crate) last: bool,
    _unclaimed: [Option<T>; 2],
}

/// The result of a [`Fifo::tick`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick {
    /// Whether places were removed.
    pub(crate) put_out: bool,
    /// Whether the line is empty.
    pub(crate) empty: bool,
    /// Whether ticks end: no one waits behind the first, and it owes no sign.
    pub(crate) over: bool,
}

impl<T: Default> Fifo<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len.load(Ordering::Acquire) == 0
    }

    /// Enters the line with this ticket, or anew. Ready for the first, with what was left to it.
    /// `tick` is called when [`tick`](Self::tick) must be called from now on.
    pub(crate) fn poll_first(
        &self,
        ticket: &mut Option<Ticket>,
        context: &mut Context<'_>,
        tick: impl FnOnce(),
    ) -> Poll<T> {
        let mut state = self.state();
        let known = ticket.and_then(|ticket| state.find(ticket));
        let at = known.unwrap_or_else(|| state.push(ticket));
        if at == 0 {
            state.places[0].owes_since = None;
            let legacy = std::mem::take(&mut state.legacy);
            self.count(&state);
            return Poll::Ready(legacy);
        }
        state.places[at].seen(context.waker());
        self.count(&state);
        let begins = !std::mem::replace(&mut state.ticking, true);
        // A new waiter may not stay long enough to see the first asked.
        let waker = if begins { state.wake_first() } else { None };
        drop(state);
        if begins {
            tick();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        Poll::Pending
    }

    /// Whether the ticket is the first. Asking shows that it is polled.
    pub(crate) fn sign(&self, ticket: Ticket, context: &mut Context<'_>) -> bool {
        self.state().sign(ticket, context.waker())
    }

    /// Ready when there is news for the first (`true`), or when the ticket is not the first any
    /// more (`false`).
    pub(crate) fn poll_nudged(&self, ticket: Ticket, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = self.state();
        let first = state.sign(ticket, context.waker());
        if !first || std::mem::take(&mut state.nudged) { Poll::Ready(first) } else { Poll::Pending }
    }

    /// There is news for the first, whichever that is by then.
    pub(crate) fn nudge(&self) {
        let waker = {
            let mut state = self.state();
            state.nudged = !state.places.is_empty();
            // A first that owes a sign was woken, and has not been polled yet.
            match state.places.front() {
                Some(first) if first.owes_since.is_none() => state.wake_first(),
                _ => None,
            }
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Leaves the line. The first leaves this to the next.
    pub(crate) fn leave(&self, ticket: Ticket, mut legacy: Option<T>) -> Left<T> {
        let (waker, last, unclaimed) = {
            let mut state = self.state();
            let Some(at) = state.find(ticket) else {
                return Left { last: false, _unclaimed: [legacy, None] };
            };
            state.remove(at);
            self.count(&state);
            let last = state.places.is_empty();
            let (mut waker, mut unclaimed) = (None, None);
            if last {
                state.nudged = false;
                unclaimed = Some(std::mem::take(&mut state.legacy));
            } else if at == 0 {
                if let Some(legacy) = legacy.take() {
                    unclaimed = Some(std::mem::replace(&mut state.legacy, legacy));
                }
                waker = state.wake_first();
            }
            (waker, last, unclaimed)
        };
        if let Some(waker) = waker {
            waker.wake();
        }
        Left { last, _unclaimed: [legacy, unclaimed] }
    }

    /// Asks the first for a sign if others wait behind it, and removes places that gave none. Call
    /// it repeatedly until it is over. With `forgive`, late places have until the next tick,
    /// because this call was late itself.
    pub(crate) fn tick(&self, forgive: bool) -> Tick {
        let (wakers, tick, unclaimed) = {
            let state = &mut *self.state();
            state.ticks += 1;
            let now = state.ticks;
            let before = state.places.len() - state.left;
            if forgive {
                for place in state.places.iter_mut().filter(|place| place.owes_since.is_some()) {
                    place.owes_since = Some(now);
                }
            } else if state.places.front().is_some_and(|first| first.is_late(now)) {
                state.places.retain(|place| !place.has_left && !place.is_late(now));
                state.left = 0;
            }
            self.count(state);
            let now_in_line = state.places.len() - state.left;
            let put_out = now_in_line < before;
            let alone = now_in_line < 2;
            // If one is not polled, its neighbours may not be either.
            let asked = match alone {
                _ if put_out => state.places.len(),
                true => 0,
                false => 1,
            };
            let asked = state.places.iter_mut().take(asked).filter(|place| !place.has_left);
            let wakers: Vec<_> = asked.filter_map(|place| place.ask(now)).collect();
            let first = state.places.front();
            let over = alone && first.is_none_or(|first| first.owes_since.is_none());
            state.ticking = !over;
            // Nobody is left to inherit it. It is dropped when nothing is locked.
            let unclaimed = (now_in_line == 0).then(|| std::mem::take(&mut state.legacy));
            (wakers, Tick { put_out, empty: now_in_line == 0, over }, unclaimed)
        };
        drop(unclaimed);
        wakers.into_iter().for_each(Waker::wake);
        tick
    }

    /// Ends the ticks early. All waiters are woken, and the first to be polled starts them again.
    pub(crate) fn stop_ticking(&self) {
        let wakers: Vec<_> = {
            let mut state = self.state();
            state.ticking = false;
            state.places.iter().filter_map(|place| place.waker.clone()).collect()
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    fn count(&self, state: &State<T>) {
        self.len.store(state.places.len() - state.left, Ordering::Release);
    }
}

impl<T> State<T> {
    fn find(&self, ticket: Ticket) -> Option<usize> {
        if self.places.front().is_some_and(|first| first.ticket == ticket) {
            return Some(0);
        }
        self.places.binary_search_by_key(&ticket, |place| place.ticket).ok()
    }

    /// Whether the ticket is the first. It is polled then.
    fn sign(&mut self, ticket: Ticket, waker: &Waker) -> bool {
        let first = self.find(ticket) == Some(0);
        if first {
            self.places[0].seen(waker);
        }
        first
    }

    fn push(&mut self, ticket: &mut Option<Ticket>) -> usize {
        let new = Ticket(self.next_ticket);
        self.next_ticket += 1;
        *ticket = Some(new);
        let place = Place { ticket: new, has_left: false, waker: None, owes_since: None };
        self.places.push_back(place);
        self.places.len() - 1
    }

    fn remove(&mut self, at: usize) {
        if at == 0 {
            self.places.pop_front();
            while self.places.front().is_some_and(|place| place.has_left) {
                self.places.pop_front();
                self.left -= 1;
            }
            return;
        }
        let place = &mut self.places[at];
        (place.has_left, place.waker) = (true, None);
        self.left += 1;
        if self.left > 16 && self.left > self.places.len() / 2 {
            self.places.retain(|place| !place.has_left);
            self.left = 0;
        }
    }

    fn wake_first(&mut self) -> Option<Waker> {
        let late = self.ticks + 1;
        self.places.front_mut()?.ask(late)
    }
}

impl Place {
    fn seen(&mut self, waker: &Waker) {
        self.owes_since = None;
        match &mut self.waker {
            Some(known) => known.clone_from(waker),
            none => *none = Some(waker.clone()),
        }
    }

    /// Asks it for a sign, until this tick.
    fn ask(&mut self, late: u64) -> Option<Waker> {
        self.owes_since.get_or_insert(late);
        self.waker.clone()
    }

    fn is_late(&self, now: u64) -> bool {
        self.owes_since.is_some_and(|since| since < now)
    }
}

#[cfg(test)]
mod tests;
