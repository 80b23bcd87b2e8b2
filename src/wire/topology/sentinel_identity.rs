//! [`SentinelIdentity`]: which sentinels are of the deployment that was asked before.
//!
//! An address may come to belong to a sentinel of another deployment whose master has the same name.
//! Sentinels of one deployment know each other: their answers have ids in common. Those that have just been
//! started know nobody yet, but name the same master.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{
    cluster_identity::{COMES_BACK, FORGOTTEN, groups_of},
    slots::View,
};
use crate::wire::{answers::Failure, deployment::Address, node_id::NodeId};

type Ids = BTreeSet<NodeId>;

/// The ids of the sentinels that were believed last. Older ones than of Redis 6.2 do not tell their own, and
/// are all believed.
#[derive(Debug, Default)]
pub(super) struct SentinelIdentity {
    known: Ids,
    /// Whether most of the configured addresses had answered so when these became known.
    is_sure: bool,
    /// Whether the last answers were of others than those before.
    is_replaced: bool,
    /// The master that was used last.
    master: Option<Address>,
    /// Since when others have answered alone.
    alone: Option<Instant>,
    /// Those in whose place these were believed, because none of them answered; and since when.
    before: Option<(Ids, Instant)>,
    /// Whether others were among the last answers.
    mixed: bool,
}

/// Answers, and whether each came from a configured address. The peers of a stranger do not count: an
/// address that a sentinel names is none of those.
#[derive(Clone, Copy)]
pub(super) struct Answers<'a> {
    pub(super) views: &'a [View],
    pub(super) are_configured: &'a [bool],
    /// How many are most of the configured addresses.
    pub(super) most: usize,
}

impl Answers<'_> {
    fn are_most(&self, is_meant: impl FnMut(usize) -> bool) -> bool {
        self.count(is_meant) >= self.most
    }

    /// How many of those that are meant came from configured addresses.
    fn count(&self, mut is_meant: impl FnMut(usize) -> bool) -> usize {
        let configured =
            self.are_configured.iter().enumerate().filter(|(_, configured)| **configured);
        configured.filter(|(at, _)| is_meant(*at)).count()
    }
}

impl SentinelIdentity {
    /// Whether it may be one of them, as far as it can be told without the others.
    pub(super) fn may_be_ours(&self, view: &View) -> bool {
        self.known.is_empty() || view.ids.is_empty() || self.knows(view)
    }

    /// Whether the last answers that were believed were of other sentinels than those before.
    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// Whether they were believed in place of others, which may come back.
    pub(super) fn is_a_guess(&self) -> bool {
        self.before.is_some()
    }

    /// How many sentinels there are, as far as they tell it.
    pub(super) fn count(&self) -> usize {
        self.known.len()
    }

    /// Notes which master is used.
    pub(super) fn uses(&mut self, master: &Address) {
        self.master = Some(master.clone());
    }

    /// Which of these are of those sentinels. Fails when others have answered alone.
    pub(super) fn ours(
        &mut self,
        answers: Answers<'_>,
        now: Instant,
    ) -> Result<Vec<bool>, Failure> {
        let Answers { views, .. } = answers;
        if views.iter().all(|view| view.ids.is_empty()) {
            return Ok(vec![true; views.len()]);
        }
        self.before.take_if(|(_, since)| now >= *since + COMES_BACK);
        let is_by_master = self.are_set_up_anew(views);
        let was_alone = self.alone.is_some();
        let ours = self.choose(answers, now)?;
        let is_mixed = ours.contains(&false);
        if is_mixed && !self.mixed {
            tracing::warn!("sentinels of another deployment have answered");
        }
        self.mixed = is_mixed;
        let chosen = || views.iter().zip(&ours).filter(|(_, is_ours)| **is_ours);
        // One that names the same master has yet to meet the others.
        let is_there = chosen().any(|(view, _)| self.is_one(view));
        let met = chosen().filter(|(view, _)| !is_there || self.is_one(view));
        let ids: Ids = met.flat_map(|(view, _)| view.ids.clone()).collect();
        self.is_replaced = false;
        if ids.is_empty() {
            return Ok(ours);
        }
        self.alone = None;
        let are_others = self.known.is_disjoint(&ids);
        self.is_replaced = are_others && !is_by_master && !self.known.is_empty();
        let are_most = answers.are_most(|at| ours[at] && !views[at].ids.is_empty());
        self.is_sure = are_most || self.is_sure && !are_others;
        if self.before.as_ref().is_some_and(|(before, _)| !before.is_disjoint(&ids)) {
            self.before = None;
        } else if self.is_replaced && was_alone {
            self.before = Some((self.known.clone(), now));
        }
        if is_by_master {
            // Those from before may come back.
            self.known.extend(ids);
        } else {
            self.known = ids;
        }
        Ok(ours)
    }

    fn choose(&mut self, answers: Answers<'_>, now: Instant) -> Result<Vec<bool>, Failure> {
        let Answers { views, .. } = answers;
        let is_new = self.known.is_empty();
        let is_there = views.iter().any(|view| self.is_one(view));
        let name_one = common_master(views).is_some();
        if name_one && (is_new || is_there) || self.are_set_up_anew(views) {
            return Ok(vec![true; views.len()]);
        }
        let mut groups: Vec<_> = groups_of(views).into_iter().map(|group| group.views).collect();
        groups.retain(|group| group.iter().all(|at| !views[*at].ids.is_empty()));
        let of_most = groups.iter().find(|group| answers.are_most(|at| group.contains(&at)));
        let with_those_without_ids = |is_ours: &dyn Fn(usize) -> bool| {
            (0..views.len()).map(|at| views[at].ids.is_empty() || is_ours(at)).collect()
        };
        let all_of = |group: &Vec<usize>| with_those_without_ids(&|at| group.contains(&at));
        if let Some(group) = of_most.filter(|_| !self.is_sure) {
            return Ok(all_of(group));
        }
        if let Some((before, _)) = &self.before {
            let is_of_before = |view: &View| !view.ids.is_disjoint(before);
            let count = |is_meant: &dyn Fn(&View) -> bool| answers.count(|at| is_meant(&views[at]));
            if views.iter().any(is_of_before)
                && count(&is_of_before) >= count(&|view| self.is_one(view))
            {
                return Ok(with_those_without_ids(&|at| is_of_before(&views[at])));
            }
        }
        if is_there {
            return Ok(with_those_without_ids(&|at| self.is_one(&views[at])));
        }
        let alone = *self.alone.get_or_insert(now);
        let believed = match &groups[..] {
            [one] => Some(one),
            _ => of_most,
        };
        match believed.filter(|_| is_new || now >= alone + FORGOTTEN) {
            Some(group) => Ok(all_of(group)),
            None if views.iter().any(|view| view.ids.is_empty()) => {
                Ok(with_those_without_ids(&|_| false))
            }
            None if is_new => Err(Failure::no_master(
                "sentinels that do not know each other name different masters",
            )),
            None => Err(Failure::no_master(
                "only sentinels that do not know those from before have answered",
            )),
        }
    }

    /// Whether they know none of those from before, and name the same master.
    fn are_set_up_anew(&self, views: &[View]) -> bool {
        let master = common_master(views);
        let is_same = master.is_some() && master == self.master.as_ref();
        is_same && !self.known.is_empty() && !views.iter().any(|view| self.knows(view))
    }

    fn knows(&self, view: &View) -> bool {
        !view.ids.is_disjoint(&self.known)
    }

    /// Whether it knows them, and not only because one that was moved to another deployment has kept its id.
    fn is_one(&self, view: &View) -> bool {
        let in_common = view.ids.intersection(&self.known).count();
        let master = common_master([view]);
        let is_same = master.is_some() && master == self.master.as_ref();
        in_common > 0 && (2 * in_common >= view.ids.len() || is_same)
    }
}

/// The master that all of them name, or are replacing.
fn common_master<'a>(views: impl IntoIterator<Item = &'a View>) -> Option<&'a Address> {
    let named = |view: &'a View| {
        let claimed = view.claims.iter().map(|claim| &claim.master.address);
        claimed.chain(&view.leaving)
    };
    let mut masters = views.into_iter().flat_map(named);
    masters.next().filter(|first| masters.all(|other| other == *first))
}

#[cfg(test)]
mod tests;
