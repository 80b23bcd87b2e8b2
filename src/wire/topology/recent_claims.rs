//! [`RecentClaims`]: the last owners of slots that nodes of a cluster have reported.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::{
    failover_epoch::CATCH_UP,
    slots::{Claim, View, last_of_each_slot},
};
use crate::wire::node_id::NodeId;

/// The claims with the highest epochs, and when each was last reported.
///
/// Nodes that are cut off from the others name old owners for as long as that lasts. They may answer alone at
/// times. Their claims have lower epochs, and are not believed for [`CATCH_UP`] after a higher one was reported.
/// After that they are, because an operator may have set the cluster up anew.
#[derive(Default)]
pub(super) struct RecentClaims {
    claims: Vec<(Claim, Instant)>,
    /// The ids of the nodes of the cluster.
    ids: BTreeSet<NodeId>,
}

impl RecentClaims {
    /// Puts the claims that are true by these views and the ones before in the place of all. If these views know none
    /// of the nodes, they are of another cluster, and the claims before are forgotten.
    pub(super) fn decide(&mut self, views: &mut Vec<View>, now: Instant) {
        if views.is_empty() {
            return;
        }
        let ids = views.iter().flat_map(|view| &view.ids).cloned().collect();
        let before = std::mem::replace(&mut self.ids, ids);
        let is_same = !before.is_disjoint(&self.ids);
        // A node knows best what it serves, unless it says so from before, late or restored.
        let is_heard = |Claim { master, epoch, .. }: &Claim| {
            let by = |view: &View| view.own.is_some() && view.own == master.id;
            views.iter().any(|view| by(view) && view.own_epoch >= *epoch)
        };
        self.claims.retain(|(claim, since)| is_same && now < *since + CATCH_UP && !is_heard(claim));
        let reported = views.iter().flat_map(|view| &view.claims);
        let mut all = std::mem::take(&mut self.claims);
        all.extend(reported.map(|claim| (claim.clone(), now)));
        // Of two with the same epoch, the one that was reported last.
        all.sort_by(|(one, since), (other, then)| {
            (one.epoch, since).cmp(&(other.epoch, then)).then_with(|| one.by_age(other))
        });
        let each =
            all.iter().map(|(claim, since)| (&claim.slots, (claim.epoch, &claim.master, *since)));
        let last = last_of_each_slot(each).into_iter().map(|(slots, (epoch, master, since))| {
            (Claim { epoch, slots, master: master.clone() }, since)
        });
        self.claims = last.collect();
        let claims = self.claims.iter().map(|(claim, _)| claim.clone()).collect();
        views.iter_mut().for_each(|view| view.claims.clear());
        views.push(View { claims, ..View::default() });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::wire::{
        deployment::Address,
        topology::slots::{Server, merge},
    };

    /// The view of a node that knows nodes with these ids. The claims: epoch, slots, id.
    fn says(ids: &str, claims: &[(u64, [u16; 2], &str)]) -> View {
        let claim = |&(epoch, [first, last], id): &(u64, [u16; 2], &str)| {
            let master = Server { address: Address::new(id, 1), id: Some(NodeId::new(id)) };
            Claim { epoch, slots: first..=last, master }
        };
        let ids = ids.chars().map(|id| NodeId::new(&id.to_string())).collect();
        View { claims: claims.iter().map(claim).collect(), ids, ..View::default() }
    }

    /// Who serves what after these answers.
    fn owners(recent: &mut RecentClaims, now: Instant, views: Vec<View>) -> String {
        let mut views = views;
        recent.decide(&mut views, now);
        let owners = merge(views.into_iter().flat_map(|view| view.claims).collect());
        let owners = owners.iter().map(|(slots, master)| {
            format!("{}-{} {}", slots.start(), slots.end(), master.address.host)
        });
        owners.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_node_that_lags_leads_nobody_back_to_the_old_owner() {
        let (mut recent, begun) = (RecentClaims::default(), Instant::now());
        let mut seen = |after, views| owners(&mut recent, begun + after, views);
        let all = [0, 16383];
        let (old, new) =
            (|| says("ab", &[(2, all, "a")]), || says("ab", &[(1, [0, 99], "a"), (3, all, "b")]));
        let least = CATCH_UP / 1000;
        assert_eq!(seen(Duration::ZERO, vec![old()]), "0-16383 a");
        assert_eq!(seen(least, vec![old(), new()]), "0-16383 b");
        assert_eq!(seen(CATCH_UP, vec![old()]), "0-16383 b");
        // It is reported again.
        assert_eq!(seen(CATCH_UP, vec![new(), old()]), "0-16383 b");
        assert_eq!(seen(2 * CATCH_UP - least, vec![old()]), "0-16383 b");
        assert_eq!(seen(2 * CATCH_UP - least, vec![]), "");
        // The nodes were set up anew with an older state.
        assert_eq!(seen(2 * CATCH_UP, vec![old()]), "0-16383 a");
    }

    #[test]
    fn each_slot_has_a_last_claim_of_its_own() {
        let (mut recent, begun) = (RecentClaims::default(), Instant::now());
        let mut seen = |after, views| owners(&mut recent, begun + after, views);
        let halves = says("abc", &[(1, [0, 8191], "a"), (2, [8192, 16383], "b")]);
        assert_eq!(seen(CATCH_UP / 2, vec![halves]), "0-8191 a, 8192-16383 b");
        let moved = says("abc", &[(1, [0, 8191], "a"), (2, [8192, 16383], "b"), (3, [5, 5], "c")]);
        assert_eq!(seen(CATCH_UP, vec![moved]), "0-4 a, 5-5 c, 6-8191 a, 8192-16383 b");
        let lags = || says("abc", &[(1, [0, 8191], "a"), (2, [8192, 16383], "b")]);
        let until = 2 * CATCH_UP;
        assert_eq!(seen(until * 3 / 4, vec![lags()]), "0-4 a, 5-5 c, 6-8191 a, 8192-16383 b");
        assert_eq!(seen(until, vec![lags()]), "0-8191 a, 8192-16383 b");
    }

    /// Where no epochs are counted, as behind some proxies.
    #[test]
    fn of_two_claims_with_one_epoch_the_one_that_was_reported_last_is_true() {
        let (mut recent, begun) = (RecentClaims::default(), Instant::now());
        let mut seen = |after, host| {
            owners(&mut recent, begun + after, vec![says("abz", &[(1, [0, 16383], host)])])
        };
        for (after, host) in [(0, "z"), (1, "a"), (2, "z")] {
            assert_eq!(seen(Duration::from_secs(after), host), format!("0-16383 {host}"));
        }
    }

    #[test]
    fn a_claim_that_is_reported_with_another_address_is_as_recent() {
        let begun = Instant::now();
        let seen = |recent: &mut RecentClaims, after, host: &str, epoch| {
            let mut view = says("ab", &[(epoch, [0, 16383], "b")]);
            view.claims[0].master.address = Address::new(host, 1);
            owners(recent, begun + after, vec![view])
        };
        let least = CATCH_UP / 1000;
        for [first, then] in [["one", "two"], ["two", "one"]] {
            let recent = &mut RecentClaims::default();
            assert_eq!(seen(recent, Duration::ZERO, first, 3), format!("0-16383 {first}"));
            assert_eq!(seen(recent, CATCH_UP - least, then, 3), format!("0-16383 {then}"));
            assert_eq!(seen(recent, CATCH_UP + least, "old", 2), format!("0-16383 {then}"));
        }
    }

    #[test]
    fn an_owner_that_says_it_has_no_slots_has_none() {
        let (mut recent, now) = (RecentClaims::default(), Instant::now());
        let mut seen = |views| owners(&mut recent, now, views);
        let all = [0, 16383];
        assert_eq!(seen(vec![says("ab", &[(9, all, "b")])]), "0-16383 b");
        let by_b = |own_epoch| {
            let own = Some(NodeId::new("b"));
            View { own, own_epoch, ..says("ab", &[(1, all, "a")]) }
        };
        assert_eq!(seen(vec![by_b(8)]), "0-16383 b");
        assert_eq!(seen(vec![by_b(9)]), "0-16383 a");
    }

    #[test]
    fn the_claims_of_a_cluster_end_with_it() {
        let (mut recent, now) = (RecentClaims::default(), Instant::now());
        let mut seen = |views| owners(&mut recent, now, views);
        let all = [0, 16383];
        assert_eq!(seen(vec![says("ab", &[(9, all, "b")])]), "0-16383 b");
        // A node that lags may not know a new one.
        assert_eq!(seen(vec![says("ac", &[(2, all, "a")])]), "0-16383 b");
        assert_eq!(seen(vec![says("xyz", &[(1, all, "x")])]), "0-16383 x");
    }
}
