//! An owner of ours: what it believes, what it may do next, and how it does it.

use super::action::{Deed, Wish};
use super::call::{Call, Verb};
use super::rules::Rule;
use super::{ATTEMPT, Fair, HEARTBEAT, World};
use crate::reentrant::{Id, Name};
use crate::sim::{Ms, StepId};

const MAX_COPIES: usize = 3;
const MAX_COUNT: u32 = 3;

/// Those of one process, who die together.
const PROCESS: [Name; 2] = ['C', 'D'];

/// A logical thread.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: Name,
    pub(super) claim: Option<Claim>,
}

/// One acquisition, from the wish to the end.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) id: Id,
    pub(super) lease: Ms,
    /// 0 while it is but a wish.
    pub(super) count: u32,
    pub(super) trusted_until: Ms,
    pub(super) stands: bool,
    gives_up: Option<Ms>,
    pub(super) subscribed: bool,
    /// When it sends its turn again, while it is but a wish.
    pub(super) next_turn: Ms,
    /// It has not been heard of for longer than it promises, until then.
    stalled_until: Option<Ms>,
    /// A re-entry or a release that has not been answered.
    pub(super) operation: Option<Operation>,
    /// The copies of acquires that have not been answered, and their not-after.
    pub(super) unanswered: Vec<(StepId, Ms)>,
}

/// What it is about to do, as long as no copy of it has been answered.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) verb: Verb,
    pub(super) name: StepId,
    copies: usize,
    /// When the first copy was sent.
    pub(super) sent: Ms,
}

impl Owner {
    /// The hold it believes in now.
    pub(super) fn believes(&self, now: Ms) -> Option<Id> {
        let claim = self.claim.as_ref()?;
        (claim.holds() && now < claim.trusted_until).then_some(claim.id)
    }

    /// The acquisition that stands in line, if that is what it does.
    pub(super) fn waits(&self) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.count == 0 && claim.stands)
    }

    pub(super) fn alarm(&self) -> Option<Ms> {
        let claim = self.claim.as_ref()?;
        if claim.holds() {
            return Some(claim.trusted_until);
        }
        let waits = self.waits()?;
        Some(waits.gives_up.map_or(waits.next_turn, |end| waits.next_turn.min(end)))
    }

    pub(super) fn can(&self, deed: Deed, now: Ms) -> bool {
        let Some(claim) = &self.claim else { return matches!(deed, Deed::Acquire { .. }) };
        let (wishes, at_rest) = (claim.count == 0, claim.operation.is_none());
        match deed {
            Deed::Acquire { .. } => false,
            Deed::Again | Deed::Stall(_) => wishes && claim.stands,
            Deed::Reenter { .. } => at_rest && (1..MAX_COUNT).contains(&claim.count),
            Deed::Release => at_rest && claim.count > 0,
            Deed::Resend => claim.operation.as_ref().is_some_and(|operation| {
                operation.copies < MAX_COPIES
                    && operation.verb.not_after().is_none_or(|not_after| now <= not_after)
            }),
            Deed::GiveUp => !at_rest,
            Deed::Cancel => wishes,
            Deed::Renew => claim.holds(),
            Deed::Die => true,
        }
    }
}

impl Claim {
    pub(super) fn holds(&self) -> bool {
        self.count > 0 && !self.lets_go()
    }

    pub(super) fn lets_go(&self) -> bool {
        self.operation
            .as_ref()
            .is_some_and(|operation| matches!(operation.verb, Verb::Release { count: 0 }))
    }

    /// Whether it has shown itself all the time as it promises.
    pub(super) fn is_steady(&self) -> bool {
        self.stalled_until.is_none()
    }

    /// Looks again at this moment at the latest, or as soon as it is heard of again.
    pub(super) fn look_at(&mut self, time: Ms) {
        self.next_turn = self.next_turn.min(time).max(self.stalled_until.unwrap_or(0));
    }

    /// The last not-after of an unanswered acquire that could still run at `since` or later.
    fn alive_until(&self, since: Ms) -> Option<Ms> {
        let not_afters = self.unanswered.iter().map(|(_, not_after)| *not_after);
        not_afters.filter(|not_after| *not_after >= since).max()
    }
}

impl Fair {
    /// Does the deed of an owner that can do it.
    pub(super) fn do_deed(&mut self, who: Name, deed: Deed, world: &mut World<'_>) {
        let now = world.now();
        match deed {
            Deed::Acquire { lease, wish } => {
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
                    unanswered: Vec::new(),
                });
                self.send_turn(who, world);
            }
            Deed::Again => self.send_turn(who, world),
            Deed::Stall(time) => {
                let claim = self.claim(who);
                claim.stalled_until = claim.stalled_until.max(Some(now + time));
                claim.next_turn = claim.next_turn.max(now + time);
            }
            Deed::Reenter { lease } => {
                let count = self.claim(who).count + 1;
                self.begin(who, Verb::Reenter { count, lease, not_after: now + ATTEMPT }, world);
            }
            Deed::Release => {
                let count = self.claim(who).count - 1;
                self.begin(who, Verb::Release { count }, world);
            }
            Deed::Resend => self.send(who, world),
            Deed::GiveUp if self.claim(who).lets_go() => self.abandon(who, now),
            Deed::GiveUp => self.claim(who).operation = None,
            Deed::Cancel => self.forget(who, now),
            Deed::Renew => {
                let (id, lease) = (self.claim(who).id, self.claim(who).lease);
                self.call(id, Verb::Renew { lease }, world.step(), world);
            }
            Deed::Die => {
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
            let call = Call { id: claim.id, verb: self.turn(who, now), operation: 0, clock: 0 };
            let answer = self.run_at_once(&call, world);
            self.hear(0, now, &call, &answer, world);
        }
    }

    fn turn(&mut self, who: Name, now: Ms) -> Verb {
        let claim = self.claim(who);
        Verb::Acquire { lease: claim.lease, not_after: now + ATTEMPT, stands: claim.stands }
    }

    /// A turn by way of the network.
    fn send_turn(&mut self, who: Name, world: &mut World<'_>) {
        let (now, copy) = (world.now(), world.step());
        let verb = self.turn(who, now);
        let claim = self.claim(who);
        claim.unanswered.push((copy, now + ATTEMPT));
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
        if let Some(alive) = claim.alive_until(since) {
            self.take_on(claim.id, Some(alive));
        }
    }

    /// The claim is over for its owner, and the server may still keep something of it.
    pub(super) fn abandon(&mut self, who: Name, since: Ms) {
        let claim = self.owner(who).claim.take().expect("a claim to abandon");
        self.take_on(claim.id, claim.alive_until(since));
    }

    fn take_on(&mut self, id: Id, after: Option<Ms>) {
        if self.rules.keep(Rule::Withdraw) {
            self.janitor.take_on(vec![id], after);
        }
    }
}
