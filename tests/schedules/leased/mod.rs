//! The expirable semaphore: clients of this crate, clients of Redisson, of which one has a clock that is ahead, and an operator.
//!
//! A permit is known by its id. The free permits and those that are out are always as many as there are; [`Ledger`] checks that, and
//! lists what Redisson's copies do to their number.

mod action;
mod call;
mod client;
mod ledger;
mod rules;
mod scripts;
mod terms;
mod tests;
mod theirs;

use harness::RedisServer;
use harness::redis::Value;

use crate::clients::Name;
use crate::fuzz::Fuzzed;
use crate::model::{Closing, Model, Ms, Server, StepId};
use action::Action;
use call::{Call, Permits, Verb, World};
use client::{Client, Request, Thread};
use ledger::Ledger;
use rules::{Rule, Rules};
use scripts::Scripts;
use terms::{AHEAD, IN_TIME, NAME, OUT, REQUESTS};

/// The expirable semaphore.
#[derive(Debug)]
pub(crate) struct Leased {
    rules: Rules,
    scripts: Scripts,
    clients: Vec<Client>,
    threads: Vec<Thread>,
    ledger: Ledger,
}

impl Leased {
    fn client(&mut self, name: Name) -> &mut Client {
        self.clients.iter_mut().find(|client| client.name == name).expect("a client of that name")
    }

    fn thread(&mut self, name: Name) -> &mut Thread {
        self.threads.iter_mut().find(|thread| thread.name == name).expect("a thread of that name")
    }

    fn can(&self, action: &Action, now: Ms) -> bool {
        let client = |name: &Name| {
            self.clients.iter().find(|client| client.name == *name).expect("a client of that name")
        };
        let thread = |name: &Name| {
            self.threads.iter().find(|thread| thread.name == *name).expect("a thread of that name")
        };
        match action {
            Action::Begin(who, _) => client(who).request.is_none(),
            Action::Return(who) => client(who).request.is_none() && client(who).has_guards(),
            Action::Renew(who) => client(who).guards.iter().any(|guard| !guard.is_lost),
            Action::Again(who) => {
                client(who).request.as_ref().is_some_and(|request| request.is_refused)
            }
            Action::Resend(who) => {
                client(who).request.as_ref().is_some_and(|request| request.may_resend(now))
            }
            Action::Abandon(who) => client(who).request.is_some(),
            Action::Duty(who) => !client(who).duties.is_empty(),
            Action::Theirs(who, _) => thread(who).pending.is_none(),
            Action::TheirReturn(who) | Action::TheirLease(who) => {
                thread(who).pending.is_none() && !thread(who).permits.is_empty()
            }
            Action::TheirAgain(who) => thread(who).pending.is_some_and(|(_, _, copies)| copies < 3),
            Action::TheirLoss(who) => thread(who).pending.is_some(),
            Action::Operator(_) => true,
        }
    }

    fn call(&mut self, mut call: Call, world: &mut World<'_>) {
        if !self.rules.keep(Rule::NotAfter) {
            call.not_after = Ms::MAX;
        }
        let invocation = self.scripts.invocation(&call, world.now());
        world.send(call, invocation);
    }

    fn send(&mut self, who: Name, duty: bool, world: &mut World<'_>) {
        let (now, copy) = (world.now(), world.step());
        let client = self.client(who);
        let settled = client.settled.iter().rev().take(2).copied().collect();
        let request = if duty { client.duties.first_mut() } else { client.request.as_mut() };
        let request = request.expect("a request to send");
        request.sent(copy);
        let (verb, operation) = (request.verb, request.operation);
        // A return by id does no harm however late it comes.
        let is_return = matches!(verb, Verb::Release { .. } | Verb::Withdraw(_));
        let not_after = if is_return { Ms::MAX } else { now + IN_TIME };
        self.call(Call { settled, not_after, ..Call::new(who, operation, verb) }, world);
    }

    fn their_copy(&mut self, who: Name, world: &mut World<'_>) {
        let pending = self.thread(who).pending.as_mut().expect("a call to send");
        pending.2 += 1;
        let (verb, operation, _) = *pending;
        let ahead = if who == 'K' { AHEAD } else { 0 };
        self.call(Call { theirs: Some(ahead), ..Call::new(who, operation, verb) }, world);
    }

    fn they_begin(&mut self, who: Name, verb: Verb, world: &mut World<'_>) {
        self.thread(who).pending = Some((verb, world.step(), 0));
        self.their_copy(who, world);
    }
}

impl Model for Leased {
    type Action = Action;
    type Call = Call;

    fn choices(&self, world: &World<'_>) -> Vec<(u32, Action)> {
        let ours = self.clients.iter().map(|client| client.name);
        let theirs = self.threads.iter().map(|thread| thread.name);
        let with_operator = self.rules.are_all_kept() || !self.rules.keep(Rule::KeepsTtl);
        let mut choices = Action::all(ours, theirs, with_operator);
        choices.retain(|(_, action)| self.can(action, world.now()));
        choices
    }

    fn class(action: &Action) -> usize {
        action.class()
    }

    fn act(&mut self, action: &Action, world: &mut World<'_>) -> bool {
        let (now, operation) = (world.now(), world.step());
        if !self.can(action, now) {
            return false;
        }
        match *action {
            Action::Begin(who, verb) => {
                self.client(who).request = Some(Request::new(verb, operation, now));
                self.send(who, false, world);
            }
            Action::Return(who) => {
                let client = self.client(who);
                let guard = client.guards.remove(0);
                let verb = Verb::Release { permits: guard.permits, withdraws: guard.unclear };
                client.request = Some(Request::new(verb, operation, now));
                self.send(who, false, world);
            }
            Action::Renew(who) => {
                let guards = &self.client(who).guards;
                let guard = guards.iter().find(|guard| !guard.is_lost).expect("a guard");
                let verb = Verb::Renew { permits: guard.permits, lease: guard.lease };
                self.call(Call::new(who, operation, verb), world);
            }
            Action::Again(who) | Action::Resend(who) => self.send(who, false, world),
            Action::Abandon(who) => {
                let undoes = self.rules.keep(Rule::Undo);
                self.client(who).abandon(undoes, now);
            }
            Action::Duty(who) => match self.client(who).duties[0].is_over(now) {
                true => {
                    let client = self.client(who);
                    let permits = client.accounts_for();
                    client.duties.remove(0);
                    let left = client.accounts_for();
                    self.ledger.is_given_up(permits.difference(&left).cloned().collect());
                }
                false => self.send(who, true, world),
            },
            Action::Theirs(who, verb) => self.they_begin(who, verb, world),
            Action::TheirReturn(who) => {
                let permits = self.thread(who).permits.remove(0);
                self.they_begin(who, Verb::Release { permits, withdraws: false }, world);
            }
            Action::TheirLease(who) => {
                let permits = Permits { n: 1, ..self.thread(who).permits[0] };
                self.they_begin(who, Verb::SetLease { permits, lease: 70 }, world);
            }
            Action::TheirAgain(who) => self.their_copy(who, world),
            Action::TheirLoss(who) => self.thread(who).pending = None,
            Action::Operator(verb) => {
                let call = Call::new('!', operation, verb);
                let answer = world.run(&self.scripts.invocation(&call, now));
                self.ledger.ran(&call, &answer, world);
            }
        }
        true
    }

    fn ran(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) -> bool {
        self.ledger.ran(call, answer, world);
        false
    }

    fn answered(
        &mut self,
        name: StepId,
        sent: Ms,
        call: &Call,
        answer: &Value,
        world: &mut World<'_>,
    ) {
        if call.theirs.is_some() {
            return self.thread(call.who).on_reply(call, answer);
        }
        let now = world.now();
        if now <= sent + IN_TIME {
            let (next, undoes) = (world.step(), self.rules.keep(Rule::Undo));
            self.client(call.who).on_reply(name, sent, call, answer, (now, next), undoes);
        }
    }

    fn alarm(&self) -> Option<Ms> {
        let guards = self.clients.iter().flat_map(|client| &client.guards);
        guards.filter(|guard| !guard.is_lost).map(|guard| guard.trusted_until).min()
    }

    fn ring(&mut self, world: &mut World<'_>) {
        let now = world.now();
        for guard in self.clients.iter_mut().flat_map(|client| &mut client.guards) {
            guard.is_lost |= guard.trusted_until <= now;
        }
    }

    fn expired(&mut self, keys: &[String], world: &mut World<'_>) {
        world.say(|| format!("      {keys:?} expire"));
        self.ledger.expired(keys);
    }

    fn check(&self, world: &mut World<'_>) {
        let accounted_for = self.clients.iter().flat_map(Client::accounts_for).collect();
        self.ledger.check(&accounted_for, world);
        let believed = self.clients.iter().flat_map(|client| &client.guards);
        for guard in believed.filter(|guard| !guard.is_lost) {
            self.ledger.check_believed(guard.permits, guard.trusted_until, world);
        }
    }

    fn closing(&self, _world: &World<'_>) -> Option<Closing<Action>> {
        for client in &self.clients {
            if client.request.is_some() {
                return Some(Closing::Act(Action::Abandon(client.name)));
            }
            if client.has_guards() {
                return Some(Closing::Act(Action::Return(client.name)));
            }
        }
        for thread in &self.threads {
            if thread.pending.is_some() {
                return Some(Closing::Act(Action::TheirLoss(thread.name)));
            }
            if !thread.permits.is_empty() {
                return Some(Closing::Act(Action::TheirReturn(thread.name)));
            }
        }
        None
    }

    fn owed(&self, _world: &World<'_>) -> Option<Closing<Action>> {
        let owes = self.clients.iter().find(|client| !client.duties.is_empty())?;
        Some(Closing::Act(Action::Duty(owes.name)))
    }

    /// The number stays for ever, and the ids for a while.
    fn may_stay(&self, _key: &str, _world: &World<'_>) -> bool {
        true
    }
}

impl Fuzzed for Leased {
    type Model = Self;
    type Rule = Rule;
    type Scripts = Scripts;

    const SCHEDULES: u64 = 2_000;
    const WATCHED: &[&str] = &[NAME, OUT, REQUESTS];

    fn load(server: &mut Server, rules: Rules) -> Scripts {
        Scripts::load(server, rules)
    }

    fn invite_redisson(scripts: &mut Scripts, redis: &RedisServer, test: &str) -> bool {
        scripts.theirs = theirs::CapturedLeased::capture(redis, test);
        scripts.theirs.is_some()
    }

    fn known(scripts: &Scripts) -> String {
        scripts.known.told()
    }

    fn model(rules: Rules, scripts: &Scripts) -> Self {
        let threads = if scripts.theirs.is_some() { "JK" } else { "" };
        Self {
            rules,
            scripts: scripts.clone(),
            clients: "ABC".chars().map(Client::new).collect(),
            threads: threads.chars().map(Thread::new).collect(),
            ledger: Ledger::new(scripts.known.clone()),
        }
    }
}
