//! Semaphores and latches: clients of this crate, clients of Redisson, and an operator who deletes the key or lets it expire.
//!
//! Requests are repeated, come late, and are undone. [`Ledger`] keeps account of each permit: it counts each request of ours once,
//! and lists what Redisson's copies do to the number.

mod action;
mod call;
mod client;
mod ledger;
mod rules;
mod scripts;
mod subject;
mod terms;
mod tests;
mod theirs;
mod thread;

use harness::redis::Value;

use crate::clients::Name;
use crate::model::{Closing, Model, Ms, StepId};
use action::Action;
use call::{Call, Verb, World};
use client::{Client, Request};
use ledger::Ledger;
use rules::{Rule, Rules};
use scripts::Scripts;
use terms::{IN_TIME, Sort};
use thread::{Pending, Thread};

pub(crate) use subject::{Latch, Semaphore};

/// The model.
#[derive(Debug)]
pub(crate) struct Number {
    rules: Rules,
    scripts: Scripts,
    clients: Vec<Client>,
    threads: Vec<Thread>,
    ledger: Ledger,
}

impl Number {
    /// Three clients of ours, and two of Redisson's when its scripts are known.
    fn new(rules: Rules, scripts: &Scripts) -> Self {
        let threads = if scripts.theirs.is_some() { "JK" } else { "" };
        Self {
            rules,
            scripts: scripts.clone(),
            clients: "ABC".chars().map(Client::new).collect(),
            threads: threads.chars().map(Thread::new).collect(),
            ledger: Ledger::new(scripts.sort, scripts.known.clone()),
        }
    }

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
            Action::Begin(who, verb) => client(who).request.is_none() && self.is_meant(*verb),
            Action::Return(who) => client(who).request.is_none() && !client(who).permits.is_empty(),
            Action::Again(who) => client(who).request.as_ref().is_some_and(Request::is_at_rest),
            Action::Resend(who) => {
                client(who).request.as_ref().is_some_and(|request| request.may_resend(now))
            }
            Action::Abandon(who) => client(who).request.is_some(),
            Action::Duty(who) => !client(who).duties.is_empty(),
            Action::Theirs(who, verb) => thread(who).pending.is_none() && self.is_meant(*verb),
            Action::TheirReturn(who) => {
                thread(who).pending.is_none() && !thread(who).permits.is_empty()
            }
            Action::TheirAgain(who) => thread(who).pending.is_some_and(Pending::may_call_again),
            Action::TheirLoss(who) => thread(who).pending.is_some(),
            Action::Operator(_) => true,
        }
    }

    /// Whether there is such a request of this object.
    fn is_meant(&self, verb: Verb) -> bool {
        match verb {
            Verb::Set(_) => true,
            Verb::CountDown => self.scripts.sort == Sort::Latch,
            _ => self.scripts.sort == Sort::Semaphore,
        }
    }

    /// Sends a copy, and takes note of it.
    fn call(&mut self, mut call: Call, world: &mut World<'_>) {
        if !self.rules.keep(Rule::NotAfter) && call.not_after < Ms::MAX {
            call.not_after = Ms::MAX;
        }
        let invocation = self.scripts.invocation(&call);
        world.send(call, invocation);
    }

    /// The next copy of a client's request, or of its first duty.
    fn send(&mut self, who: Name, duty: bool, world: &mut World<'_>) {
        let (now, copy) = (world.now(), world.step());
        let client = self.client(who);
        let settled = client.settled.iter().rev().take(2).copied().collect();
        let request = if duty { client.duties.first_mut() } else { client.request.as_mut() };
        let request = request.expect("a request to send");
        request.sent(copy);
        let not_after = if request.verb.is_undo() { Ms::MAX } else { now + IN_TIME };
        let (verb, operation) = (request.verb, request.operation);
        let call = Call { who, operation, copy, verb, not_after, settled, theirs: false };
        self.call(call, world);
    }

    fn their_copy(&mut self, who: Name, world: &mut World<'_>) {
        let copy = world.step();
        let pending = self.thread(who).pending.as_mut().expect("a call to send");
        pending.copies += 1;
        let (verb, operation) = (pending.verb, pending.operation);
        let settled = Vec::new();
        let call = Call { who, operation, copy, verb, not_after: Ms::MAX, settled, theirs: true };
        self.call(call, world);
    }
}

impl Model for Number {
    type Action = Action;
    type Call = Call;

    fn choices(&self, world: &World<'_>) -> Vec<(u32, Action)> {
        let mut choices = Action::all(
            self.clients.iter().map(|client| client.name),
            self.threads.iter().map(|thread| thread.name),
            &self.ledger,
            self.rules.are_all_kept(),
        );
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
                let (of, permits) = client.permits.remove(0);
                let verb = Verb::Release { permits, of };
                client.request = Some(Request::new(verb, operation, now));
                self.send(who, false, world);
            }
            Action::Again(who) => {
                self.client(who).request.as_mut().expect("a request").begun = now;
                self.send(who, false, world);
            }
            Action::Resend(who) => self.send(who, false, world),
            Action::Abandon(who) => {
                let undoes = self.rules.keep(Rule::Undo);
                self.client(who).abandon(undoes, now);
            }
            Action::Duty(who) => {
                if self.client(who).duties[0].is_over(now) {
                    // The server may have forgotten the request: it is not sent any more.
                    let given_up = self.client(who).duties.remove(0);
                    self.ledger.is_given_up(&given_up, world);
                } else {
                    self.send(who, true, world);
                }
            }
            Action::Theirs(who, verb) => {
                self.thread(who).begin(verb, operation);
                self.their_copy(who, world);
            }
            Action::TheirReturn(who) => {
                let thread = self.thread(who);
                let (of, permits) = thread.permits.remove(0);
                thread.begin(Verb::Release { permits, of }, operation);
                self.their_copy(who, world);
            }
            Action::TheirAgain(who) => self.their_copy(who, world),
            Action::TheirLoss(who) => {
                let lost = self.thread(who).pending.take().expect("a call");
                self.ledger.thread_has_no_answer(lost.operation, lost.verb, world);
            }
            Action::Operator(verb) => {
                let settled = Vec::new();
                let (who, copy) = ('!', operation);
                let not_after = Ms::MAX;
                let call = Call { who, operation, copy, verb, not_after, settled, theirs: false };
                let answer = world.run(&self.scripts.invocation(&call));
                self.ledger.ran(&call, &answer, false, world);
            }
        }
        true
    }

    fn ran(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) -> bool {
        let is_pending = call.theirs
            && self.thread(call.who).pending.is_some_and(|it| it.operation == call.operation);
        self.ledger.ran(call, answer, is_pending, world);
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
        if call.theirs {
            let Some(pending) = self.thread(call.who).pending else { return };
            if pending.operation != call.operation {
                return;
            }
            let granted = self.thread(call.who).answered(answer);
            if matches!(call.verb, Verb::Acquire(_)) && !granted {
                self.ledger.thread_has_no_answer(call.operation, call.verb, world);
            }
            return;
        }
        let (now, rules) = (world.now(), self.rules);
        if now > sent + IN_TIME {
            return; // It is not waited for any more.
        }
        let settles_all = !rules.keep(Rule::ClearIsSettled);
        let undoes = rules.keep(Rule::Undo);
        let next = world.step();
        self.client(call.who).on_reply(name, call, answer, (now, next), settles_all, undoes);
    }

    fn alarm(&self) -> Option<Ms> {
        None
    }

    fn ring(&mut self, _world: &mut World<'_>) {}

    fn expired(&mut self, keys: &[String], world: &mut World<'_>) {
        if keys.iter().any(|key| key == crate::LOCK) {
            world.say(|| "      the key expires".into());
            self.ledger.is_gone();
        }
    }

    fn check(&self, world: &mut World<'_>) {
        let ours = self.clients.iter().flat_map(Client::accounts_for);
        let theirs = self.threads.iter().flat_map(Thread::accounts_for);
        self.ledger.check(ours.chain(theirs).collect(), world);
        let believed = self.clients.iter().flat_map(|client| &client.permits);
        let believed = believed.chain(self.threads.iter().flat_map(|thread| &thread.permits));
        self.ledger.check_believed(believed, world);
    }

    fn closing(&self, _world: &World<'_>) -> Option<Closing<Action>> {
        for client in &self.clients {
            if client.request.is_some() {
                return Some(Closing::Act(Action::Abandon(client.name)));
            }
            if !client.permits.is_empty() {
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
