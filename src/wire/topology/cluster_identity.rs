//! [`ClusterIdentity`]: which nodes are of the cluster that was asked before.
//!
//! An address may come to belong to a node of another cluster, which has other owners of slots and other
//! locks. Nodes of one cluster know each other: their views have ids in common.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::slots::View;
use crate::wire::{answers::Failure, node_id::NodeId};

/// A cluster none of whose nodes has answered for this long may have been set up anew.
pub(super) const FORGOTTEN: Duration = Duration::from_secs(30);

/// A cluster that was away comes first again within this time.
pub(super) const COMES_BACK: Duration = Duration::from_secs(600);

type Ids = BTreeSet<NodeId>;

/// The ids of the nodes of a cluster that serves slots.
#[derive(Debug, Default)]
pub(super) struct ClusterIdentity {
    known: Ids,
    /// Since when others have answered alone.
    alone: Option<Instant>,
    /// The ids of the cluster in whose place this one was believed, because none of its nodes answered; and
    /// since when.
    before: Option<(Ids, Instant)>,
    /// Whether the last answers were of several clusters.
    mixed: bool,
}

/// Views of nodes, or of sentinels, that are near to each other.
#[derive(Debug, Default)]
pub(super) struct Group<'a> {
    /// Their places.
    pub(super) views: Vec<usize>,
    ids: BTreeSet<&'a NodeId>,
    slots: usize,
}

impl Group<'_> {
    fn knows(&self, known: &Ids) -> bool {
        self.in_common(known) > 0
    }

    fn in_common(&self, known: &Ids) -> usize {
        self.ids.iter().filter(|id| known.contains(**id)).count()
    }
}

impl ClusterIdentity {
    /// Whether the cluster was believed in place of another one, which may come back.
    pub(super) fn is_a_guess(&self) -> bool {
        self.before.is_some()
    }

    /// Whether the view may be one of that cluster, as far as it can be told without the others.
    pub(super) fn may_be_ours(&self, view: &View) -> bool {
        is_near(&self.known, view) || self.is_awaited(view)
    }

    /// Whether the view may be one of the cluster that comes first.
    pub(super) fn is_awaited(&self, view: &View) -> bool {
        is_near(self.before.as_ref().map_or(&self.known, |(before, _)| before), view)
    }

    /// Which of these views are of that cluster. Fails when others have answered alone.
    pub(super) fn ours(&mut self, views: &[View], now: Instant) -> Result<Vec<bool>, Failure> {
        if views.is_empty() {
            return Ok(Vec::new());
        }
        let groups = groups_of(views, |one, other| !one.ids.is_disjoint(&other.ids));
        let was_mixed = std::mem::replace(&mut self.mixed, groups.len() > 1);
        if self.mixed && !was_mixed {
            log!(warn, "nodes of another cluster have answered");
        }
        self.before.take_if(|(_, since)| now >= *since + COMES_BACK);
        // A node may have moved from one cluster to another. The group with most known ids is
        // ours.
        let of_most_known = |known: &Ids| {
            let serving = groups.iter().filter(|group| group.slots > 0 && group.knows(known));
            serving.max_by_key(|group| (group.in_common(known), group.views.len()))
        };
        let before = self.before.as_ref().and_then(|(before, _)| of_most_known(before));
        let known = of_most_known(&self.known);
        let is_new = self.known.is_empty();
        let Some(ours) = before.or(known).or_else(|| {
            let alone = *self.alone.get_or_insert(now);
            let may_be_believed = is_new || now >= alone + FORGOTTEN;
            // The group for which most nodes speak. The rest of the key makes all clients choose the
            // same.
            let key = |group: &Group<'_>| (group.slots > 0, group.views.len(), group.slots);
            let most = groups.iter().max_by(|one, other| {
                key(one).cmp(&key(other)).then_with(|| other.ids.first().cmp(&one.ids.first()))
            });
            most.filter(|_| may_be_believed)
        }) else {
            return Err(Failure::no_master("nodes of another cluster have answered"));
        };
        let are_ours = (0..views.len()).map(|at| ours.views.contains(&at)).collect();
        // A node without slots may be alone because it has left the cluster.
        if ours.slots > 0 {
            let ids = ours.ids.iter().map(|id| (*id).clone()).collect();
            self.alone = None;
            let old = std::mem::replace(&mut self.known, ids);
            if before.is_some() {
                self.before = None;
            } else if !is_new && known.is_none() {
                self.before = Some((old, now));
            }
        }
        Ok(are_ours)
    }
}

fn is_near(known: &Ids, view: &View) -> bool {
    known.is_empty() || view.ids.is_empty() || !known.is_disjoint(&view.ids)
}

/// Groups the views. Each is near to another one of its group.
pub(super) fn groups_of(views: &[View], are_near: impl Fn(&View, &View) -> bool) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for (at, view) in views.iter().enumerate() {
        let is_near = |group: &Group<'_>| group.views.iter().any(|at| are_near(&views[*at], view));
        let (near, mut far): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_near);
        let slots = view.claims.iter().map(|claim| claim.slots.len()).sum();
        let mut group = Group { views: vec![at], ids: view.ids.iter().collect(), slots };
        for one in near {
            group.views.extend(one.views);
            group.ids.extend(one.ids);
            group.slots = group.slots.max(one.slots);
        }
        far.push(group);
        groups = far;
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        deployment::Address,
        topology::slots::{ALL_SLOTS, Claim, Server},
    };

    /// It serves slots.
    fn says(ids: &str) -> View {
        let master = Server { address: Address::new("h", 1), id: None };
        let claim = Claim { epoch: 1, slots: ALL_SLOTS, master };
        View { claims: vec![claim], ..lone(ids) }
    }

    fn lone(ids: &str) -> View {
        let ids = ids.chars().map(|id| NodeId::new(&id.to_string())).collect();
        View { ids, ..View::default() }
    }

    /// Which of the views are ours, as digits.
    fn ours(identity: &mut ClusterIdentity, now: Instant, views: &[View]) -> Option<String> {
        let digit = |is_ours: bool| if is_ours { '1' } else { '0' };
        Some(identity.ours(views, now).ok()?.into_iter().map(digit).collect())
    }

    #[test]
    fn a_node_that_knows_none_of_the_others_is_a_stranger() {
        let (mut identity, now) = (ClusterIdentity::default(), Instant::now());
        let mut seen = |views: &[View]| ours(&mut identity, now, views);
        assert_eq!(seen(&[says("ab"), says("x")]).unwrap(), "10");
        assert_eq!(seen(&[says("xyz"), says("bc"), says("xyz")]).unwrap(), "010");
        // Its nodes are replaced one after the other.
        assert_eq!(seen(&[says("cd")]).unwrap(), "1");
        assert_eq!(seen(&[says("de")]).unwrap(), "1");
        assert_eq!(seen(&[says("xa")]), None);
        assert_eq!(seen(&[says("e")]).unwrap(), "1");
        let may_be = ["e", "", "xa", "d"].map(|ids| identity.may_be_ours(&says(ids)));
        assert_eq!(may_be, [true, true, false, false]);
    }

    #[test]
    fn a_cluster_that_is_away_for_long_is_replaced_until_it_is_back() {
        let (mut identity, begun) = (ClusterIdentity::default(), Instant::now());
        let mut seen = |after, views: &[View]| ours(&mut identity, begun + after, views);
        let (whole, least) = (FORGOTTEN, Duration::from_millis(1));
        assert_eq!(seen(Duration::ZERO, &[says("abc")]).unwrap(), "1");
        // It was paused, and both are there.
        assert_eq!(seen(9 * whole, &[says("xyz"), says("abc"), says("xyz")]).unwrap(), "010");
        assert_eq!(seen(9 * whole, &[says("xyz")]), None);
        assert_eq!(seen(9 * whole + least, &[says("abc")]).unwrap(), "1");
        assert_eq!(seen(10 * whole, &[says("xyz")]), None);
        assert_eq!(seen(11 * whole - least, &[says("xyz")]), None);
        assert_eq!(seen(11 * whole, &[says("xyz")]).unwrap(), "1", "set up anew");
        assert_eq!(seen(11 * whole, &[says("q")]), None);
        for (ids, may_be, comes_first) in
            [("xyz", true, false), ("abc", true, true), ("q", false, false)]
        {
            let view = says(ids);
            assert_eq!(
                (identity.may_be_ours(&view), identity.is_awaited(&view)),
                (may_be, comes_first)
            );
        }
        let mut seen = |after, views: &[View]| ours(&mut identity, begun + after, views);
        let views = [says("xyz"), says("xyz"), says("xyz"), says("abc"), says("abc")];
        assert_eq!(seen(12 * whole, &views).unwrap(), "00011", "it was away");
        assert_eq!(seen(12 * whole, &[says("xyz")]), None);
    }

    #[test]
    fn a_node_that_has_gone_to_another_cluster_takes_nobody_along() {
        for at in 0..4 {
            let mut identity = ClusterIdentity::default();
            assert_eq!(ours(&mut identity, Instant::now(), &[says("abcd")]).unwrap(), "1");
            let mut views = vec![says("bcd"), says("bcd"), says("bcd")];
            views.insert(at, says("xyza"));
            let expected: String = (0..4).map(|n| if n == at { '0' } else { '1' }).collect();
            assert_eq!(ours(&mut identity, Instant::now(), &views).unwrap(), expected);
        }
    }

    #[test]
    fn a_cluster_that_was_replaced_long_ago_does_not_come_back() {
        let (mut identity, begun) = (ClusterIdentity::default(), Instant::now());
        let mut seen = |after, views: &[View]| ours(&mut identity, begun + after, views);
        assert_eq!(seen(Duration::ZERO, &[says("abc")]).unwrap(), "1");
        assert_eq!(seen(FORGOTTEN, &[says("xyz")]), None);
        assert_eq!(seen(2 * FORGOTTEN, &[says("xyz")]).unwrap(), "1");
        let late = 2 * FORGOTTEN + COMES_BACK;
        assert_eq!(seen(late, &[says("abc"), says("xyz")]).unwrap(), "01");
        assert_eq!(seen(late, &[says("abc")]), None);
    }

    #[test]
    fn a_node_that_has_left_a_cluster_is_not_the_cluster() {
        let (mut identity, now) = (ClusterIdentity::default(), Instant::now());
        let mut seen = |views: &[View]| ours(&mut identity, now, views);
        assert_eq!(seen(&[says("abc"), says("abc"), says("abc")]).unwrap(), "111");
        assert_eq!(seen(&[says("ab"), says("ab"), lone("c")]).unwrap(), "110");
        assert_eq!(seen(&[lone("c")]), None);
        assert_eq!(seen(&[lone("c"), says("ab")]).unwrap(), "01");
    }

    #[test]
    fn all_clients_choose_the_same_of_two_clusters() {
        let (two, one) = (says("abc"), says("xyz"));
        for (views, expected) in
            [([&two, &two, &one], "110"), ([&one, &two, &two], "011"), ([&one, &two, &one], "101")]
        {
            let views = views.map(|view| View { ids: view.ids.clone(), ..says("") });
            assert_eq!(
                ours(&mut ClusterIdentity::default(), Instant::now(), &views).unwrap(),
                expected
            );
        }
        for (views, expected) in
            [([says("ab"), says("xy")], "10"), ([says("xy"), says("ab")], "01")]
        {
            assert_eq!(
                ours(&mut ClusterIdentity::default(), Instant::now(), &views).unwrap(),
                expected
            );
        }
    }

    #[test]
    fn where_nobody_answers_there_are_no_strangers() {
        assert_eq!(ours(&mut ClusterIdentity::default(), Instant::now(), &[]).unwrap(), "");
    }
}
