//! The holder and the line of waiters, as the server showed them: the judge of what the scripts do.

use std::collections::{HashMap, HashSet};

use harness::redis::Value;

use super::call::{Call, Turn, Verb, World, is_ours, unwire};
use super::scripts::CHANNEL;
use super::state::{State, is_unseen, mark, mark_of};
use super::times::{HEARTBEAT, SKEW, WAIT};
use crate::clients::{Id, Redisson, THEIR_WAIT};
use crate::model::{Kind, Ms};

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
    /// When each waiter of ours last had its turn.
    seen: HashMap<Id, Ms>,
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
        if let Verb::Acquire { terms: Turn { stands: true }, not_after, .. } = call.verb
            && world.now() <= not_after
        {
            self.seen.insert(call.id, world.now());
        }
        self.check_places(call, &before, living, world);
        self.check_holders(call, answer, &before, world);
        if let (Verb::Redisson(Redisson::Lock { .. }), Value::Int(..0)) = (call.verb, answer) {
            let what = format!("{call} is answered with less than nothing");
            world.violation(Kind::NegativeWait, what);
        }
        if !call.verb.is_theirs() {
            self.check_deadlines(call, &before, world);
        }
        if !call.verb.is_theirs() || self.judges_theirs {
            self.check_wakes(call, &before, world);
        }
        if call.verb.is_force() {
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
            // However many died at the same time; times are kept in steps.
            base.max(self.seen.get(&head).map_or(0, |seen| seen + WAIT + WAIT / 25))
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
        let leaves = matches!(call.verb, Verb::Tidy | Verb::Redisson(Redisson::GiveUp { .. }));
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
        let is_late = call.is_late(now);
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
            (Verb::Renew { .. }, answer @ (Value::Int(_) | Value::Array(_))) => {
                Some(*answer == Value::Int(1))
            }
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

    /// A turn gives whom it moves of ours what it needs, and moves those of Redisson's behind it as far; nothing else moves a
    /// deadline.
    fn check_deadlines(&self, call: &Call, before: &State, world: &mut World<'_>) {
        let now = world.now() as f64;
        let mut wrong =
            |what: String| world.violation(Kind::WrongDeadline, format!("{call} {what}"));
        let Verb::Acquire { terms: Turn { stands }, not_after, .. } = call.verb else {
            for (id, deadline) in &self.state.deadlines {
                if before.deadlines.get(id).is_some_and(|had| had != deadline) {
                    wrong(format!("moves the deadline of {id}"));
                }
            }
            return;
        };
        let granted =
            self.state.holders.contains_key(&call.id) && !before.holders.contains_key(&call.id);
        let had_left = before.deadlines.get(&call.id).map_or(0.0, |had| had - now - WAIT as f64);
        let turn = stands && !self.state.holders.contains_key(&call.id) && now <= not_after as f64;
        // How far the last one of ours was moved.
        let mut moved = if granted { -had_left.max(0.0) } else { 0.0 };
        let (mut need, mut latest) = (now + WAIT as f64, 0.0_f64);
        for (place, id) in self.state.queue.iter().enumerate() {
            let Some(has) = self.state.deadlines.get(id).copied() else { continue };
            let had = before.deadlines.get(id).copied();
            if !is_ours(*id) {
                if had.is_some_and(|had| (had + moved - has).abs() > NEARLY) {
                    wrong(format!(
                        "moves the deadline of {id} from {had:.1?} to {has:.1}, not by {moved:.1}"
                    ));
                }
                (need, latest) = (need + THEIR_WAIT as f64, latest.max(has));
                continue;
            }
            let due = need.max(latest);
            moved = had.map_or(0.0, |had| has - had);
            if moved.abs() > NEARLY && (has - due).abs() > NEARLY {
                wrong(format!("moves the deadline of {id} to {has:.1}, not to {due:.1}"));
            }
            let unseen = is_unseen(*id, has, now as Ms);
            if had.is_some_and(|had| mark(had) != mark(has)) && *id != call.id && !unseen {
                wrong(format!("says that {id} was seen"));
            }
            if turn && *id == call.id {
                if has < due - (WAIT / 5) as f64 - NEARLY {
                    wrong(format!("has a deadline at {has:.1}, and needs {due:.1}"));
                }
                if mark(has) != mark_of(now as Ms) {
                    wrong("does not say that it was seen".to_string());
                }
            }
            if turn && place == 0 && has > due + NEARLY {
                wrong(format!("leaves {id} until {has:.1}, longer than to {due:.1}"));
            }
        }
    }

    /// Whoever frees the lock, or makes it another's turn while it is free, tells that one.
    fn check_wakes(&self, call: &Call, before: &State, world: &mut World<'_>) {
        // Ours leave who is overdue to the next turn; by its clock, Redisson drops it.
        let now = (!call.verb.is_theirs()).then(|| world.now());
        let Some(head) = self.state.next(now) else { return };
        let dropped = matches!(call.verb, Verb::Acquire { .. })
            && before.queue.first() != self.state.queue.first();
        let news = !before.holders.is_empty() || before.next(now) != Some(head) || dropped;
        let mut messages = world.server.messages().iter();
        let told = messages.any(|message| whose(&message.channel) == Some(*head));
        if self.is_free() && news && *head != call.id && !told {
            let what = format!("{call} leaves it to {head}, and does not say so");
            world.violation(Kind::NotWoken, what);
        }
        let granted =
            self.state.holders.contains_key(&call.id) && !before.holders.contains_key(&call.id);
        if let Verb::Acquire { lease: ..HEARTBEAT, .. } = call.verb
            && granted
            && !told
        {
            let what = format!("{call} is granted for a short time, and does not say so to {head}");
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
