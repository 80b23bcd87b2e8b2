//! [`SentinelIdentity`]: which sentinels are of the deployment that was asked before.
//!
//! An address may come to belong to a sentinel of another deployment whose master has the same name.
//! Sentinels of one deployment know each other: each lists the id of the other. Those that have just been
//! started know nobody yet, but name the same master.
//!
//! A sentinel that was moved to another deployment keeps its id. Its old peers still list it, and so do its new
//! ones, but it lists no old peer. So one id in common is not enough.

mod believed;

use std::collections::BTreeMap;

use tokio::time::Instant;

use self::believed::{Believed, Ids, are_near, common_master, names_as};
use super::{
    cluster_identity::{COMES_BACK, FORGOTTEN, groups_of},
    failover_epoch::CATCH_UP,
    slots::View,
};
use crate::wire::{answers::Failure, deployment::Address, node_id::NodeId};

/// The sentinels that were believed last. Older ones than of Redis 6.2 do not tell their ids. They are all
/// believed, except beside others that do.
#[derive(Debug, Default)]
pub(super) struct SentinelIdentity {
    known: Believed,
    /// Whether most of the configured addresses had answered so when these became known.
    is_sure: bool,
    /// Whether the last answers were of others than those before.
    is_replaced: bool,
    /// Since when others have answered alone.
    alone: Option<Instant>,
    /// Those in whose place these were believed, because none of them answered.
    before: Option<Before>,
    /// When each has answered last.
    heard: BTreeMap<NodeId, Instant>,
    /// Whether others were among the last answers.
    mixed: bool,
}

#[derive(Debug)]
struct Before {
    known: Believed,
    since: Instant,
    /// Whether the others count epochs of their own.
    are_others: bool,
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
        let is_near = self.known.ids.is_empty() || self.known.is_near(view);
        is_near || view.ids.is_empty() || self.is_of_before(view)
    }

    /// Whether it may be one of those that come first.
    pub(super) fn is_awaited(&self, view: &View) -> bool {
        let is_guess = self.is_a_guess() && !self.is_sure;
        if is_guess {
            view.ids.is_empty() || self.is_of_before(view)
        } else {
            self.may_be_ours(view)
        }
    }

    fn is_of_before(&self, view: &View) -> bool {
        self.before.as_ref().is_some_and(|before| before.known.is_near(view))
    }

    /// Whether most of the configured addresses have yet to answer as these have.
    pub(super) fn is_unsure(&self) -> bool {
        !self.known.ids.is_empty() && !self.is_sure
    }

    /// Whether the last answers that were believed were of other sentinels than those before.
    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced
    }

    /// Whether they were believed in place of others, which may come back.
    pub(super) fn is_a_guess(&self) -> bool {
        self.before.is_some()
    }

    /// How many sentinels there are, if they tell it. They also list some that are gone. So no more count
    /// than are configured, or have answered lately.
    pub(super) fn count(&self, configured: usize) -> Option<usize> {
        let known = self.known.ids.len();
        (known > 0).then(|| known.min(configured.max(self.heard.len())))
    }

    /// Notes which master is used.
    pub(super) fn uses(&mut self, master: &Address) {
        self.known.master = Some(master.clone());
    }

    /// Which of these are of those sentinels. Fails when others have answered alone.
    pub(super) fn ours(
        &mut self,
        answers: Answers<'_>,
        now: Instant,
    ) -> Result<Vec<bool>, Failure> {
        let Answers { views, .. } = answers;
        self.is_replaced = false;
        if views.is_empty() {
            return Ok(Vec::new());
        }
        self.before.take_if(|before| now >= before.since + COMES_BACK);
        let mine = self.known.members(views);
        let before = self.before.as_ref();
        let theirs = before.map_or(vec![false; views.len()], |before| before.known.members(views));
        let chosen = self.choose(answers, &mine, &theirs, now);
        let ours = chosen.as_deref().unwrap_or_default();
        if ours.contains(&true) {
            self.learn(answers, ours, [&mine, &theirs], now);
        }
        // Once most have told their ids, one that does not is believed only if it does not contradict them.
        let is_chosen = |at| ours.get(at) == Some(&true);
        let met = || {
            let chosen = (0..views.len()).filter(|at| is_chosen(*at)).map(|at| &views[at]);
            chosen.filter(|view| self.known.has_met(view))
        };
        let agrees = |view: &View| self.known.is_used(view) || names_as(view, met());
        let may_be = |view: &View| {
            view.ids.is_empty() && (!self.is_sure || self.known.master.is_none() || agrees(view))
        };
        let mut all: Vec<_> =
            views.iter().enumerate().map(|(at, view)| is_chosen(at) || may_be(view)).collect();
        if !all.contains(&true) {
            chosen?;
            if now < *self.alone.get_or_insert(now) + FORGOTTEN {
                return Err(are_others());
            }
            self.guess(now, true);
            self.is_replaced = true;
            self.known.ids.clear();
            all.fill(true);
        }
        let is_mixed = all.contains(&false);
        if is_mixed && !self.mixed {
            log!(warn, "sentinels of another deployment have answered");
        }
        self.mixed = is_mixed;
        Ok(all)
    }

    /// Chooses among those that tell their ids, by the first of these that applies:
    /// 1. All, if they name one master, and it is the one in use, or one of them has met those known.
    /// 2. Until most of the configured addresses have agreed: the group that most of them are of.
    /// 3. If one is both of those known and of those from before: its group, of these.
    /// 4. Those from before, if no more configured addresses are of those known. Doubtful ones that
    ///    name another master only against doubtful ones.
    /// 5. Those known.
    /// 6. After [`FORGOTTEN`], or at first: the only group there is, or the one that most are of.
    fn choose(
        &mut self,
        answers: Answers<'_>,
        mine: &[bool],
        theirs: &[bool],
        now: Instant,
    ) -> Result<Vec<bool>, Failure> {
        let Answers { views, .. } = answers;
        let tells = |at: usize| !views[at].ids.is_empty();
        let all_of = |is_ours: &dyn Fn(usize) -> bool| {
            Ok((0..views.len()).map(|at| tells(at) && is_ours(at)).collect())
        };
        if !(0..views.len()).any(tells) {
            return all_of(&|_| false);
        }
        let (is_new, before) = (self.is_new(), self.before.as_ref());
        if let Some(master) = common_master(views) {
            let has_met = |view| {
                self.known.has_met(view) || before.is_some_and(|before| before.known.has_met(view))
            };
            let is_used = self.known.master.as_ref() == Some(master);
            if is_new || is_used || views.iter().any(has_met) {
                return all_of(&|_| true);
            }
        }
        let groups = groups_of(views, are_near).into_iter().map(|group| group.views);
        let groups: Vec<_> = groups.filter(|group| tells(group[0])).collect();
        let of_most = groups.iter().find(|group| answers.are_most(|at| group.contains(&at)));
        if let Some(group) = of_most.filter(|_| !self.is_sure) {
            return all_of(&|at| group.contains(&at));
        }
        // It lags, and still lists one from before.
        let is_of_both = |at: &usize| mine[*at] && theirs[*at];
        let lagging = groups.iter().filter(|group| group.iter().any(is_of_both)).flatten();
        let lagging: Vec<_> = lagging.copied().collect();
        if !lagging.is_empty() {
            return all_of(&|at| (mine[at] || theirs[at]) && lagging.contains(&at));
        }
        let any = |is_meant: &[bool], is_so: &dyn Fn(&View) -> bool| {
            views.iter().zip(is_meant).any(|(view, is_meant)| *is_meant && is_so(view))
        };
        // Doubtful ones that name another master than before do not come back against others that are not.
        let come_back = before.is_some_and(|Before { known, .. }| {
            any(theirs, &|view| known.has_met(view) || known.is_used(view))
        });
        if (come_back || !any(mine, &|view| self.known.has_met(view)))
            && theirs.contains(&true)
            && answers.count(|at| theirs[at]) >= answers.count(|at| mine[at])
        {
            return all_of(&|at| theirs[at]);
        }
        if mine.contains(&true) {
            return all_of(&|at| mine[at]);
        }
        let alone = *self.alone.get_or_insert(now);
        let believed = match &groups[..] {
            [one] => Some(one),
            _ => of_most,
        };
        match believed.filter(|_| is_new || now >= alone + FORGOTTEN) {
            Some(group) => all_of(&|at| group.contains(&at)),
            None if is_new => Err(Failure::no_master(
                "sentinels that do not know each other name different masters",
            )),
            None => Err(are_others()),
        }
    }

    /// Notes who was chosen.
    fn learn(
        &mut self,
        answers: Answers<'_>,
        ours: &[bool],
        [mine, theirs]: [&[bool]; 2],
        now: Instant,
    ) {
        let Answers { views, .. } = answers;
        let chosen: Vec<_> = (0..views.len()).filter(|at| ours[*at]).collect();
        let any = |is_meant: &dyn Fn(usize) -> bool| chosen.iter().any(|at| is_meant(*at));
        let (is_new, are_most) = (self.is_new(), answers.are_most(|at| ours[at]));
        let is_ours = any(&|at| mine[at]);
        let is_back = self.before.take_if(|before| {
            any(&|at| theirs[at] && (!is_ours || before.known.has_met(&views[at])))
        });
        let goes_on = is_ours || is_back.is_some();
        if let Some(before) = is_back.filter(|_| !is_ours) {
            self.is_replaced = before.are_others;
            (self.known, self.is_sure) = (before.known, false);
        }
        // One that names the same master has yet to meet the others.
        let met = chosen.iter().filter(|at| !goes_on || mine[**at] || theirs[**at]);
        let ids: Ids = met.flat_map(|at| views[*at].ids.clone()).collect();
        if !goes_on {
            let master = common_master(chosen.iter().map(|at| &views[*at]));
            // Those that name the same master are the same, set up anew.
            self.is_replaced =
                !is_new && (master.is_none() || master != self.known.master.as_ref());
            if !is_new && (self.is_sure || !are_most) {
                self.guess(now, self.is_replaced);
            }
            self.known.ids = ids;
        } else if any(&|at| self.known.has_met(&views[at])) {
            self.known.ids = ids;
        } else if !ids.is_subset(&self.known.ids) {
            self.guess(now, false);
            self.known.ids = ids;
        }
        self.is_sure = are_most || self.is_sure && goes_on;
        self.alone = None;
        let own = chosen.iter().filter_map(|at| views[*at].own.clone());
        self.heard.extend(own.map(|own| (own, now)));
        self.heard.retain(|own, at| self.known.ids.contains(own) && now < *at + CATCH_UP);
    }

    /// Others are believed in place of those known, which may come back.
    fn guess(&mut self, now: Instant, are_others: bool) {
        match &mut self.before {
            Some(before) if !self.is_sure => before.are_others |= are_others,
            before => *before = Some(Before { known: self.known.clone(), since: now, are_others }),
        }
        self.is_sure = false;
    }

    fn is_new(&self) -> bool {
        self.known.ids.is_empty() && self.before.is_none()
    }
}

fn are_others() -> Failure {
    Failure::no_master("only sentinels that do not know those from before have answered")
}

#[cfg(test)]
mod tests;
