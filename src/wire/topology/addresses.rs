//! [`Addresses`]: which address of a node is used to connect to it. Nodes in several networks name each other by
//! several addresses. After a node has moved, others that have not noticed still name its old one.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use tokio::time::Instant;

use super::{
    failover_epoch::CATCH_UP,
    slots::{Server, View},
};
use crate::wire::{deployment::Address, node_id::NodeId};

/// The answers of how many nodes are kept.
const KEPT: usize = 10;

/// What nodes have said about addresses.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    /// Which node has last answered at each address.
    answered: BTreeMap<Address, NodeId>,
    /// Where each node says that all are, the last answer at the end. They are kept for [`CATCH_UP`]: a node alone
    /// does not know that it was put elsewhere.
    said: Vec<(NodeId, Instant, Vec<Server>)>,
}

impl Addresses {
    /// Notes who has answered at an address. `None`: nobody, or one that does not say who it is.
    pub(super) fn note(&mut self, address: &Address, node: Option<&NodeId>) {
        match node {
            Some(node) => self.answered.insert(address.clone(), node.clone()),
            None => self.answered.remove(address),
        };
    }

    /// Forgets the addresses that are no longer asked.
    pub(super) fn retain(&mut self, is_asked: impl Fn(&Address) -> bool) {
        self.answered.retain(|address, _| is_asked(address));
    }

    /// Notes what these nodes say. Gives each node one address in all claims: one by which other nodes name it, and at
    /// which it has answered, if there is one, then the one that most name.
    pub(super) fn give_one_to_each(&mut self, views: &mut [View], now: Instant) {
        self.hear(views, now);
        let mut named = BTreeMap::new();
        for (by, Server { address, id }) in self.said_of_each(views) {
            let Some(id) = id else { continue };
            let (_, named, by_others) = named.entry((id, address)).or_insert((id, address, 0));
            *by_others += usize::from(by != Some(id));
            if address.alias.is_some() {
                *named = address;
            }
        }
        let mut ranked: Vec<_> = named
            .values()
            .map(|(id, address, by_others)| {
                let at = self.answered.iter().filter(|(known, _)| address.is_called(known));
                let at: BTreeSet<_> = at.map(|(_, node)| node).collect();
                let (answered, is_anothers) = (at.contains(id), !at.is_empty() && !at.contains(id));
                // With TLS, only a name is in the certificate.
                let is_unnamed = address.alias.is_none();
                let by = Reverse(*by_others);
                (*by_others == 0, is_anothers, !answered, is_unnamed, by, address, *id)
            })
            .collect();
        ranked.sort();
        let mut best = BTreeMap::new();
        for (.., address, id) in ranked {
            best.entry(id.clone()).or_insert_with(|| Address::clone(address));
        }
        for Server { address, id } in views.iter_mut().flat_map(View::masters) {
            if let Some(one) = id.as_ref().and_then(|id| best.get(id)) {
                *address = one.clone();
            }
        }
    }

    fn hear(&mut self, views: &[View], now: Instant) {
        for View { own, nodes, .. } in views {
            if let Some(own) = own {
                self.said.retain(|(by, ..)| by != own);
                self.said.push((own.clone(), now, nodes.clone()));
            }
        }
        self.said.retain(|(_, since, _)| now < *since + CATCH_UP);
        self.said.drain(..self.said.len().saturating_sub(KEPT));
    }

    /// Where each node is, and who says so, for the nodes of these views.
    fn said_of_each<'a>(
        &'a self,
        views: &'a [View],
    ) -> impl Iterator<Item = (Option<&'a NodeId>, &'a Server)> {
        let ids: BTreeSet<_> =
            views.iter().flat_map(|view| &view.nodes).filter_map(|node| node.id.as_ref()).collect();
        let kept = self
            .said
            .iter()
            .flat_map(|(by, _, nodes)| nodes.iter().map(move |node| (Some(by), node)));
        let kept =
            kept.filter(move |(_, node)| node.id.as_ref().is_some_and(|id| ids.contains(id)));
        let new = views.iter().filter(|view| view.own.is_none());
        kept.chain(new.flat_map(|view| view.nodes.iter().map(|node| (None, node))))
    }

    /// All nodes of these views, at each address by which others name them. One that nobody else names is where it
    /// says.
    pub(super) fn named_by_others(&self, views: &[View]) -> Vec<Server> {
        let is_own = |by: Option<&NodeId>, node: &Server| by.is_some() && by == node.id.as_ref();
        let named = self.said_of_each(views).filter(|(by, node)| !is_own(*by, node));
        let mut named: BTreeSet<_> = named.map(|(_, node)| node).collect();
        let ids: BTreeSet<_> = named.iter().map(|node| &node.id).collect();
        let all = views.iter().flat_map(|view| &view.nodes);
        let alone: Vec<_> = all.filter(|node| !ids.contains(&node.id)).collect();
        named.extend(alone);
        named.into_iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::topology::slots::{ALL_SLOTS, Claim, merge};

    fn at(id: &str, host: &str) -> Server {
        Server { address: Address::new(host, 1), id: Some(NodeId::new(id)) }
    }

    /// The view of the node with this id, which names these nodes. The first has all slots.
    fn view(own: &str, nodes: &[Server]) -> View {
        let master = nodes[0].clone();
        View {
            claims: vec![Claim { epoch: 3, slots: ALL_SLOTS, master }],
            nodes: nodes.to_vec(),
            own: Some(NodeId::new(own)),
            ..View::default()
        }
    }

    /// Where the owner of the slots is. `answers`: a host and the id of the node there.
    fn owner_by(views: Vec<View>, answers: &[(&str, &str)]) -> String {
        let mut addresses = Addresses::default();
        for &(host, id) in answers {
            addresses.note(&Address::new(host, 1), Some(&NodeId::new(id)));
        }
        owner(&mut addresses, views, Instant::now())
    }

    fn owner(addresses: &mut Addresses, mut views: Vec<View>, now: Instant) -> String {
        addresses.give_one_to_each(&mut views, now);
        let slots = merge(views.into_iter().flat_map(|view| view.claims).collect());
        let [(_, master)] = &slots[..] else { panic!("{slots:?}") };
        master.address.host.clone()
    }

    /// As in several networks.
    #[test]
    fn of_two_addresses_of_a_node_the_one_where_it_answers_is_used_whatever_the_order() {
        for answers in ["one", "two"] {
            for hosts in [["one", "two"], ["two", "one"]] {
                let views = ["x", "y"].into_iter().zip(hosts);
                let views = views.map(|(own, host)| view(own, &[at("b", host)]));
                assert_eq!(owner_by(views.collect(), &[(answers, "b")]), answers, "{hosts:?}");
            }
        }
    }

    /// Its process is still there, or a copy of it: it names itself where it was.
    #[test]
    fn a_node_that_was_put_elsewhere_is_where_the_others_say() {
        let views =
            || vec![view("b", &[at("b", "1.1")]), view("x", &[at("b", "9.9"), at("x", "2.2")])];
        assert_eq!(owner_by(views(), &[("1.1", "b")]), "9.9");
        assert_eq!(owner_by(views(), &[("1.1", "b"), ("9.9", "b")]), "9.9");
        // Also when it alone is heard, for a while.
        let alone = || views().into_iter().take(1).collect::<Vec<_>>();
        let (mut addresses, now) = (Addresses::default(), Instant::now());
        assert_eq!(owner(&mut addresses, views(), now), "9.9");
        assert_eq!(addresses.named_by_others(&views()), [at("x", "2.2"), at("b", "9.9")]);
        let least = CATCH_UP / 1000;
        assert_eq!(owner(&mut addresses, alone(), now + CATCH_UP - least), "9.9");
        assert_eq!(addresses.named_by_others(&alone()), [at("b", "9.9")]);
        assert_eq!(owner(&mut addresses, alone(), now + CATCH_UP), "1.1");
        assert_eq!(addresses.named_by_others(&alone()), [at("b", "1.1")]);
    }

    /// One that is cut off does not know that two have changed their places.
    #[test]
    fn an_address_at_which_another_node_answers_is_not_used() {
        let knows = |own| view(own, &[at("b", "9.9"), at("e", "1.1")]);
        let cut_off = view("d", &[at("b", "1.1"), at("e", "2.2")]);
        let most_lag = vec![
            knows("x"),
            cut_off.clone(),
            View { own: Some(NodeId::new("f")), ..cut_off.clone() },
        ];
        for views in [vec![knows("x"), cut_off.clone()], vec![cut_off, knows("x")], most_lag] {
            assert_eq!(owner_by(views.clone(), &[("1.1", "e"), ("9.9", "b")]), "9.9");
            assert_eq!(owner_by(views, &[("1.1", "e")]), "9.9");
        }
    }

    /// With TLS, where one has not heard of it yet.
    #[test]
    fn an_address_with_a_host_name_comes_first() {
        let mut named = at("b", "b.example");
        named.address.alias = Some("1.1".to_owned());
        let views = vec![view("x", &[at("b", "1.1")]), view("y", &[named])];
        assert_eq!(owner_by(views, &[]), "b.example");
        // Without TLS the name is the other one.
        let mut named = at("b", "1.1");
        named.address.alias = Some("b.example".to_owned());
        let mut views = [view("x", &[at("b", "1.1")]), view("y", &[named])];
        Addresses::default().give_one_to_each(&mut views, Instant::now());
        for view in views {
            assert_eq!(view.claims[0].master.address.alias.as_deref(), Some("b.example"));
        }
    }
}
