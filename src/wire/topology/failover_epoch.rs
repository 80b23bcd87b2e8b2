//! [`FailoverEpoch`]: the last failover that a sentinel has reported, and which sentinels are believed after
//! it.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

use super::slots::View;
use crate::wire::{answers::Failure, deployment::Address};

/// Sentinels that have not heard of a failover are not believed for this long after it was last
/// reported. They tell each other every 2 s.
pub(super) const CATCH_UP: Duration = Duration::from_secs(30);

/// The last failover that was reported.
#[derive(Default)]
pub(super) struct FailoverEpoch(Option<Reported>);

struct Reported {
    epoch: u64,
    /// The master since then.
    master: Address,
    /// When it was last reported.
    since: Instant,
}

impl FailoverEpoch {
    /// Leaves of these answers the claims of one master: of those with the highest epoch, the one that
    /// most sentinels name. They may have been set up with different masters, or with two names of one. No
    /// failover resolves that, because they correct each other only by a higher epoch.
    ///
    /// Fails when all these sentinels name an older master. A client must not go back to it: it may
    /// still take itself for the master. Fails also when fewer than `most` name another master than
    /// before, without a failover, or when nobody knows the one before and they disagree.
    pub(super) fn check(
        &mut self,
        views: &mut [View],
        most: usize,
        now: Instant,
    ) -> Result<(), Failure> {
        let last = last_epoch(views);
        for view in views.iter_mut() {
            // The leader of a failover may not know that another one has followed, though it has heard of its epoch. It
            // is believed against older claims.
            let heir = view.heir.take();
            view.claims.extend(heir.filter(|heir| last.is_none_or(|last| last < heir.epoch)));
        }
        let claims = || views.iter().flat_map(|view| &view.claims);
        let Some(epoch) = last_epoch(views) else { return Ok(()) };
        let before = self.0.as_ref().filter(|before| now < before.since + CATCH_UP);
        if before.is_some_and(|before| epoch < before.epoch) {
            let is_same =
                |before: &Reported| claims().all(|claim| claim.master.address == before.master);
            if before.is_some_and(is_same) {
                // They were set up anew.
                return Ok(());
            }
            return Err(Failure::no_master(
                "those who answer have not heard of the last failover yet",
            ));
        }
        let before = before.filter(|before| epoch == before.epoch).map(|before| &before.master);
        let votes = votes(views);
        let is_one = votes.len() == 1;
        let most_voted =
            votes.into_iter().max_by_key(|&(address, votes)| (votes, before == Some(address)));
        let Some((master, votes)) = most_voted else { return Ok(()) };
        if before.is_none() && !is_one && votes < most {
            return Err(Failure::no_master(
                "sentinels name different masters, with no failover between: set them right",
            ));
        }
        if before.is_some_and(|before| before != master) && votes < most {
            return Err(Failure::no_master(
                "few sentinels name another master than before, with no failover since",
            ));
        }
        let master = master.clone();
        for view in views.iter_mut() {
            view.claims.retain(|claim| claim.epoch == epoch && claim.master.address == master);
        }
        self.0 = Some(Reported { epoch, master, since: now });
        Ok(())
    }
}

fn last_epoch(views: &[View]) -> Option<u64> {
    views.iter().flat_map(|view| &view.claims).map(|claim| claim.epoch).max()
}

/// How many name each master after the last failover.
fn votes(views: &[View]) -> BTreeMap<&Address, usize> {
    let epoch = last_epoch(views);
    let (mut votes, mut have_voted) = (BTreeMap::new(), BTreeSet::new());
    let claims = views.iter().flat_map(|view| view.claims.iter().map(|claim| (&view.own, claim)));
    for (own, claim) in claims.filter(|(_, claim)| Some(claim.epoch) == epoch) {
        // A sentinel with two addresses has answered twice. It may have heard of the failover in between.
        if own.as_ref().is_none_or(|own| have_voted.insert(own)) {
            *votes.entry(&claim.master.address).or_default() += 1;
        }
    }
    votes
}

/// Whether sentinels disagree about the master, and fewer than `most` name the same one.
pub(super) fn is_undecided(views: &[View], most: usize) -> bool {
    let votes = votes(views);
    votes.len() > 1 && votes.values().all(|votes| *votes < most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        deployment::Address,
        node_id::NodeId,
        topology::slots::{ALL_SLOTS, Claim, Server},
    };

    fn says(epoch: u64, port: u16) -> View {
        let master = Server { address: Address::new("h", port), id: None };
        let claim = Claim { epoch, slots: ALL_SLOTS, master };
        View { claims: vec![claim], ..View::default() }
    }

    /// What three sentinels name, of which these have answered: the port of the master.
    fn master(last: &mut FailoverEpoch, answers: &[(u64, u16)], now: Instant) -> Option<u16> {
        let mut views: Vec<_> = answers.iter().map(|(epoch, port)| says(*epoch, *port)).collect();
        last.check(&mut views, 2, now).ok()?;
        let mut named = views.iter().flat_map(|view| &view.claims);
        let first = named.next().map(|claim| claim.master.address.port)?;
        assert!(named.all(|claim| claim.master.address.port == first), "{views:?}");
        Some(first)
    }

    #[test]
    fn sentinels_that_lag_behind_lead_nobody_back_to_the_old_master() {
        let (mut last, begun) = (FailoverEpoch::default(), Instant::now());
        assert_eq!(master(&mut last, &[(3, 1)], begun), Some(1));
        assert_eq!(master(&mut last, &[(4, 2)], begun), Some(2));
        assert_eq!(master(&mut last, &[(3, 1), (3, 1)], begun + CATCH_UP / 2), None);
        assert_eq!(master(&mut last, &[(3, 1), (4, 2)], begun + CATCH_UP / 2), Some(2));
        assert_eq!(last.check(&mut [View::default()], 2, begun + CATCH_UP / 2), Ok(()));
        // Sentinels that were set up anew count from the beginning. These name the same master.
        assert_eq!(master(&mut last, &[(0, 2), (0, 2)], begun + CATCH_UP), Some(2));
        assert_eq!(master(&mut last, &[(0, 2), (0, 1)], begun + CATCH_UP), None);
        assert_eq!(master(&mut last, &[(1, 3)], begun + 2 * CATCH_UP), Some(3));
        assert_eq!(master(&mut last, &[(4, 2)], begun + 2 * CATCH_UP), Some(2));
    }

    /// By its name and by the address that it announces. It hears of the failover between its answers.
    #[test]
    fn a_sentinel_that_answers_twice_in_a_failover_has_one_vote_for_the_new_master() {
        let own = Some(NodeId::new("s1"));
        for before in [says(3, 1), View::default()] {
            let mut views = [before, says(4, 2)];
            views.iter_mut().for_each(|view| view.own = own.clone());
            let mut last = FailoverEpoch::default();
            last.check(&mut views, 1, Instant::now()).unwrap();
            let named: Vec<_> = views.iter().flat_map(|view| &view.claims).collect();
            assert!(matches!(&named[..], [claim] if claim.master.address.port == 2), "{named:?}");
            let [one, other] =
                [says(4, 1), says(4, 2)].map(|view| View { own: own.clone(), ..view });
            assert_eq!(votes(&[one, other]).values().sum::<usize>(), 1);
        }
    }

    /// Sentinels that are cut off lag for as long as that lasts.
    #[test]
    fn one_that_lags_is_not_believed_when_those_who_know_are_silent_for_a_moment() {
        let (mut last, begun) = (FailoverEpoch::default(), Instant::now());
        for second in 0..100 {
            let now = begun + Duration::from_secs(second);
            assert_eq!(master(&mut last, &[(3, 1), (4, 2)], now), Some(2));
        }
        assert_eq!(master(&mut last, &[(3, 1)], begun + Duration::from_secs(101)), None);
    }

    /// They were set up so, and correct each other only by a failover.
    #[test]
    fn of_sentinels_that_disagree_without_a_failover_most_are_believed_whoever_answers_first() {
        let begun = Instant::now();
        // Whichever of the two addresses is the lesser one.
        for (most, other) in [(1, 2), (2, 1)] {
            for at in 0..3 {
                let mut answers = [(0, most); 3];
                answers[at] = (0, other);
                assert_eq!(master(&mut FailoverEpoch::default(), &answers, begun), Some(most));
            }
        }
        for answers in [[(0, 1), (0, 2)], [(0, 2), (0, 1)]] {
            assert_eq!(master(&mut FailoverEpoch::default(), &answers, begun), None, "neither");
            let mut last = FailoverEpoch::default();
            assert_eq!(master(&mut last, &[(0, 2), (0, 2)], begun), Some(2));
            assert_eq!(master(&mut last, &answers, begun), Some(2), "as before");
        }
        // One alone changes nothing, but after a while, or with a failover.
        let mut last = FailoverEpoch::default();
        assert_eq!(master(&mut last, &[(0, 1), (0, 1), (0, 2)], begun), Some(1));
        assert_eq!(master(&mut last, &[(0, 2)], begun + CATCH_UP / 2), None);
        assert_eq!(master(&mut last, &[(1, 2)], begun + CATCH_UP / 2), Some(2));
        assert_eq!(master(&mut last, &[(1, 3)], begun + CATCH_UP / 2 + CATCH_UP), Some(3));
    }
}
