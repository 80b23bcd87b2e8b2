//! Who holds the lock and who stands in line, as the server showed it: the judge of what the scripts do.

use std::collections::HashSet;

use harness::redis::Value;

use super::call::{Call, Verb, is_ours, unwire};
use super::scripts::CHANNEL;
use super::state::State;
use super::{HEARTBEAT, SKEW, WAIT, World};
use crate::reentrant::Id;
use crate::sim::{Kind, Ms};

/// Milliseconds of a deadline that are no difference: a remaining time is a little shorter when a script asks for it.
const NEARLY: f64 = 0.1;

/// Those who wait and have shown themselves as they promise.
pub(super) type Living = HashSet<Id>;

/// The record.
#[derive(Debug, Default)]
pub(super) struct Line {
    state: State,
    /// Redisson's scripts are to wake as ours do.
    judges_theirs: bool,
    /// Who stands in line, since when.
    places: Vec<(Id, Ms)>,
    ousted: HashSet<Id>,
    /// The lock is free, and this has been the head since then.
    idle: Option<(Id, Ms)>,
}

impl Line {
    pub(super) fn new(judges_theirs: bool) -> Self {
        Self { judges_theirs, ..Self::default() }
    }

    pub(super) fn count(&self, id: Id) -> u32 {
        self.state.holders.get(&id).copied().unwrap_or(0)
    }

    pub(super) fn is_free(&self) -> bool {
        self.state.holders.is_empty()
    }

    pub(super) fn holders(&self) -> impl Iterator<Item = Id> {
        self.state.holders.keys().copied()
    }

    pub(super) fn queue(&self) -> &[Id] {
        &self.state.queue
    }

    /// When all who stand in line are overdue.
    pub(super) fn overdue_at(&self) -> Ms {
        self.state.deadlines.values().fold(0.0, |last, deadline| deadline.max(last)) as Ms + 1
    }

    /// Whether the hold was taken away by force: until its next one the holder may believe what he likes.
    pub(super) fn is_ousted(&self, id: Id) -> bool {
        self.ousted.contains(&id)
    }

    /// A new hold under an old id.
    pub(super) fn begin_again(&mut self, id: Id) {
        self.ousted.remove(&id);
    }

    /// The lock has expired.
    pub(super) fn expired(&mut self, now: Ms) {
        (self.state.holders, self.state.until) = Default::default();
        self.note_idle(now);
    }

    /// Takes note of what a script has changed.
    pub(super) fn ran(
        &mut self,
        call: &Call,
        answer: &Value,
        living: &Living,
        world: &mut World<'_>,
    ) {
        let before = std::mem::replace(&mut self.state, State::seen(world));
        world.say(|| format!("        server: {}", self.state.shown()));
        self.check_places(call, &before, living, world);
        self.check_holders(call, answer, &before, world);
        if let (Verb::TheirLock { .. }, Value::Int(..0)) = (call.verb, answer) {
            let what = format!("{call} is answered with less than nothing");
            world.violation(Kind::NegativeWait, what);
        }
        if !call.verb.is_theirs() {
            self.check_deadlines(call, &before, world);
        }
        if !call.verb.is_theirs() || self.judges_theirs {
            self.check_wakes(call, &before, world);
        }
        if matches!(call.verb, Verb::Force { .. } | Verb::TheirForce) {
            let gone = before.holders.keys().filter(|id| !self.state.holders.contains_key(id));
            self.ousted.extend(gone);
        }
        self.note_idle(world.now());
    }

    /// A head that will not come must not hold up those behind it for longer than its deadline should.
    pub(super) fn check_head(
        &self,
        waits: impl Fn(Id) -> bool,
        living: &Living,
        world: &mut World<'_>,
    ) {
        let Some((head, since)) = self.idle else { return };
        let others = self.places.iter().filter(|(id, _)| is_ours(*id) && living.contains(id));
        let Some(seen) = others.map(|(_, since)| *since).min().filter(|_| !waits(head)) else {
            return;
        };
        let base = since.max(seen);
        let end = if is_ours(head) {
            base + WAIT
        } else {
            base.max(self.state.deadlines.get(&head).map_or(0, |deadline| *deadline as Ms))
        };
        if world.now() > end + HEARTBEAT + 1 {
            let now = world.now();
            world.violation(
                Kind::DeadAtHead,
                format!("{head} is dead, and at {now} it still heads the line"),
            );
        }
    }

    fn check_places(
        &mut self,
        call: &Call,
        before: &State,
        living: &Living,
        world: &mut World<'_>,
    ) {
        let now = world.now();
        let state = &self.state;
        if state.queue.iter().collect::<HashSet<_>>() != state.deadlines.keys().collect()
            || state.queue.len() != state.deadlines.len()
        {
            world.violation(Kind::QueueTorn, format!("{call} leaves {}", state.shown()));
        }
        // Whoever looks may have a clock that is ahead.
        let soon = now.saturating_add_signed(SKEW) as f64;
        let in_time = |id| before.deadlines.get(id).is_none_or(|deadline| *deadline > soon);
        let entitled = |id| living.contains(id) && (is_ours(*id) || in_time(id));
        let granted: Vec<Id> =
            self.holders().filter(|id| !before.holders.contains_key(id)).collect();
        for id in &granted {
            let mut earlier = self.places.iter().take_while(|(place, _)| place != id);
            if let Some((passed, _)) = earlier.find(|(place, _)| entitled(place)) {
                world.violation(
                    Kind::OutOfOrder,
                    format!("{call}: {id} is granted before {passed}"),
                );
            }
        }
        let leaves = matches!(call.verb, Verb::Withdraw | Verb::TheirGiveUp { .. });
        for (id, _) in self.places.iter().filter(|(id, _)| !state.keeps_place(*id, before)) {
            if entitled(id) && !granted.contains(id) && !(leaves && *id == call.id) {
                world.violation(Kind::Evicted, format!("{call} drops {id}, which is alive"));
            }
        }
        self.places.retain(|(id, _)| state.keeps_place(*id, before));
        for id in &state.queue {
            if !self.places.iter().any(|(place, _)| place == id) {
                self.places.push((*id, now));
            }
        }
    }

    fn check_holders(&self, call: &Call, answer: &Value, before: &State, world: &mut World<'_>) {
        let (state, now) = (&self.state, world.now());
        if state.holders.len() > 1 {
            world.violation(Kind::TwoHolders, format!("{call} leaves {}", state.shown()));
        }
        if !state.holders.is_empty() && state.until.is_none() {
            world.violation(Kind::NoTtl, format!("{call} leaves the lock without a TTL"));
        }
        let is_late = call.verb.not_after().is_some_and(|not_after| now > not_after);
        if is_late && state != before {
            world.violation(Kind::TooLate, format!("{call} runs at {now}"));
        }
        if call.verb.is_theirs() {
            return;
        }
        if state.until.is_some() && state.until < before.until {
            world.violation(Kind::TtlFell, format!("{call} makes the hold shorter"));
        }
        let said = match (call.verb, answer) {
            _ if is_late => None,
            (Verb::Acquire { .. }, answer) => Some(*answer == Value::Nil),
            (Verb::Reenter { .. }, Value::Int(answer)) => Some(*answer == 1),
            (Verb::Renew { .. }, Value::Array(answers)) => Some(answers[..] == [Value::Int(1)]),
            _ => None,
        };
        if said.is_some_and(|said| said != state.holders.contains_key(&call.id)) {
            world.violation(Kind::FalseAnswer, format!("{call} is answered {answer:?}"));
        }
        let forced = matches!(call.verb, Verb::Force { .. });
        let lost =
            before.holders.keys().find(|id| **id != call.id && !state.holders.contains_key(id));
        if let Some(lost) = lost.filter(|_| !forced) {
            world.violation(Kind::Vanished, format!("{call} takes the hold of {lost}"));
        }
    }

    /// Who is granted or withdraws takes what it had left from those behind, and a dropped waiter of ours its `wait` from those
    /// of ours next to it; nothing else brings a deadline nearer, but for a head of ours.
    fn check_deadlines(&self, call: &Call, before: &State, world: &mut World<'_>) {
        let now = world.now() as f64;
        let place = |queue: &[Id], id: Id| queue.iter().position(|other| *other == id);
        let stood = place(&before.queue, call.id);
        let granted =
            self.state.holders.contains_key(&call.id) && !before.holders.contains_key(&call.id);
        let acquires = matches!(call.verb, Verb::Acquire { .. });
        let dropped = |id: Id| if acquires { self.shift_of_drops(id, call, before) } else { 0.0 };
        let left = match stood {
            Some(_) if granted => before.deadlines[&call.id] + dropped(call.id) - now,
            Some(stood) if call.verb == Verb::Withdraw => {
                let ahead =
                    stood.checked_sub(1).map_or(now, |i| before.deadlines[&before.queue[i]]);
                before.deadlines[&call.id] - ahead.max(now)
            }
            _ => 0.0,
        };
        let left = left.clamp(0.0, WAIT as f64);
        let turn = acquires && !granted;
        let stands = place(&self.state.queue, call.id);
        let mine = |state: &State| state.deadlines.get(&call.id).copied();
        let raised = mine(&self.state)
            .zip(mine(before))
            .map_or(0.0, |(has, had)| (has - had - dropped(call.id)).max(0.0));
        for (id, deadline) in &self.state.deadlines {
            let Some(had) = before.deadlines.get(id).filter(|_| *id != call.id) else { continue };
            let mut expected = had + dropped(*id);
            if place(&before.queue, *id) > stood && stood.is_some() {
                expected -= left;
            }
            let may_show = turn && self.state.queue.first() == Some(id) && is_ours(*id);
            if may_show && *deadline < expected - NEARLY {
                expected = now + WAIT as f64;
            }
            if turn && stands.is_some() && place(&self.state.queue, *id) > stands {
                expected += raised;
            }
            if (deadline - expected).abs() >= NEARLY {
                let what = format!(
                    "{call} moves the deadline of {id} from {had:.0} to {deadline:.0}, not to {expected:.0}"
                );
                world.violation(Kind::WrongDeadline, what);
            }
        }
    }

    /// How far the drop of those at the head, by this acquisition, brings this one's deadline nearer.
    fn shift_of_drops(&self, id: Id, call: &Call, before: &State) -> f64 {
        let place = |queue: &[Id], id: Id| queue.iter().position(|other| *other == id);
        let now_at = |id: Id| place(&self.state.queue, id);
        // The caller itself, when it was not seen for too long, stands in line again, behind all others.
        let gone = |other: &Id| match now_at(*other) {
            None => *other != call.id,
            Some(at) => *other == call.id && now_at(id).is_some_and(|mine| mine < at),
        };
        let Some(place) = place(&before.queue, id) else { return 0.0 };
        let next_to_it = before.queue[..place].iter().rev().take_while(|_| is_ours(id));
        let shifts = next_to_it.take_while(|other| is_ours(**other)).filter(|other| gone(other));
        -(WAIT as f64) * shifts.count() as f64
    }

    /// Whoever frees the lock, or makes it another's turn while it is free, tells that one.
    fn check_wakes(&self, call: &Call, before: &State, world: &mut World<'_>) {
        // Ours leave who is overdue to the next turn; by its clock, Redisson drops it.
        let now = if call.verb.is_theirs() { 0.0 } else { world.now() as f64 };
        let Some(head) = self.state.next(now) else { return };
        let news = !before.holders.is_empty() || before.next(now) != Some(head);
        let mut messages = world.server.messages().iter();
        let mut told = || messages.any(|message| whose(&message.channel) == Some(*head));
        if self.is_free() && news && *head != call.id && !told() {
            let what = format!("{call} leaves it to {head}, and does not say so");
            world.violation(Kind::NotWoken, what);
        }
    }

    fn note_idle(&mut self, now: Ms) {
        let head = self.state.queue.first().copied().filter(|_| self.is_free());
        let same = self.idle.filter(|(idle, _)| Some(*idle) == head);
        self.idle = same.or(head.map(|head| (head, now)));
    }
}

/// Whose channel this is, if it is a waiter's own.
pub(super) fn whose(channel: &str) -> Option<Id> {
    channel.strip_prefix(CHANNEL)?.strip_prefix(':').map(unwire)
}
