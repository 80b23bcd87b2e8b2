//! An owner of this crate: what it believes, and what it may do next.

use super::call::Verb;
use crate::clients::{self, Id, Name};
use crate::model::{Ms, StepId};

pub(super) type OwnerStep = clients::OwnerStep<Ms>;
pub(super) type Claim = clients::Claim<Id, Verb, Wish>;

/// A logical thread.
#[derive(Debug)]
pub(super) struct Owner {
    pub(super) name: Name,
    /// Its clock is slow, by what the drift allows for.
    pub(super) slow: bool,
    pub(super) claim: Option<Claim>,
}

/// What it asks for.
#[derive(Debug)]
pub(super) struct Wish {
    pub(super) lease: Ms,
    /// It waits to be handed somebody's hold.
    pub(super) receives: bool,
}

impl Owner {
    /// The hold it believes in now.
    pub(super) fn believes(&self, now: Ms) -> Option<Id> {
        self.claim.as_ref().filter(|claim| claim.believes(now)).map(|claim| claim.id)
    }

    /// The count it would swear to.
    pub(super) fn sure_count(&self) -> Option<(Id, u32, StepId)> {
        let claim = self.claim.as_ref().filter(|claim| claim.is_sure())?;
        Some((claim.id, claim.count, claim.stated_by))
    }

    pub(super) fn can(&self, step: OwnerStep, now: Ms) -> bool {
        match &self.claim {
            None => matches!(step, OwnerStep::Acquire { .. }),
            Some(claim) => !claim.own.receives && claim.can(step, now),
        }
    }

    pub(super) fn can_hand_over(&self) -> bool {
        let claim = self.claim.as_ref();
        claim.is_some_and(|claim| claim.operation.is_none() && claim.count == 1)
    }
}
