//! [`Addresses`]: at which of its addresses a node of a cluster is connected to. Nodes in several networks name each
//! other by several, and a node that has moved is still named by its old one where that is not known.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use super::slots::{Server, View};
use crate::wire::{deployment::Address, node_id::NodeId};

/// Which node has last answered at each address.
#[derive(Debug, Default)]
pub(super) struct Addresses(BTreeMap<Address, NodeId>);

impl Addresses {
    /// Notes who has answered at an address. `None`: nobody, or one that does not say who it is.
    pub(super) fn note(&mut self, address: &Address, node: Option<&NodeId>) {
        match node {
            Some(node) => self.0.insert(address.clone(), node.clone()),
            None => self.0.remove(address),
        };
    }

    /// Forgets the addresses that are no longer asked.
    pub(super) fn retain(&mut self, is_asked: impl Fn(&Address) -> bool) {
        self.0.retain(|address, _| is_asked(address));
    }

    fn is_at(&self, node: &NodeId, address: &Address) -> bool {
        self.0.iter().any(|(known, other)| other == node && address.is_called(known))
    }

    /// Gives each node one address in all claims: one by which other nodes name it and at which it has answered, if
    /// there is one, then the one that most name. A node alone does not know that it was put elsewhere.
    pub(super) fn give_one_to_each(&self, views: &mut [View]) {
        let mut named: BTreeMap<(NodeId, Address), usize> = BTreeMap::new();
        for view in &*views {
            for Server { address, id } in &view.nodes {
                let Some(id) = id else { continue };
                let by_others = named.entry((id.clone(), address.clone())).or_default();
                *by_others += usize::from(view.own.as_ref() != Some(id));
            }
        }
        let mut best = BTreeMap::new();
        for ((id, address), by_others) in &named {
            // With TLS, only a name is in the certificate.
            let is_unnamed = address.alias.is_none();
            let answered = self.is_at(id, address);
            let rank = (*by_others == 0, !answered, is_unnamed, Reverse(*by_others), address);
            let known = best.entry(id).or_insert(rank);
            *known = rank.min(*known);
        }
        for Server { address, id } in views.iter_mut().flat_map(View::masters) {
            if let Some((.., one)) = id.as_ref().and_then(|id| best.get(id)) {
                *address = (*one).clone();
            }
        }
    }
}

/// All nodes, at each address by which others name them. One that nobody else names is where it says.
pub(super) fn named_by_others(views: &[View]) -> Vec<Server> {
    let mut named = BTreeSet::new();
    for view in views {
        named.extend(view.nodes.iter().filter(|node| node.id.is_none() || node.id != view.own));
    }
    let ids: BTreeSet<_> = named.iter().map(|node| &node.id).collect();
    let all = views.iter().flat_map(|view| &view.nodes);
    let alone: Vec<_> = all.filter(|node| !ids.contains(&node.id)).collect();
    named.extend(alone);
    named.into_iter().cloned().collect()
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
    fn owner_by(mut views: Vec<View>, answers: &[(&str, &str)]) -> String {
        let mut addresses = Addresses::default();
        for &(host, id) in answers {
            addresses.note(&Address::new(host, 1), Some(&NodeId::new(id)));
        }
        addresses.give_one_to_each(&mut views);
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
        assert_eq!(named_by_others(&views()), [at("x", "2.2"), at("b", "9.9")]);
        // Nobody else is heard.
        let alone = || views().into_iter().take(1).collect::<Vec<_>>();
        assert_eq!(owner_by(alone(), &[("1.1", "b")]), "1.1");
        assert_eq!(named_by_others(&alone()), [at("b", "1.1")]);
    }

    /// One that is cut off does not know that two have changed their places.
    #[test]
    fn an_address_at_which_another_node_answers_is_not_used() {
        let knows = |own| view(own, &[at("b", "9.9"), at("e", "1.1")]);
        let cut_off = view("d", &[at("b", "1.1"), at("e", "2.2")]);
        let answers = [("1.1", "e"), ("9.9", "b")];
        for views in [vec![knows("x"), cut_off.clone()], vec![cut_off, knows("x")]] {
            assert_eq!(owner_by(views, &answers), "9.9");
        }
    }

    /// With TLS, where one has not heard of it yet.
    #[test]
    fn an_address_with_a_host_name_comes_first() {
        let mut named = at("b", "b.example");
        named.address.alias = Some("1.1".to_owned());
        let views = vec![view("x", &[at("b", "1.1")]), view("y", &[named])];
        assert_eq!(owner_by(views, &[]), "b.example");
    }
}
