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
    /// Whether most sentinels had answered when these became known.
    is_sure: bool,
    /// The master that they all named last.
    master: Option<Address>,
    /// Since when others have answered alone.
    alone: Option<Instant>,
    /// Whether others were among the last answers.
    mixed: bool,
}

impl SentinelIdentity {
    /// Whether it may be one of them, as far as it can be told without the others.
    pub(super) fn may_be_ours(&self, view: &View) -> bool {
        self.known.is_empty() || self.knows(view)
    }

    /// Which of these views are of those sentinels. Fails when others have answered alone. `most`: how many
    /// are most of the sentinels.
    pub(super) fn ours(
        &mut self,
        views: &[View],
        most: usize,
        now: Instant,
    ) -> Result<Vec<bool>, Failure> {
        let is_by_master = self.are_set_up_anew(views);
        let ours = self.choose(views, most, now)?;
        let is_mixed = ours.contains(&false);
        if is_mixed && !std::mem::replace(&mut self.mixed, is_mixed) {
            tracing::warn!("sentinels of another deployment have answered");
        }
        self.mixed = is_mixed;
        let chosen = || views.iter().zip(&ours).filter(|(_, is_ours)| **is_ours);
        let ids: Ids = chosen().flat_map(|(view, _)| view.ids.clone()).collect();
        self.is_sure |= chosen().filter(|(view, _)| !view.ids.is_empty()).count() >= most;
        if is_by_master {
            // Those from before may come back.
            self.known.extend(ids);
        } else if !ids.is_empty() {
            self.known = ids;
        }
        self.alone = None;
        if let Some(master) = common_master(chosen().map(|(view, _)| view)) {
            self.master = Some(master.clone());
        }
        Ok(ours)
    }

    fn choose(&mut self, views: &[View], most: usize, now: Instant) -> Result<Vec<bool>, Failure> {
        let is_new = self.known.is_empty();
        let is_there = views.iter().any(|view| self.knows(view));
        let name_one = common_master(views).is_some();
        if name_one && (is_new || is_there) || self.are_set_up_anew(views) {
            return Ok(vec![true; views.len()]);
        }
        let groups = groups_of(views);
        let of_most = groups.iter().find(|group| group.len() >= most).filter(|_| !self.is_sure);
        if of_most.is_none() && is_there {
            return Ok(views.iter().map(|view| self.knows(view)).collect());
        }
        let in_group = |group: &Vec<usize>| {
            let is_ours = |at| group.contains(&at) || views[at].ids.is_empty();
            (0..views.len()).map(is_ours).collect()
        };
        if let Some(group) = of_most {
            return Ok(in_group(group));
        }
        if views.iter().all(|view| view.ids.is_empty()) {
            return Ok(vec![true; views.len()]);
        }
        let alone = *self.alone.get_or_insert(now);
        let believed = match &groups[..] {
            [one] => Some(one),
            several => several.iter().find(|group| group.len() >= most),
        };
        match believed.filter(|_| is_new || now >= alone + FORGOTTEN) {
            Some(group) => Ok(in_group(group)),
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
        view.ids.is_empty() || !view.ids.is_disjoint(&self.known)
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

        fn ours(&mut self, views: &[View]) -> Option<String> {
            let digit = |is_ours: bool| if is_ours { '1' } else { '0' };
            Some(self.0.ours(views, MOST, self.1).ok()?.into_iter().map(digit).collect())
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
        assert_ours(seen, &[says("x", 2)], "1");
        assert_ours(seen, &[says("x", 2), says("abc", 1)], "10");
        assert_ours(seen, &[says("x", 2), says("abc", 1), says("abc", 1)], "011");
        assert_ours(seen, &[says("xyz", 2), says("xyz", 2), says("abc", 1)], "001");
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
        assert_ours(seen, &[says("x", 3), says("", 2), says("b", 1)], "011");
    }
}
