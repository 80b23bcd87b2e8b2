//! C7: fencing tokens rise, and a storage takes none that is lower than its last.

use std::collections::{BTreeMap, BTreeSet};

use super::Court;
use crate::{
    history::{Answer, Call, Fault, Nanos, Place},
    run::{Guard, Op, Outcome},
    spans::Span,
    verdict::{Check, Class, Rating},
};

impl<'r, 'a> Court<'r, 'a> {
    pub(super) fn token(&mut self) {
        let mut locks: BTreeMap<(&'a str, &'a str), Vec<&'r Guard<'a>>> = BTreeMap::new();
        for guard in
            self.run.guards.iter().filter(|guard| guard.token.is_some() && !guard.is_multi())
        {
            let place = &guard.locks[0];
            locks.entry((&place.server, &place.name)).or_default().push(guard);
        }
        for ((server, name), guards) in locks {
            let holds = self.outermost(name, guards);
            self.rise(server, name, &holds);
            self.counted(server, name, &holds);
        }
        self.granted_in_order();
        self.storages();
    }

    /// The first guard of each hold. The others have its token.
    fn outermost(&mut self, name: &str, mut guards: Vec<&'r Guard<'a>>) -> Vec<&'r Guard<'a>> {
        guards.sort_by_key(|guard| guard.granted);
        let mut first: BTreeMap<&str, &'r Guard<'a>> = BTreeMap::new();
        let mut holds = Vec::new();
        for guard in guards {
            self.judged(Check::Token);
            let redisson = self.run.process(guard.process).redisson;
            match first.get(guard.id()).filter(|_| !redisson) {
                Some(outer) if outer.token != guard.token => {
                    let what = format!(
                        "{} has the tokens {:?} and {:?}",
                        guard.id(),
                        outer.token,
                        guard.token
                    );
                    let story = [self.guard_story(outer), self.guard_story(guard)].concat();
                    self.violation(Check::Token, name, guard.granted, 0, what, story);
                }
                Some(_) => {}
                None => {
                    first.insert(guard.id(), guard);
                    holds.push(guard);
                }
            }
        }
        holds
    }

    /// Who was answered before another asked has a lower token; and no two have the same.
    fn rise(&mut self, server: &str, name: &str, holds: &[&'r Guard<'a>]) {
        let mut asked = holds.to_vec();
        asked.sort_by_key(|guard| guard.invoked);
        let mut answered = holds.iter().peekable();
        let mut highest: Option<&Guard<'a>> = None;
        let mut told = BTreeSet::new();
        for guard in asked {
            while let Some(before) = answered.next_if(|before| before.granted < guard.invoked) {
                if highest.is_none_or(|highest| before.token > highest.token) {
                    highest = Some(before);
                }
            }
            if let Some(before) = highest.filter(|before| before.token >= guard.token) {
                told.insert((before.granted, guard.granted));
                self.fallen(server, name, before, guard);
            }
        }
        let mut by_token = holds.to_vec();
        by_token.sort_by_key(|guard| (guard.token, guard.granted));
        for pair in by_token.windows(2) {
            let [one, other] = pair else { unreachable!("windows of two") };
            if one.token == other.token && !told.contains(&(one.granted, other.granted)) {
                self.fallen(server, name, one, other);
            }
        }
    }

    fn fallen(&mut self, server: &str, name: &str, before: &Guard<'a>, guard: &Guard<'a>) {
        let what = format!(
            "token {:?} of {} after token {:?} of {}",
            guard.token.unwrap_or(0),
            guard.id(),
            before.token.unwrap_or(0),
            before.id()
        );
        let story = [self.guard_story(before), self.guard_story(guard)].concat();
        let rating = match self.counter_lost(server, name, before, guard) {
            Some(class) => Rating::Within(class),
            None => Rating::Violation,
        };
        let span = Span { from: guard.granted, to: guard.granted };
        self.found(Check::Token, rating, name, span, None, what, story);
    }

    fn counter_lost(
        &self,
        server: &str,
        name: &str,
        before: &Guard<'a>,
        guard: &Guard<'a>,
    ) -> Option<Class> {
        let Some(lock) = self.servers.and_then(|servers| servers.lock((server, name))) else {
            let since = Span { from: before.invoked, to: guard.granted };
            let failover = self.run.begins(Fault::Failover, since).map(|_| Class::L1GrantLost);
            return failover.or(self.run.begins(Fault::Data, since).map(|_| Class::L4StateTaken));
        };
        // A copy that came late may have made another.
        let grant = |guard: &Guard<'_>| {
            let known = guard.granted.saturating_add(self.bounds.clock_error);
            let mut of_id = lock.grants.iter().rev().filter(|grant| grant.id == guard.id());
            of_id.find(|grant| grant.at <= known)
        };
        let (before, after) = (grant(before)?, grant(guard)?);
        match () {
            () if before.counter != after.counter => Some(Class::L4StateTaken),
            () if before.log != after.log => Some(Class::L1GrantLost),
            () => None,
        }
    }

    /// A guard has the token that its grant made.
    fn counted(&mut self, server: &str, name: &str, holds: &[&'r Guard<'a>]) {
        let Some(lock) = self.servers.and_then(|servers| servers.lock((server, name))) else {
            return;
        };
        // Copies of one request may have made several.
        let mut made: BTreeMap<&str, Vec<Option<u64>>> = BTreeMap::new();
        for grant in &lock.grants {
            made.entry(grant.id).or_default().push(grant.token);
        }
        for guard in holds.iter().filter(|guard| !self.run.process(guard.process).redisson) {
            let made = made.get(guard.id());
            if let Some(tokens) = made.filter(|tokens| !tokens.contains(&guard.token)) {
                let what = format!(
                    "{} is told the token {:?}, and has {tokens:?}",
                    guard.id(),
                    guard.token
                );
                self.violation(Check::Token, name, guard.granted, 0, what, self.guard_story(guard));
            }
        }
    }

    /// Each grant of a server makes a token above all before it.
    fn granted_in_order(&mut self) {
        let Some(servers) = self.servers else { return };
        for ((_, name), lock) in servers.locks() {
            for grant in lock.grants.iter().filter(|grant| grant.token.is_some()) {
                if grant.highest >= grant.token {
                    let what = format!(
                        "the server makes the token {:?} after {:?}",
                        grant.token, grant.highest
                    );
                    self.violation(Check::Token, name, grant.at, 0, what, Vec::new());
                }
            }
        }
    }

    /// A storage refuses what is lower than its last token, and what is equal and another's.
    fn storages(&mut self) {
        let mut writes: BTreeMap<&'a Place, Vec<(&'r Op<'a>, Nanos, u64, &'a str)>> =
            BTreeMap::new();
        for op in &self.run.ops {
            let (Call::Use { guard, token: Some(token) }, Some(over)) = (op.call, op.over) else {
                continue;
            };
            let accepted = op.outcome == Outcome::Answered(&Answer::Used { accepted: true });
            if let Some(guard) = self.run.guard(op.process, *guard).filter(|_| accepted) {
                let write = (op, over, *token, guard.id());
                writes.entry(&guard.locks[0]).or_default().push(write);
            }
        }
        for (place, writes) in writes {
            let mut answered = writes.clone();
            answered.sort_by_key(|(_, over, ..)| *over);
            let mut answered = answered.into_iter().peekable();
            let mut last: Option<(u64, &str)> = None;
            // In the order of their invocations, as all operations are.
            for (op, over, token, id) in writes {
                self.judged(Check::Token);
                while let Some((.., token, id)) =
                    answered.next_if(|(_, over, ..)| *over < op.invoked)
                {
                    if last.is_none_or(|(last, _)| token > last) {
                        last = Some((token, id));
                    }
                }
                if let Some((before, holder)) = last
                    && (token < before || token == before && id != holder)
                {
                    let what =
                        format!("the storage accepts {token} of {id} after {before} of {holder}");
                    self.violation(
                        Check::Token,
                        &place.name,
                        over,
                        0,
                        what,
                        super::story::operation(op),
                    );
                }
            }
        }
    }
}
