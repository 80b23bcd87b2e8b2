//! [`Queue`]: the commands of one connection, from their callers to their replies. Replies come in
//! the order of the commands.

use std::{
    collections::VecDeque,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

use super::{
    answers::{Answer, Failure, FailureKind},
    connection::Heard,
    script::Reply,
    topology::slot_of,
};

/// How many commands may wait for their replies, and how many bytes may wait to be written. Further
/// commands fail.
const MOST_COMMANDS: usize = 1 << 18;
const MOST_BYTES: usize = 1 << 26;

/// Timeouts are looked for this many times in the time for one command, at most.
const LOOKS: u32 = 64;

/// The commands of one connection.
pub(super) struct Queue {
    state: Mutex<State>,
    /// The time for commands without a time of their own.
    usual: Duration,
    /// Whether messages come over the connection.
    subscribes: bool,
    /// Notified when there is something to write.
    pub(super) filled: Notify,
    /// Notified when there is a first command to look after.
    pub(super) watched: Notify,
}

#[derive(Default)]
struct State {
    /// What the connection's task is to write.
    bytes: Vec<u8>,
    waiting: VecDeque<Waiting>,
    /// How many of `waiting`, from the end, are still in `bytes`.
    unsent: usize,
    /// Whether anything may have been written. What the server says before cannot repeat it.
    wrote: bool,
    /// Whether nobody looks for timeouts, because no command waits.
    unwatched: bool,
    /// Why the connection has ended.
    ended: Option<Failure>,
}

/// A command whose reply has not come.
struct Waiting {
    /// `None`: its caller was told that it timed out.
    caller: Option<oneshot::Sender<Answer>>,
    expected: Expected,
    /// When its usual time ends. `None`: its caller has a time of its own.
    by: Option<Instant>,
}

/// How a server answers a command.
pub(super) enum Expected {
    Reply,
    /// With an error, or an array of this kind and channel.
    Confirmation(&'static str, String),
}

impl Queue {
    pub(super) fn new(usual: Duration, subscribes: bool) -> Self {
        let (state, filled, watched) = Default::default();
        Self { state, usual, subscribes, filled, watched }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes commands that are to be written one after the other.
    pub(super) fn push<const N: usize>(
        &self,
        bytes: &[u8],
        expected: [Expected; N],
        has_usual_time: bool,
    ) -> Result<[oneshot::Receiver<Answer>; N], Failure> {
        let mut state = self.state();
        if let Some(why) = &state.ended {
            return Err(why.unsent());
        }
        let is_full =
            state.waiting.len() + N > MOST_COMMANDS || state.bytes.len() + bytes.len() > MOST_BYTES;
        if is_full {
            return Err(Failure::new(FailureKind::Full, "too many commands wait for replies"));
        }
        let by = has_usual_time.then(|| Instant::now() + self.usual);
        let answers = expected.map(|expected| {
            let (caller, answer) = oneshot::channel();
            state.waiting.push_back(Waiting { caller: Some(caller), expected, by });
            answer
        });
        state.unsent += N;
        let is_first = state.bytes.is_empty();
        state.bytes.extend_from_slice(bytes);
        let is_unwatched = by.is_some() && std::mem::take(&mut state.unwatched);
        drop(state);
        if is_first {
            self.filled.notify_one();
        }
        if is_unwatched {
            self.watched.notify_one();
        }
        Ok(answers)
    }

    /// Swaps what is to be written with this empty buffer. From then on it may have been sent.
    pub(super) fn take(&self, buffer: &mut Vec<u8>) {
        let mut state = self.state();
        std::mem::swap(&mut state.bytes, buffer);
        state.unsent = 0;
        state.wrote |= !buffer.is_empty();
    }

    /// Gives what the server sent to whom it is for. Fails when it is for nobody.
    pub(super) fn deliver(&self, answer: Answer) -> Result<Option<Heard>, Failure> {
        if self.subscribes
            && let Ok(Reply::Array(parts)) = &answer
            && let [Reply::Bytes(kind), Reply::Bytes(channel), _] = &parts[..]
        {
            match &kind[..] {
                b"message" | b"smessage" => {
                    return Ok(Some(Heard::Message(String::from_utf8_lossy(channel).into())));
                }
                b"subscribe" | b"ssubscribe" | b"unsubscribe" | b"sunsubscribe" => {
                    return Ok(self.confirm(kind, channel));
                }
                _ => {}
            }
        }
        let mut state = self.state();
        let is_written = state.is_first_written();
        let expected = state.waiting.front().map(|waiting| &waiting.expected);
        let confirms = matches!(expected, Some(Expected::Confirmation(..)));
        if confirms && answer.is_ok() {
            return Err(Failure::new(FailureKind::Gone, "the server confirms nothing"));
        }
        // Late: the server had ended the subscription itself, as the slot moved. What it sent then
        // was taken for the reply to SUNSUBSCRIBE.
        if self.subscribes
            && state.wrote
            && let Err(why) = &answer
            && why.kind == FailureKind::Redirected
            && !state.may_redirect_first(why)
        {
            return Ok(None);
        }
        let first = if is_written { state.waiting.pop_front() } else { None };
        let Some(waiting) = first else {
            return Err(match answer {
                // A server may refuse the connection before it reads a command. It cannot answer
                // one: that would be written all the same, and its reply be taken for the next
                // one's.
                Err(refusal) if !state.wrote => refusal.refuses_connection(),
                // Its words may repeat a password.
                _ => Failure::unasked(),
            });
        };
        drop(state);
        if let Some(caller) = waiting.caller {
            let _ = caller.send(answer);
        }
        Ok(None)
    }

    /// A subscription began or ended. If nobody asked for that, it is reported.
    fn confirm(&self, kind: &[u8], channel: &[u8]) -> Option<Heard> {
        let mut state = self.state();
        let is_expected = state.is_first_written()
            && state.waiting.front().is_some_and(|first| match &first.expected {
                Expected::Confirmation(a, b) => a.as_bytes() == kind && b.as_bytes() == channel,
                Expected::Reply => false,
            });
        let confirmed = if is_expected { state.waiting.pop_front() } else { None };
        drop(state);
        match confirmed {
            Some(waiting) => {
                if let Some(caller) = waiting.caller {
                    let _ = caller.send(Ok(Reply::Nil));
                }
                None
            }
            // A slot has moved, and its subscriptions have ended.
            None => Some(Heard::Dropped(1)),
        }
    }

    /// Tells the callers whose usual time is over. Returns when to look again, if anyone waits.
    pub(super) fn expire(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = self.state();
        let waiting = state.waiting.iter_mut().filter(|waiting| waiting.caller.is_some());
        for waiting in waiting {
            match waiting.by {
                Some(by) if by > now => return Some(by.max(now + self.usual / LOOKS)),
                Some(_) => {
                    let _ = waiting.caller.take().map(|it| it.send(Err(Failure::timed_out())));
                }
                None => {}
            }
        }
        state.unwatched = true;
        None
    }

    /// Ends all that waits, once.
    pub(super) fn close(&self, why: Failure) {
        let mut state = self.state();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(why.clone());
        state.bytes = Vec::new();
        let (waiting, unsent) = (std::mem::take(&mut state.waiting), state.unsent);
        drop(state);
        let sent = waiting.len() - unsent;
        for (n, Waiting { caller, .. }) in waiting.into_iter().enumerate() {
            let why = if n < sent { why.clone() } else { why.unsent() };
            let _ = caller.map(|caller| caller.send(Err(why)));
        }
    }
}

impl State {
    /// Whether a command waits that may have been written.
    fn is_first_written(&self) -> bool {
        self.waiting.len() > self.unsent
    }

    /// Whether this may be the answer to the first command. Of the commands of a connection for
    /// messages, only those about a channel are redirected.
    fn may_redirect_first(&self, why: &Failure) -> bool {
        let first = self.waiting.front().filter(|_| self.is_first_written());
        match first.map(|first| &first.expected) {
            Some(Expected::Confirmation(_, channel)) => {
                slot_in(&why.text).is_none_or(|slot| slot == slot_of(channel.as_bytes()))
            }
            Some(Expected::Reply) | None => false,
        }
    }
}

/// The slot in `MOVED <slot> <address>`. `CLUSTERDOWN` names none.
fn slot_in(redirection: &str) -> Option<u16> {
    redirection.split(' ').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
