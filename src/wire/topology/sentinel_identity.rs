//! [`SentinelIdentity`]: which sentinels are of the deployment that was asked before.
//!
//! An address may come to belong to a sentinel of another deployment whose master has the same name.
//! Sentinels of one deployment know each other: their answers have ids in common. Those that have just been
//! started know nobody yet, but name the same master.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{cluster_identity::FORGOTTEN, slots::View};
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
    fn are_most(&self, mut is_meant: impl FnMut(usize) -> bool) -> bool {
        let configured =
            self.are_configured.iter().enumerate().filter(|(_, configured)| **configured);
        configured.filter(|(at, _)| is_meant(*at)).count() >= self.most
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
        let is_by_master = self.are_set_up_anew(views);
        let ours = self.choose(answers, now)?;
        let is_mixed = ours.contains(&false);
        if is_mixed && !self.mixed {
            tracing::warn!("sentinels of another deployment have answered");
        }
        self.mixed = is_mixed;
        let chosen = views.iter().zip(&ours).filter(|(_, is_ours)| **is_ours);
        let ids: Ids = chosen.flat_map(|(view, _)| view.ids.clone()).collect();
        self.is_replaced = false;
        if ids.is_empty() {
            return Ok(ours);
        }
        self.alone = None;
        let are_others = self.known.is_disjoint(&ids);
        self.is_replaced = are_others && !is_by_master && !self.known.is_empty();
        let are_most = answers.are_most(|at| ours[at] && !views[at].ids.is_empty());
        self.is_sure = are_most || self.is_sure && !are_others;
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
        let is_there = views.iter().any(|view| self.knows(view));
        let name_one = common_master(views).is_some();
        if name_one && (is_new || is_there) || self.are_set_up_anew(views) {
            return Ok(vec![true; views.len()]);
        }
        let groups = groups_of(views);
        let of_most = groups.iter().find(|group| answers.are_most(|at| group.contains(&at)));
        let with_those_without_ids = |is_ours: &dyn Fn(usize) -> bool| {
            (0..views.len()).map(|at| views[at].ids.is_empty() || is_ours(at)).collect()
        };
        let all_of = |group: &Vec<usize>| with_those_without_ids(&|at| group.contains(&at));
        if let Some(group) = of_most.filter(|_| !self.is_sure) {
            return Ok(all_of(group));
        }
        if is_there {
            // One that was moved to another deployment keeps its id.
            let in_common = |view: &View| view.ids.intersection(&self.known).count();
            let most = views.iter().map(in_common).max().unwrap_or(0);
            let is_near = |at: usize| 2 * in_common(&views[at]) >= most && self.knows(&views[at]);
            return Ok(with_those_without_ids(&is_near));
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

/// The places of views that have ids in common.
fn groups_of(views: &[View]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(Vec<usize>, BTreeSet<&NodeId>)> = Vec::new();
    for (at, view) in views.iter().enumerate().filter(|(_, view)| !view.ids.is_empty()) {
        let mut group = (vec![at], view.ids.iter().collect::<BTreeSet<_>>());
        let near = groups.extract_if(.., |(_, ids)| !ids.is_disjoint(&group.1));
        for (places, ids) in near.collect::<Vec<_>>() {
            group.0.extend(places);
            group.1.extend(ids);
        }
        groups.push(group);
    }
    groups.into_iter().map(|(places, _)| places).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::topology::slots::{ALL_SLOTS, Claim, Server};

    /// Most of three.
    const MOST: usize = 2;

    /// It knows sentinels of these ids, its own among them, and names the master on that port.
    fn says(ids: &str, port: u16) -> View {
        let master = Server { address: Address::new("h", port), id: None };
        let claim = Claim { epoch: 1, slots: ALL_SLOTS, master };
        let ids = ids.chars().map(|id| NodeId::new(&id.to_string())).collect();
        View { claims: vec![claim], ids, ..View::default() }
    }

    /// It replaces that master.
    fn replaces(ids: &str, port: u16) -> View {
        let leaving = Some(Address::new("h", port));
        View { leaving, claims: Vec::new(), ..says(ids, port) }
    }

    /// Which of the views are ours, as digits.
    struct Seen(SentinelIdentity, Instant);

    impl Seen {
        fn new() -> Self {
            Self(SentinelIdentity::default(), Instant::now())
        }

        /// The first three come from configured addresses.
        fn ours(&mut self, views: &[View]) -> Option<String> {
            let are_configured: Vec<_> = (0..views.len()).map(|at| at < 3).collect();
            let answers = Answers { views, are_configured: &are_configured, most: MOST };
            let ours = self.0.ours(answers, self.1).ok()?;
            let chosen = views.iter().zip(&ours).filter(|(_, is_ours)| **is_ours);
            if let Some(master) = common_master(chosen.map(|(view, _)| view)) {
                self.0.uses(&master.clone());
            }
            Some(ours.into_iter().map(|is_ours| if is_ours { '1' } else { '0' }).collect())
        }

        fn later(&mut self, by: Duration) {
            self.1 += by;
        }
    }

    #[track_caller]
    fn assert_ours(seen: &mut Seen, views: &[View], expected: impl Into<Option<&'static str>>) {
        assert_eq!(seen.ours(views).as_deref(), expected.into(), "{views:?}");
    }

    #[test]
    fn one_that_knows_none_of_the_others_is_a_stranger() {
        let seen = &mut Seen::new();
        assert_ours(seen, &[says("abc", 1), says("abc", 1), says("x", 2)], "110");
        assert_ours(seen, &[says("x", 2), says("c", 3)], "01");
        assert_ours(seen, &[says("x", 2)], None);
        let views = [says("xyz", 2), says("xyz", 2), says("cd", 3)];
        assert_ours(seen, &views, "001");
        // They are replaced one after the other.
        assert_ours(seen, &[says("de", 3), says("x", 2)], "10");
        assert!(seen.0.may_be_ours(&says("e", 1)) && !seen.0.may_be_ours(&says("x", 1)));
    }

    #[test]
    fn those_that_replace_a_master_are_known_as_ever() {
        let seen = &mut Seen::new();
        assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
        assert_ours(seen, &[replaces("abc", 1), replaces("abc", 1)], "11");
        assert_ours(seen, &[replaces("abc", 1), says("abc", 2), says("x", 3)], "110");
        assert_ours(seen, &[replaces("abc", 2)], "1");
    }

    #[test]
    fn a_stranger_that_answers_first_gives_way_to_most() {
        let seen = &mut Seen::new();
        let (x, a) = (|| says("xyz", 2), || says("abc", 1));
        assert_ours(seen, &[x()], "1");
        assert_ours(seen, &[x(), a()], "10");
        assert!(!seen.0.is_replaced());
        // Its peers are there, too.
        assert_ours(seen, &[x(), a(), a(), x(), x()], "01100");
        assert!(seen.0.is_replaced());
        assert_ours(seen, &[x(), x(), a()], "001");
        assert!(!seen.0.is_replaced());
    }

    #[test]
    fn those_that_have_not_met_are_ours_if_they_name_the_same_master() {
        let seen = &mut Seen::new();
        assert_ours(seen, &[says("a", 1), says("x", 2)], None);
        for _ in 0..2 {
            assert_ours(seen, &[says("a", 1), says("b", 1), says("c", 1)], "111");
        }
        assert_ours(seen, &[says("a", 1), says("b", 1)], "11");
        assert_ours(seen, &[says("ab", 2), says("ab", 2), says("d", 1)], "110");
    }

    #[test]
    fn those_that_are_set_up_anew_are_ours_at_once_if_they_name_the_master_before() {
        let seen = &mut Seen::new();
        assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
        assert_ours(seen, &[says("x", 1)], "1");
        assert_ours(seen, &[says("abc", 2), says("xyz", 2)], "11");
        assert_ours(seen, &[says("pq", 3), says("pq", 3)], None);
        seen.later(FORGOTTEN - Duration::from_millis(1));
        assert_ours(seen, &[says("pq", 3), says("pq", 3)], None);
        seen.later(Duration::from_millis(1));
        assert_ours(seen, &[says("pq", 3), says("pq", 3)], "11");
        assert_ours(seen, &[says("pq", 3), says("pq", 3), says("abc", 2)], "110");
    }

    #[test]
    fn those_that_were_away_come_first_again_if_they_are_most() {
        let seen = &mut Seen::new();
        assert_ours(seen, &[says("abc", 1), says("abc", 1)], "11");
        assert_ours(seen, &[says("x", 2)], None);
        // Silence is no answer of theirs.
        assert_ours(seen, &[], "");
        seen.later(FORGOTTEN);
        assert_ours(seen, &[says("x", 2)], "1");
        assert_ours(seen, &[says("x", 2), says("abc", 1), says("abc", 1)], "011");
        // Others had joined by the master that they named.
        assert_ours(seen, &[says("y", 1)], "1");
        assert_ours(seen, &[says("y", 1)], "1");
        assert_ours(seen, &[says("abc", 3), says("abc", 3), says("y", 1)], "110");
    }

    #[test]
    fn one_that_was_moved_to_another_deployment_takes_nobody_along() {
        let seen = &mut Seen::new();
        let a = || says("abc", 1);
        assert_ours(seen, &[a(), a(), a()], "111");
        let c = || says("cyz", 2);
        assert_ours(seen, &[a(), a(), c(), c(), c()], "11000");
    }

    /// As after `SENTINEL RESET`.
    #[test]
    fn those_that_have_forgotten_each_other_are_ours() {
        let seen = &mut Seen::new();
        assert_ours(seen, &[says("abc", 1), says("abc", 1), says("abc", 1)], "111");
        assert_ours(seen, &[says("a", 2), says("b", 2), says("c", 1)], "111");
    }

    /// They are older than Redis 6.2, or their user may not ask for it.
    #[test]
    fn those_that_do_not_tell_their_ids_are_all_believed() {
        let seen = &mut Seen::new();
        assert_ours(seen, &[], "");
        for _ in 0..2 {
            assert_ours(seen, &[says("", 1), says("", 2)], "11");
        }
        assert_ours(seen, &[says("ab", 1), says("", 2), says("b", 1)], "111");
        assert_ours(seen, &[says("", 1)], "1");
        assert_ours(seen, &[says("xy", 3), says("xy", 3), says("", 1)], "001");
        seen.later(FORGOTTEN);
        assert_ours(seen, &[says("xy", 3), says("xy", 3), says("", 1)], "111");
        assert_ours(seen, &[says("b", 3), says("", 2), says("x", 1)], "011");
    }
}
