//! [`Believed`]: what is known of sentinels, and what their answers say of each other.

use std::collections::BTreeSet;

use super::super::slots::View;
use crate::wire::{deployment::Address, node_id::NodeId};

pub(super) type Ids = BTreeSet<NodeId>;

/// The ids of sentinels, and the master that was used by their word.
#[derive(Clone, Debug, Default)]
pub(super) struct Believed {
    pub(super) ids: Ids,
    pub(super) master: Option<Address>,
}

impl Believed {
    /// Which of the views are of them. A doubtful one beside others that have met them must name a master that
    /// one of those names. If none has met them, it must name their master, or be one of several doubtful ones
    /// that name another, more than those that name theirs. One alone may have been moved.
    pub(super) fn members(&self, views: &[View]) -> Vec<bool> {
        let are_met: Vec<_> = views.iter().filter(|view| self.has_met(view)).collect();
        let count = |is_meant: &dyn Fn(&View) -> bool| {
            let doubtful = views.iter().filter(|view| self.may_be(view) && is_meant(view));
            doubtful.map(|view| &view.own).collect::<BTreeSet<_>>().len()
        };
        let stay = count(&|other| self.is_used(other));
        let leave = |view: &View| count(&|other| common_master([other, view]).is_some());
        let is_not_refuted = |view: &View| match &are_met[..] {
            [] => self.is_used(view) || leave(view) > stay.max(1),
            met => names_as(view, met.iter().copied()),
        };
        let is_member =
            |view: &View| self.has_met(view) || self.may_be(view) && is_not_refuted(view);
        views.iter().map(is_member).collect()
    }

    /// Whether it lists them: two of them, or the only one.
    pub(super) fn has_met(&self, view: &View) -> bool {
        let in_common = self.in_common(view);
        let are_enough = in_common > 1 || in_common > 0 && in_common == self.ids.len();
        are_enough && (2 * in_common >= view.ids.len() || self.is_used(view))
    }

    /// Whether it may be one of them: it names their master, or it knows nobody, as after `SENTINEL RESET`.
    fn may_be(&self, view: &View) -> bool {
        self.in_common(view) > 0 && (self.is_used(view) || view.ids.len() == 1)
    }

    pub(super) fn is_near(&self, view: &View) -> bool {
        self.has_met(view) || self.may_be(view)
    }

    fn in_common(&self, view: &View) -> usize {
        view.ids.intersection(&self.ids).count()
    }

    /// Whether it names the master that is used.
    pub(super) fn is_used(&self, view: &View) -> bool {
        self.master.is_some() && common_master([view]) == self.master.as_ref()
    }
}

/// Whether they are of one deployment: they list each other, or name the same master.
pub(super) fn are_near(one: &View, other: &View) -> bool {
    let (Some(own), Some(others)) = (&one.own, &other.own) else { return false };
    let list_each_other = one.ids.contains(others) && other.ids.contains(own);
    list_each_other || common_master([one, other]).is_some()
}

/// Whether it names the master that one of the others names.
pub(super) fn names_as<'a>(view: &View, mut others: impl Iterator<Item = &'a View>) -> bool {
    others.any(|other| common_master([other, view]).is_some())
}

/// The master that all of them name, or are replacing.
pub(super) fn common_master<'a>(views: impl IntoIterator<Item = &'a View>) -> Option<&'a Address> {
    let named = |view: &'a View| {
        let claimed = view.claims.iter().map(|claim| &claim.master.address);
        let heir = view.heir.iter().map(|claim| &claim.master.address);
        claimed.chain(&view.leaving).chain(heir)
    };
    let mut masters = views.into_iter().flat_map(named);
    masters.next().filter(|first| masters.all(|other| other == *first))
}
