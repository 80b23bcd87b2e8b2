//! The actions of this crate's owners.

use super::Fair;
use super::action::{OwnerStep, Wish};
use super::call::{Call, Turn, Verb, World};
use super::owner::{Claim, Operation};
use super::rules::Rule;
use super::times::{ATTEMPT, HEARTBEAT};
use crate::clients::{Id, Name, Unanswered};
use crate::model::Ms;

/// Those of one process, who die together.
const PROCESS: [Name; 2] = ['C', 'D'];

impl Fair {
    /// Does the step of an owner that can do it.
    pub(super) fn do_step(&mut self, who: Name, step: OwnerStep, world: &mut World<'_>) {
        let now = world.now();
        match step {
            OwnerStep::Acquire { lease, wish } => {
                let id = Id { owner: who, number: world.step() };
                self.owner(who).claim = Some(Claim {
                    id,
                    lease,
                    count: 0,
                    trusted_until: 0,
                    stands: wish != Wish::Try,
                    gives_up: if let Wish::For(time) = wish { Some(now + time) } else { None },
                    subscribed: false,
                    next_turn: now + HEARTBEAT,
                    stalled_until: None,
                    operation: None,
                    unanswered: Unanswered::default(),
                });
                self.send_turn(who, world);
            }
            OwnerStep::Again => self.send_turn(who, world),
            OwnerStep::Stall(time) => {
                let claim = self.claim(who);
                claim.stalled_until = claim.stalled_until.max(Some(now + time));
                claim.next_turn = claim.next_turn.max(now + time);
            }
            OwnerStep::Reenter { lease } => {
                let count = self.claim(who).count + 1;
                self.begin(who, Verb::Reenter { count, lease, not_after: now + ATTEMPT }, world);
            }
            OwnerStep::Release => {
                let count = self.claim(who).count - 1;
                self.begin(who, Verb::Release { count }, world);
            }
            OwnerStep::Resend => self.send(who, world),
            OwnerStep::GiveUp if self.claim(who).lets_go() => self.abandon(who, now),
            OwnerStep::GiveUp => self.claim(who).operation = None,
            OwnerStep::Cancel => self.forget(who, now),
            OwnerStep::Renew => {
                let (id, lease) = (self.claim(who).id, self.claim(who).lease);
                self.call(id, Verb::Renew { lease }, world.step(), world);
            }
            OwnerStep::Die => {
                let dies =
                    |name: Name| name == who || PROCESS.contains(&who) && PROCESS.contains(&name);
                for owner in self.owners.iter_mut().filter(|owner| dies(owner.name)) {
                    let claim = owner.claim.take();
                    self.dead.extend(claim.map(|claim| claim.id));
                }
                self.dead.extend(self.janitor.dismiss(|id| dies(id.owner)));
            }
        }
    }

    /// What an owner does by itself, when it is time for it.
    pub(super) fn owner_rings(&mut self, who: Name, world: &mut World<'_>) {
        let now = world.now();
        let claim = self.claim(who);
        if claim.holds() {
            world.say(|| format!("      {who} trusts its hold no longer"));
            self.abandon(who, now);
        } else if claim.gives_up.is_some_and(|end| end <= now) {
            world.say(|| format!("      {who} has waited long enough"));
            self.forget(who, now);
        } else {
            claim.next_turn = now + HEARTBEAT;
            let call = Call::new(claim.id, self.turn(who, now), 0);
            let answer = self.run_at_once(&call, world);
            self.on_reply(0, now, &call, &answer, world);
        }
    }

    fn turn(&mut self, who: Name, now: Ms) -> Verb {
        let claim = self.claim(who);
        Verb::Acquire {
            lease: claim.lease,
            not_after: now + ATTEMPT,
            terms: Turn { stands: claim.stands },
        }
    }

    /// A turn by way of the network.
    fn send_turn(&mut self, who: Name, world: &mut World<'_>) {
        let (now, copy) = (world.now(), world.step());
        let verb = self.turn(who, now);
        let claim = self.claim(who);
        claim.unanswered.sent(copy, now + ATTEMPT);
        let id = claim.id;
        self.call(id, verb, copy, world);
    }

    fn begin(&mut self, who: Name, verb: Verb, world: &mut World<'_>) {
        let (name, sent) = (world.step(), world.now());
        self.claim(who).operation = Some(Operation { verb, name, copies: 0, sent });
        self.send(who, world);
    }

    fn send(&mut self, who: Name, world: &mut World<'_>) {
        let claim = self.claim(who);
        let operation = claim.operation.as_mut().expect("an operation to send");
        operation.copies += 1;
        let (id, verb, name) = (claim.id, operation.verb, operation.name);
        self.call(id, verb, name, world);
    }

    /// A wish is over: what it may have come to is withdrawn.
    pub(super) fn forget(&mut self, who: Name, since: Ms) {
        let claim = self.claim(who);
        if !claim.stands && claim.unanswered.is_empty() {
            self.owner(who).claim = None;
        } else {
            self.abandon(who, since);
        }
    }

    /// The server has said that the hold is over; an acquire that may still arrive is the janitor's.
    pub(super) fn retire(&mut self, who: Name, since: Ms) {
        let claim = self.owner(who).claim.take().expect("a claim to retire");
        if let Some(alive) = claim.unanswered.alive_until(since) {
            self.take_on(claim.id, Some(alive));
        }
    }

    /// The claim is over for its owner, and the server may still keep something of it.
    pub(super) fn abandon(&mut self, who: Name, since: Ms) {
        let claim = self.owner(who).claim.take().expect("a claim to abandon");
        self.take_on(claim.id, claim.unanswered.alive_until(since));
    }

    fn take_on(&mut self, id: Id, after: Option<Ms>) {
        if self.rules.keep(Rule::Withdraw) {
            self.janitor.take_on(vec![id], after);
        }
    }
}
