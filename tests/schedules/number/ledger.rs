//! The account of all permits: the judge of what each copy did to the number, and of what clients are told.

use std::collections::{BTreeMap, BTreeSet};

use harness::redis::Value;

use super::call::{Call, Verb, World};
use super::client::{Request, Said, said};
use super::scripts::{REQUESTS, channel};
use super::terms::{KEPT, Sort};
use super::thread::is_true;
use crate::LOCK;
use crate::known::Known;
use crate::model::{Kind, Ms, Seen, StepId};

/// The account.
#[derive(Debug)]
pub(super) struct Ledger {
    sort: Sort,
    known: Known,
    value: Option<i64>,
    until: Option<Ms>,
    /// How many permits there would be if all that are out were returned.
    total: i64,
    /// A semaphore that is deleted and made again is another one.
    generation: u32,
    /// The requests that took effect; `false`: it was undone.
    effective: BTreeMap<StepId, bool>,
    /// When each request of ours took effect.
    ran: BTreeMap<StepId, Ms>,
    /// The permits that are out, by the acquisition that took them.
    out: BTreeMap<StepId, Grant>,
}

#[derive(Debug, Clone, Copy)]
struct Grant {
    permits: i64,
    generation: u32,
}

/// What one copy has done.
struct Effect {
    before: Option<i64>,
    after: Option<i64>,
}

impl Effect {
    fn by(&self) -> i64 {
        self.after.unwrap_or(0) - self.before.unwrap_or(0)
    }
}

impl Ledger {
    pub(super) fn new(sort: Sort, known: Known) -> Self {
        Self {
            sort,
            known,
            value: None,
            until: None,
            total: 0,
            generation: 0,
            effective: BTreeMap::new(),
            ran: BTreeMap::new(),
            out: BTreeMap::new(),
        }
    }

    pub(super) fn value(&self) -> Option<i64> {
        self.value
    }

    /// The key is deleted, or has expired.
    pub(super) fn is_gone(&mut self) {
        (self.value, self.until) = (None, None);
    }

    /// Takes note of what a copy has done. `is_pending`: its client of Redisson's waits for an answer.
    pub(super) fn ran(
        &mut self,
        call: &Call,
        answer: &Value,
        is_pending: bool,
        world: &mut World<'_>,
    ) {
        let seen = world.server.seen(LOCK).cloned();
        let after = seen.as_ref().map(|seen| seen.text.parse().expect("a number"));
        let effect = Effect { before: self.value, after };
        world.say(|| format!("        server: {after:?}"));
        self.check_ttl(call, &effect, seen.as_ref(), world);
        self.check_messages(call, &effect, world);
        self.value = after;
        if effect.before.is_none() && after.is_some() {
            self.generation += 1;
            self.total = effect.by();
            // What this very copy adds is counted below.
            if !matches!(call.verb, Verb::Set(_)) {
                self.total = 0;
            }
        }
        if call.who == '!' {
            return;
        }
        let is_late = world.now() > call.not_after;
        if is_late {
            // Nobody waits for the answer any more.
            if effect.by() != 0 {
                world.violation(Kind::TooLate, format!("{call} runs at {}", world.now()));
            }
            return;
        }
        match call.theirs {
            true => self.theirs(call, answer, is_pending, &effect, world),
            false => self.ours(call, said(answer), &effect, world),
        }
    }

    fn ours(&mut self, call: &Call, said: Said, effect: &Effect, world: &mut World<'_>) {
        let by = effect.by();
        let operation = call.operation;
        let known = self.effective.get(&operation).copied();
        let counts = match (call.verb, effect.before) {
            (Verb::Set(n), None) => Some(n),
            (Verb::Acquire(n), Some(free)) if free >= n => Some(-n),
            (Verb::Release { permits, .. }, Some(_)) => Some(permits),
            (Verb::Add(n), _) => Some(n),
            (Verb::Drain { expected }, free) if free.unwrap_or(0) == expected => Some(-expected),
            // One below 1 is removed.
            (Verb::CountDown, Some(count)) => Some(if count > 0 { -1 } else { -count }),
            _ => None,
        };
        // By then the server may have forgotten the request.
        let may_be_forgotten =
            self.ran.get(&operation).is_some_and(|ran| ran + KEPT <= world.now());
        if let Verb::Withdraw(n) = call.verb {
            if known == Some(true) && may_be_forgotten && said == Said::No {
                self.expect(call, by, 0, world);
                return self.is_lost(operation, world);
            }
            let undoes = known == Some(true) && effect.before.is_some();
            self.expect(call, by, if undoes { n } else { 0 }, world);
            if undoes != (said == Said::Yes) {
                world.violation(Kind::FalseAnswer, format!("{call} is answered {said:?}"));
            }
            self.is_undone(operation, n, undoes);
            return;
        }
        if call.verb == Verb::Cancel {
            self.expect(call, by, 0, world);
            let took_effect = known == Some(true);
            if took_effect != (said == Said::No) && !may_be_forgotten {
                world.violation(Kind::FalseAnswer, format!("{call} is answered {said:?}"));
            }
            self.effective.entry(operation).or_insert(false);
            return;
        }
        match (said, known) {
            (Said::Late, _) => {}
            (Said::Yes, None) => match counts {
                Some(counts) => {
                    self.expect(call, by, counts, world);
                    // What changes nothing may be done once more.
                    if call.verb != (Verb::Drain { expected: 0 }) {
                        self.effective.insert(operation, true);
                        self.ran.insert(operation, world.now());
                    }
                    self.takes_effect(call.verb, operation, by);
                }
                None => {
                    let what = format!("{call} is answered {said:?}, with {:?}", effect.before);
                    world.violation(Kind::FalseAnswer, what);
                }
            },
            // A repeat of what took effect: a release says 0 then.
            (Said::Yes, Some(_)) => self.expect_once(call, by, world),
            (_, Some(true)) if !matches!(call.verb, Verb::Release { .. } | Verb::Add(_)) => {
                self.expect_once(call, by, world);
                world.violation(Kind::FalseAnswer, format!("{call} is answered {said:?}"));
            }
            (_, Some(_)) => self.expect_once(call, by, world),
            (_, None) => {
                self.expect(call, by, 0, world);
                if counts.is_some() {
                    let what = format!("{call} is answered {said:?}, with {:?}", effect.before);
                    world.violation(Kind::FalseAnswer, what);
                }
                if let (Verb::Release { of, .. }, Said::Gone) = (call.verb, said) {
                    self.out.remove(&of);
                }
            }
        }
    }

    fn takes_effect(&mut self, verb: Verb, operation: StepId, by: i64) {
        match verb {
            Verb::Acquire(permits) => self.granted(operation, permits),
            Verb::Release { of, permits } => self.returned(of, permits),
            Verb::Add(_) | Verb::Drain { .. } => self.total += by,
            Verb::Set(_) | Verb::CountDown => {}
            Verb::Withdraw(_) | Verb::Cancel | Verb::Delete | Verb::Expire(_) => {}
        }
    }

    fn granted(&mut self, operation: StepId, permits: i64) {
        self.out.insert(operation, Grant { permits, generation: self.generation });
    }

    fn returned(&mut self, of: StepId, permits: i64) {
        match self.out.remove(&of) {
            Some(grant) if grant.generation == self.generation => {}
            _ => {
                self.known.note("any: permits return to a semaphore that was made again");
                self.total += permits;
            }
        }
    }

    /// A request that took so many permits is undone, or never counts.
    fn is_undone(&mut self, operation: StepId, permits: i64, undoes: bool) {
        let took = self.out.remove(&operation);
        if undoes && took.is_none_or(|grant| grant.generation != self.generation) {
            self.total += permits;
        }
        self.effective.insert(operation, false);
    }

    fn theirs(
        &mut self,
        call: &Call,
        answer: &Value,
        is_pending: bool,
        effect: &Effect,
        world: &mut World<'_>,
    ) {
        let (by, operation) = (effect.by(), call.operation);
        let before = effect.before;
        let again = self.effective.contains_key(&operation);
        match call.verb {
            Verb::Set(n) => {
                self.expect(call, by, if before.is_none() { n } else { 0 }, world);
                if is_true(answer) != before.is_none() {
                    world.violation(Kind::FalseAnswer, format!("{call} is answered {answer:?}"));
                }
                if again && before.is_some() {
                    self.known
                        .note("Redisson: trySetPermits says false of what it set, sent again");
                }
            }
            Verb::Acquire(n) => {
                let takes = before.is_some_and(|free| free >= n);
                self.expect(call, by, if takes { -n } else { 0 }, world);
                if is_true(answer) != takes {
                    world.violation(Kind::FalseAnswer, format!("{call} is answered {answer:?}"));
                }
                match takes {
                    false => return,
                    true if is_pending && !again => self.granted(operation, n),
                    true => {
                        self.known.note(
                            "Redisson: tryAcquire took twice, or for a caller that had given up",
                        );
                        self.total -= n;
                    }
                }
            }
            Verb::Release { permits, of } => {
                self.expect(call, by, permits, world);
                if before.is_none() {
                    self.known.note("Redisson: release made a semaphore that was gone");
                }
                match again {
                    false => self.returned(of, permits),
                    true => {
                        self.known.note(
                            "Redisson: release counted twice, or after its caller had given up",
                        );
                        self.total += permits;
                    }
                }
            }
            Verb::Add(n) => {
                self.expect(call, by, n, world);
                self.total += n;
                if again {
                    self.known.note("Redisson: addPermits counted twice, sent again");
                }
            }
            Verb::Drain { .. } => {
                self.expect(call, by, -before.unwrap_or(0), world);
                self.total += by;
                if again && by != 0 {
                    self.known.note("Redisson: drainPermits took twice, sent again");
                }
            }
            Verb::CountDown => {
                let counts = before.map_or(0, |count| if count > 0 { -1 } else { -count });
                self.expect(call, by, counts, world);
            }
            Verb::Withdraw(_) | Verb::Cancel | Verb::Delete | Verb::Expire(_) => {
                unreachable!("Redisson has no such call")
            }
        }
        self.effective.insert(operation, true);
    }

    /// A client of Redisson's has no answer, or was refused: nobody has what a copy took, or may take, or does not return.
    pub(super) fn thread_has_no_answer(
        &mut self,
        operation: StepId,
        verb: Verb,
        world: &mut World<'_>,
    ) {
        self.effective.entry(operation).or_insert(true);
        let (of, what) = match verb {
            Verb::Release { of, .. } => {
                (of, "Redisson: a release was lost, and the permits with it")
            }
            _ => (operation, "Redisson: a reply of tryAcquire was lost, and the permits with it"),
        };
        if let Some(grant) = self.out.remove(&of) {
            world.say(|| "      permits are lost".into());
            self.known.note(what);
            self.total -= if grant.generation == self.generation { grant.permits } else { 0 };
        }
    }

    /// A duty that lasted for longer than the server keeps ids.
    pub(super) fn is_given_up(&mut self, duty: &Request, world: &mut World<'_>) {
        let of = match duty.verb {
            Verb::Release { of, .. } => of,
            _ => duty.operation,
        };
        self.is_lost(of, world);
    }

    fn is_lost(&mut self, of: StepId, world: &mut World<'_>) {
        if let Some(grant) = self.out.remove(&of) {
            world.say(|| "      an outage loses permits".into());
            self.known.note("ours: an outage longer than ids are kept lost permits");
            self.total -= if grant.generation == self.generation { grant.permits } else { 0 };
        }
    }

    fn expect(&self, call: &Call, by: i64, expected: i64, world: &mut World<'_>) {
        if by != expected {
            let what = format!("{call} changes the number by {by}, and not by {expected}");
            world.violation(Kind::WrongCount, what);
        }
    }

    fn expect_once(&self, call: &Call, by: i64, world: &mut World<'_>) {
        if by != 0 {
            world.violation(Kind::CountedTwice, format!("{call} changes the number by {by} again"));
        }
    }

    fn check_ttl(
        &mut self,
        call: &Call,
        effect: &Effect,
        seen: Option<&Seen>,
        world: &mut World<'_>,
    ) {
        if let Some(ids) = world.server.seen(REQUESTS) {
            let until = ids.until;
            match until {
                None => world.violation(Kind::NoTtl, format!("{call} leaves ids without a TTL")),
                Some(until) if until > world.now() + KEPT => {
                    world.violation(Kind::TtlTooLong, format!("{call} keeps ids until {until}"));
                }
                _ => {}
            }
        }
        let before = std::mem::replace(&mut self.until, seen.and_then(|seen| seen.until));
        let is_same = effect.before.is_none() || seen.is_none() || self.until == before;
        if is_same || call.verb.is_operators() {
            return;
        }
        if call.theirs && self.until.is_none() {
            return self.known.note(match call.verb {
                Verb::Add(_) => "Redisson: addPermits dropped the TTL",
                _ => "Redisson: drainPermits dropped the TTL",
            });
        }
        let what = format!("{call}: until {before:?}, now until {:?}", self.until);
        world.violation(Kind::TtlChanged, what);
    }

    /// Whether waiters are told, in words that Redisson understands.
    fn check_messages(&self, call: &Call, effect: &Effect, world: &mut World<'_>) {
        let on = channel(self.sort);
        let messages = world.server.messages();
        let told: Vec<_> = messages.iter().map(|message| message.text.clone()).collect();
        let astray = messages.iter().any(|message| message.channel != on);
        let (before, after) = (effect.before, effect.after);
        let is_new = before.is_none() && after.is_some();
        let rises = after.unwrap_or(0) > before.unwrap_or(0).max(0);
        // Whoever takes permits away may tell how many are left.
        let may_tell = matches!(call.verb, Verb::Add(_) | Verb::Withdraw(_)) && after > Some(0);
        let expected = match self.sort {
            Sort::Semaphore => (rises || may_tell).then(|| after.unwrap_or(0).to_string()),
            Sort::Latch if is_new => Some("1".into()),
            Sort::Latch => (before == Some(1) && after.is_none() && !call.verb.is_operators())
                .then(|| "0".into()),
        };
        if let (Some(expected), []) = (&expected, &told[..])
            && (rises || self.sort == Sort::Latch)
        {
            let what = format!("{call}: {expected} is told to nobody");
            return world.violation(Kind::NotWoken, what);
        }
        let is_right = match &told[..] {
            [] => true,
            [one] if call.theirs => expected.as_ref().is_none_or(|expected| one == expected),
            told => expected.as_slice() == told,
        };
        if astray || !is_right {
            let what = format!("{call}: {told:?} is told, and not {expected:?}");
            world.violation(Kind::BadMessage, what);
        }
    }

    /// Each permit that is out is somebody's, and the number is that of the others.
    pub(super) fn check(&self, accounted_for: BTreeSet<StepId>, world: &mut World<'_>) {
        for of in self.out.keys().filter(|of| !accounted_for.contains(of)) {
            let what = format!("the permits of {of} are out, and nobody will return them");
            world.violation(Kind::Orphan, what);
        }
        let Some(value) = self.value.filter(|_| self.sort == Sort::Semaphore) else { return };
        let of_now = self.out.values().filter(|grant| grant.generation == self.generation);
        let out: i64 = of_now.map(|grant| grant.permits).sum();
        if value + out != self.total {
            let what = format!("{value} are free and {out} are out, of {}", self.total);
            world.violation(Kind::WrongCount, what);
        }
    }

    /// What clients believe to have is out.
    pub(super) fn check_believed<'a>(
        &self,
        believed: impl Iterator<Item = &'a (StepId, i64)>,
        world: &mut World<'_>,
    ) {
        for (of, permits) in believed {
            if self.out.get(of).map(|grant| grant.permits) != Some(*permits) {
                let what = format!("somebody believes to have the {permits} permits of {of}");
                world.violation(Kind::Vanished, what);
            }
        }
    }
}
