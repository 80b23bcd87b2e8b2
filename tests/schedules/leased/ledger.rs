//! The account of all permits: the judge of what each copy did, and of what clients are told.

use std::collections::{BTreeMap, BTreeSet};

use harness::redis::Value;

use super::call::{Call, Permits, Verb, World};
use super::client::{Said, is_granted, said};
use super::terms::{CHANNEL, KEPT, NAME, OUT, REQUESTS};
use crate::known::Known;
use crate::model::{Kind, Ms, StepId};

/// What real milliseconds come to on the virtual clock, at most.
const NOISE: f64 = 0.01;

/// What the server keeps.
#[derive(Debug, Clone, Default)]
struct Stock {
    free: Option<i64>,
    /// When the lease of each permit that is out ends.
    out: BTreeMap<String, f64>,
    until: Option<Ms>,
    out_until: Option<Ms>,
}

impl Stock {
    fn of(world: &World<'_>) -> Self {
        let (name, out) = (world.server.seen(NAME), world.server.seen(OUT));
        Self {
            free: name.map(|seen| seen.text.parse().expect("a number")),
            out: out.map(|seen| seen.moments.clone()).unwrap_or_default(),
            until: name.and_then(|seen| seen.until),
            out_until: out.and_then(|seen| seen.until),
        }
    }

    fn permits(&self) -> i64 {
        self.free.unwrap_or(0) + self.out.len() as i64
    }
}

/// The account.
#[derive(Debug)]
pub(super) struct Ledger {
    known: Known,
    stock: Stock,
    /// The changes, acquisitions of Redisson's and releases that took effect.
    effective: BTreeSet<StepId>,
    withdrawn: BTreeSet<StepId>,
    /// Permits that were returned: they never come again.
    returned: BTreeSet<String>,
    /// Permits that nobody could return for longer than ids are kept: they stay out until their lease ends.
    given_up: BTreeSet<String>,
    /// Permits that went by no fault of ours.
    excused: BTreeSet<String>,
}

impl Ledger {
    pub(super) fn new(known: Known) -> Self {
        Self {
            known,
            stock: Stock::default(),
            effective: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            returned: BTreeSet::new(),
            given_up: BTreeSet::new(),
            excused: BTreeSet::new(),
        }
    }

    pub(super) fn expired(&mut self, keys: &[String]) {
        if keys.iter().any(|key| key == NAME) {
            (self.stock.free, self.stock.until) = (None, None);
        }
        if keys.iter().any(|key| key == OUT) {
            if self.stock.free.is_some() && !self.stock.out.is_empty() {
                self.known.note("any: permits that were out are lost with the TTL of their set");
            }
            self.excused.extend(std::mem::take(&mut self.stock.out).into_keys());
            self.stock.out_until = None;
        }
    }

    /// A duty that lasted for longer than the server keeps ids.
    pub(super) fn is_given_up(&mut self, permits: BTreeSet<String>) {
        self.given_up.extend(permits);
        self.known.note("ours: after an outage longer than ids are kept, a lease ends by itself");
    }

    pub(super) fn ran(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) {
        let after = Stock::of(world);
        let before = std::mem::replace(&mut self.stock, after.clone());
        world.say(|| format!("        server: {:?}, out {:?}", after.free, after.out));
        if call.who == '!' {
            let gone = before.out.into_keys().filter(|id| !after.out.contains_key(id));
            return self.excused.extend(gone);
        }
        self.check_sum(call, &before, &after, world);
        self.check_ids(call, &before, &after, world);
        self.check_messages(call, &before, &after, world);
        self.check_ttls(call, &before, &after, world);
        if call.theirs.is_none() && world.now() <= call.not_after {
            self.check_answer(call, said(answer), &before, &after, world);
        }
        if call.theirs.is_some() {
            if matches!(call.verb, Verb::Acquire { .. }) && !is_granted(answer) {
                return;
            }
            self.effective.insert(call.operation);
        }
    }

    /// Free permits and those that are out are together as many as before, but for the number that a call adds.
    fn check_sum(&mut self, call: &Call, before: &Stock, after: &Stock, world: &mut World<'_>) {
        let again = self.effective.contains(&call.operation);
        let is_theirs = call.theirs.is_some();
        let is_late = world.now() > call.not_after;
        let by = after.permits() - before.permits();
        if before.free.is_none() {
            if after.free.is_some()
                && !matches!(call.verb, Verb::Set(_) | Verb::By(_) | Verb::To(_))
            {
                match is_theirs {
                    true => self
                        .known
                        .note("Redisson: a release or a sweep made a semaphore that was gone"),
                    false => world.violation(Kind::WrongCount, format!("{call} makes a semaphore")),
                }
            }
            if !is_theirs && after.free.is_some() {
                self.effective.insert(call.operation);
            }
            return;
        }
        let expected = match call.verb {
            Verb::By(n) if is_theirs => n,
            Verb::By(_) | Verb::To(_) if again || is_late => 0,
            Verb::By(n) => n,
            Verb::To(n) => n - before.permits(),
            _ => 0,
        };
        let is_change = matches!(call.verb, Verb::By(_) | Verb::To(_));
        if is_theirs && again && by != 0 {
            let what = match call.verb {
                Verb::Acquire { .. } => "Redisson: tryAcquire took twice, sent again",
                Verb::By(_) => "Redisson: addPermits counted twice, sent again",
                Verb::To(_) => "Redisson: setPermits came late",
                _ => return world.violation(Kind::WrongCount, format!("{call} adds {by}")),
            };
            return self.known.note(what);
        }
        if by != expected {
            let kind = match is_change && again {
                true => Kind::CountedTwice,
                false if is_change && is_late => Kind::TooLate,
                false => Kind::WrongCount,
            };
            world.violation(kind, format!("{call} adds {by} permits, and not {expected}"));
        }
        if is_change && !is_theirs && !is_late {
            self.effective.insert(call.operation);
        }
    }

    /// Permits come and go by their ids, or when their lease has ended.
    fn check_ids(&mut self, call: &Call, before: &Stock, after: &Stock, world: &mut World<'_>) {
        let named: BTreeSet<_> = call.permits().ids().into_iter().collect();
        let now = world.now() as f64;
        for id in after.out.keys().filter(|id| !before.out.contains_key(*id)) {
            let takes = matches!(call.verb, Verb::Acquire { .. });
            if !takes || !named.contains(id) {
                world.violation(Kind::WrongCount, format!("{call} takes {id}"));
            } else if world.now() > call.not_after {
                world.violation(Kind::TooLate, format!("{call} takes {id}"));
            }
            if self.returned.contains(id) && call.theirs.is_none() {
                world.violation(Kind::CountedTwice, format!("{call} takes {id} again"));
            }
        }
        let takes = after.out.len() > before.out.len();
        if takes && after.free.is_some_and(|free| free < 0) {
            let what = format!("{call} leaves {:?} free permits", after.free);
            world.violation(Kind::WrongCount, what);
        }
        let returns = matches!(call.verb, Verb::Release { .. } | Verb::Withdraw(_));
        let makes = before.free.is_none()
            && after.free.is_some()
            && call.theirs.is_none()
            && matches!(call.verb, Verb::Set(_) | Verb::By(_) | Verb::To(_));
        for (id, ends) in before.out.iter().filter(|(id, _)| !after.out.contains_key(*id)) {
            if makes {
                // It was out of a semaphore that was deleted.
                self.excused.insert(id.clone());
            } else if returns && named.contains(id) {
                self.returned.insert(id.clone());
            } else if *ends <= now + NOISE {
                // Its lease has ended.
            } else if call.theirs.is_some_and(|ahead| *ends <= now + ahead as f64 + NOISE) {
                self.known.note("Redisson: a clock that is ahead took permits back early");
                self.excused.insert(id.clone());
            } else {
                world.violation(Kind::Vanished, format!("{call} takes {id} away, until {ends}"));
            }
        }
        if returns && call.theirs.is_none() {
            self.returned.extend(named);
        }
        if let Verb::Renew { .. } = call.verb {
            for (id, ends) in &before.out {
                if after.out.get(id).is_some_and(|then| then + NOISE < *ends) {
                    world.violation(
                        Kind::TtlFell,
                        format!("{call} makes the lease of {id} shorter"),
                    );
                }
            }
        }
    }

    fn check_answer(
        &mut self,
        call: &Call,
        said: Said,
        before: &Stock,
        after: &Stock,
        world: &mut World<'_>,
    ) {
        let (now, ids) = (world.now() as f64, call.permits().ids());
        let lasts = |stock: &Stock, id: &String, until: f64| {
            stock.out.get(id).is_some_and(|ends| *ends + NOISE >= until)
        };
        let had_all =
            ids.iter().all(|id| before.out.get(id).is_some_and(|ends| *ends > now + NOISE));
        let is_true = match (call.verb, said) {
            (Verb::Acquire { lease, .. }, Said::Yes) => {
                let until = now + lease.unwrap_or(0) as f64;
                ids.iter().all(|id| lasts(after, id, until))
            }
            (Verb::Acquire { n, .. }, Said::No) => {
                let is_refused = after.free.is_none_or(|free| free < n as i64);
                is_refused || self.withdrawn.contains(&call.operation)
            }
            (Verb::Release { .. }, Said::Yes) => {
                let is_new = self.effective.insert(call.operation);
                had_all || !is_new
            }
            (Verb::Release { .. }, Said::No) => !had_all,
            (Verb::Renew { lease, .. }, Said::Yes) => {
                had_all && ids.iter().all(|id| lasts(after, id, now + lease as f64))
            }
            (Verb::Renew { .. }, Said::No) => !had_all,
            (Verb::Set(_), Said::No) => before.free.is_some(),
            _ => true,
        };
        if !is_true {
            world.violation(Kind::FalseAnswer, format!("{call} is answered {said:?}"));
        }
        match call.verb {
            Verb::Withdraw(_) => drop(self.withdrawn.insert(call.operation)),
            Verb::Release { permits, withdraws: true } => drop(self.withdrawn.insert(permits.of)),
            _ => {}
        }
    }

    fn check_messages(&self, call: &Call, before: &Stock, after: &Stock, world: &mut World<'_>) {
        let messages = world.server.messages();
        let number = |text: &String| text.parse::<i64>().ok();
        let is_wrong = messages.iter().any(|message| {
            message.channel != CHANNEL || number(&message.text).is_none_or(|number| number < 1)
        });
        let rises = after.free.unwrap_or(0) > before.free.unwrap_or(0).max(0);
        if is_wrong && call.theirs.is_none() {
            let what = format!("{call} tells {messages:?}");
            return world.violation(Kind::BadMessage, what);
        }
        if rises && messages.is_empty() {
            let what = format!("{call}: {:?} are free, and nobody is told", after.free);
            world.violation(Kind::NotWoken, what);
        }
    }

    fn check_ttls(&self, call: &Call, before: &Stock, after: &Stock, world: &mut World<'_>) {
        if let Some(ids) = world.server.seen(REQUESTS) {
            match ids.until {
                None => world.violation(Kind::NoTtl, format!("{call} leaves ids without a TTL")),
                Some(until) if until > world.now() + KEPT => {
                    world.violation(Kind::TtlTooLong, format!("{call} keeps ids until {until}"));
                }
                _ => {}
            }
        }
        if before.free.is_none() || after.free.is_none() {
            return;
        }
        if before.until != after.until {
            match call.theirs.is_some() && after.until.is_none() {
                true => self.known.note("Redisson: addPermits dropped the TTL"),
                false => {
                    let what = format!("{call}: until {:?}, now {:?}", before.until, after.until);
                    world.violation(Kind::TtlChanged, what);
                }
            }
        }
        let takes = after.out.len() > before.out.len();
        let is_right = match call.verb {
            Verb::Acquire { .. } if takes && after.until.is_some() => {
                after.out_until == after.until
            }
            _ => {
                // A set that is swept empty is made anew.
                let now = world.now() as f64;
                let stays =
                    |(id, ends): (&String, &f64)| *ends > now + NOISE && after.out.contains_key(id);
                let is_same = before.out.iter().any(stays);
                !is_same || after.out_until == before.out_until || after.until.is_some()
            }
        };
        if !is_right && call.theirs.is_none() {
            let what = format!(
                "{call}: permits until {:?}, and the number until {:?}",
                after.out_until, after.until
            );
            world.violation(Kind::TtlChanged, what);
        }
    }

    /// Each permit of ours that is out is somebody's.
    pub(super) fn check(&self, accounted_for: &BTreeSet<String>, world: &mut World<'_>) {
        let now = world.now() as f64;
        for (id, ends) in &self.stock.out {
            let is_ours = id.starts_with(['A', 'B', 'C']);
            let is_known = accounted_for.contains(id) || self.given_up.contains(id);
            if is_ours && *ends > now && !is_known {
                let what = format!("{id} is out until {ends}, and nobody will return it");
                world.violation(Kind::Orphan, what);
            }
        }
    }

    /// What a client believes to have is out, and for long enough.
    pub(super) fn check_believed(&self, permits: Permits, until: Ms, world: &mut World<'_>) {
        for id in permits.ids().iter().filter(|id| !self.excused.contains(*id)) {
            let ends = self.stock.out.get(id).copied();
            if ends.is_none_or(|ends| ends + NOISE < until as f64) {
                let what = format!("{id} is trusted until {until}, and is out until {ends:?}");
                world.violation(Kind::Vanished, what);
            }
        }
    }
}
