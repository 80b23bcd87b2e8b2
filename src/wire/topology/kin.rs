//! [`Kin`]: which nodes are of the cluster that was asked before.
//!
//! An address may come to belong to a node of another cluster, which has other owners of slots and other
//! locks.

use std::{collections::BTreeSet, time::Duration};

use tokio::time::Instant;

use super::slots::View;
use crate::wire::answers::Failure;

/// A cluster none of whose nodes has answered for so long may have been replaced.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// The ids of the nodes, and when one of them last answered.
#[derive(Debug, Default)]
pub(super) struct Kin(Option<(BTreeSet<String>, Instant)>);

impl Kin {
    /// Which of these views are of that cluster. Views without ids are. Fails when others have answered
    /// alone.
    pub(super) fn ours(&mut self, views: &[View], now: Instant) -> Result<Vec<bool>, Failure> {
        // A node that is not of a cluster yet knows itself alone.
        let Some(most) = views.iter().max_by_key(|view| view.ids.len()) else {
            return Ok(Vec::new());
        };
        let known = match self.0.take() {
            Some((known, since)) if now < since + FORGOTTEN => Some((known, since)),
            _ => None,
        };
        let ids = known.as_ref().map_or(&most.ids, |(known, _)| known);
        let is_ours = |view: &View| view.ids.is_empty() || !view.ids.is_disjoint(ids);
        let ours: Vec<_> = views.iter().map(is_ours).collect();
        let others = ours.iter().filter(|is_ours| !**is_ours).count();
        if others > 0 {
            tracing::warn!(nodes = others, "nodes of another cluster have answered");
        }
        if others == views.len() {
            self.0 = known;
            return Err(Failure::no_master("nodes of another cluster have answered"));
        }
        let all = views.iter().zip(&ours).filter(|(_, is_ours)| **is_ours);
        self.0 = Some((all.flat_map(|(view, _)| view.ids.iter().cloned()).collect(), now));
        Ok(ours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(ids: &[&str]) -> View {
        View { ids: ids.iter().map(|id| (*id).to_owned()).collect(), ..View::default() }
    }

    #[test]
    fn a_node_that_knows_none_of_the_others_is_a_stranger() {
        let (mut kin, begun) = (Kin::default(), Instant::now());
        let ours = |kin: &mut Kin, views: &[View], after| kin.ours(views, begun + after).ok();
        let (half, whole) = (FORGOTTEN / 2, FORGOTTEN);
        assert_eq!(
            ours(&mut kin, &[says(&["a", "b"]), says(&["x"])], half),
            Some(vec![true, false])
        );
        assert_eq!(
            ours(&mut kin, &[says(&["x"]), says(&["b", "c"])], half),
            Some(vec![false, true])
        );
        // Its nodes are replaced one after the other.
        assert_eq!(ours(&mut kin, &[says(&["c", "d"])], half), Some(vec![true]));
        assert_eq!(ours(&mut kin, &[says(&["d", "e"])], half), Some(vec![true]));
        assert_eq!(ours(&mut kin, &[says(&["x", "a"])], whole), None);
        assert_eq!(ours(&mut kin, &[says(&["e"])], whole), Some(vec![true]));
        assert_eq!(ours(&mut kin, &[says(&["x"])], 2 * whole - Duration::from_millis(1)), None);
        assert_eq!(ours(&mut kin, &[says(&["x"])], 2 * whole), Some(vec![true]), "set up anew");
        assert_eq!(ours(&mut kin, &[says(&["e"])], 2 * whole), None);
    }

    #[test]
    fn sentinels_have_no_ids_and_are_all_believed() {
        let mut kin = Kin::default();
        assert_eq!(kin.ours(&[says(&[]), says(&[])], Instant::now()).ok(), Some(vec![true; 2]));
    }
}
