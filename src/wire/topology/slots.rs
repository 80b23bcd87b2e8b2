//! The slots of a Redis Cluster: the slot of a key, and the owners of slots by the nodes' answers.
//! Pure.

use std::{cmp::Ordering, collections::BTreeSet, ops::RangeInclusive};

use crate::wire::{deployment::Address, node_id::NodeId};

/// All slots. A single server serves them all.
pub(in crate::wire) const ALL_SLOTS: RangeInclusive<u16> = 0..=16383;

/// The slot of a key: CRC16 (XMODEM) of the key, or of the part between its first `{` and the next
/// `}` if that is not empty.
pub(in crate::wire) fn slot_of(key: &[u8]) -> u16 {
    let place = |byte, key: &[u8]| key.iter().position(|other| *other == byte);
    let tag = place(b'{', key).and_then(|open| {
        let behind = &key[open + 1..];
        Some(&behind[..place(b'}', behind)?]).filter(|tag| !tag.is_empty())
    });
    crc16(tag.unwrap_or(key)) % (ALL_SLOTS.end() + 1)
}

fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| (crc << 8) ^ CRC16[usize::from((crc >> 8) as u8 ^ byte)])
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// A server, as nodes or sentinels name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::wire) struct Server {
    pub(in crate::wire) address: Address,
    /// In a cluster.
    pub(in crate::wire) id: Option<NodeId>,
}

/// A master's claim to slots. Of two claims, the one with the later epoch is true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::wire) struct Claim {
    pub(in crate::wire) epoch: u64,
    pub(in crate::wire) slots: RangeInclusive<u16>,
    pub(in crate::wire) master: Server,
}

impl Claim {
    /// The true one of several comes last.
    pub(in crate::wire) fn by_age(&self, other: &Self) -> Ordering {
        (self.epoch, &other.master).cmp(&(other.epoch, &self.master))
    }
}

/// One node's view of the cluster.
#[derive(Clone, Debug, Default)]
pub(in crate::wire) struct View {
    pub(in crate::wire) claims: Vec<Claim>,
    /// All nodes, replicas included: sources for when the masters are gone.
    pub(in crate::wire) nodes: Vec<Server>,
    /// A master that is being replaced.
    pub(in crate::wire) leaving: Option<Address>,
    /// Of the sentinel that leads a failover: who has become the master, though not all follow it yet.
    pub(in crate::wire) heir: Option<Claim>,
    /// The ids of the nodes of a cluster, or of the sentinels if they tell them.
    pub(in crate::wire) ids: BTreeSet<NodeId>,
    /// The id of the node or the sentinel that says so, if it tells it.
    pub(in crate::wire) own: Option<NodeId>,
    /// The epoch of that node, or of its master.
    pub(in crate::wire) own_epoch: u64,
}

impl View {
    /// Who claims slots.
    pub(super) fn masters(&mut self) -> impl Iterator<Item = &mut Server> {
        self.claims.iter_mut().map(|claim| &mut claim.master)
    }

    /// The same view with other addresses.
    pub(in crate::wire) fn map(self, other: impl Fn(Address) -> Address) -> Self {
        let server = |server: Server| Server { address: other(server.address), ..server };
        let claim = |claim: Claim| Claim { master: server(claim.master), ..claim };
        Self {
            claims: self.claims.into_iter().map(claim).collect(),
            heir: self.heir.map(claim),
            nodes: self.nodes.into_iter().map(server).collect(),
            leaving: self.leaving.map(&other),
            ids: self.ids,
            own: self.own,
            own_epoch: self.own_epoch,
        }
    }
}

/// Reads the answer to `CLUSTER NODES` of the node at `asked`. With TLS a node that announces a
/// host name is called by it, as in its certificate.
pub(in crate::wire) fn read_nodes(text: &str, asked: &Address, tls: bool) -> View {
    let mut view = View::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let [Some(id), Some(place), Some(flags)] = [words.next(), words.next(), words.next()]
        else {
            continue;
        };
        let has = |flag: &str| flags.split(',').any(|word| word == flag);
        if has("handshake") {
            // It has an id of its own only afterwards.
            continue;
        }
        let id = NodeId::new(id);
        view.ids.insert(id.clone());
        if has("myself") {
            view.own = Some(id.clone());
        }
        if has("noaddr") {
            continue;
        }
        let mut place = place.split(',');
        let endpoint = place.next().unwrap_or_default();
        let endpoint = endpoint.split_once('@').map_or(endpoint, |(client, _)| client);
        let Some(mut address) = Address::parse_servers(endpoint, asked) else { continue };
        let name = place.next().filter(|name| !name.is_empty() && !name.contains('='));
        address.alias = name.map(str::to_owned);
        if let (true, Some(name)) = (tls, &mut address.alias) {
            std::mem::swap(&mut address.host, name);
        }
        let master = Server { address, id: Some(id) };
        view.nodes.push(master.clone());
        let Some(epoch) = words.nth(3).and_then(|epoch| epoch.parse().ok()) else { continue };
        if has("myself") {
            view.own_epoch = epoch;
        }
        if !has("master") {
            continue;
        }
        // The slots follow the state of the link. Slots that move stand in brackets.
        for slots in words.skip(1).filter(|slots| !slots.starts_with('[')) {
            let (first, last) = slots.split_once('-').unwrap_or((slots, slots));
            let (Ok(first), Ok(last)) = (first.parse(), last.parse()) else { continue };
            view.claims.push(Claim { epoch, slots: first..=last, master: master.clone() });
        }
    }
    view
}

/// Merges the views of several nodes: which server serves which slots, in order. The order of the claims has
/// no influence.
pub(in crate::wire) fn merge(mut claims: Vec<Claim>) -> Vec<(RangeInclusive<u16>, Server)> {
    claims.sort_by(Claim::by_age);
    let masters = last_of_each_slot(claims.iter().map(|claim| (&claim.slots, &claim.master)));
    masters.into_iter().map(|(slots, master)| (slots, master.clone())).collect()
}

/// The last value that is given for each slot, in order of the slots.
pub(in crate::wire) fn last_of_each_slot<'a, T: Copy + PartialEq>(
    values: impl Iterator<Item = (&'a RangeInclusive<u16>, T)>,
) -> Vec<(RangeInclusive<u16>, T)> {
    let mut last: Vec<Option<T>> = vec![None; 1 + usize::from(*ALL_SLOTS.end())];
    for (slots, value) in values {
        let slots = usize::from(*slots.start())..=usize::from(*slots.end());
        if let Some(last) = last.get_mut(slots) {
            last.fill(Some(value));
        }
    }
    let mut runs = Vec::new();
    let mut begin = 0;
    for run in last.chunk_by(|one, next| one == next) {
        let end = begin + run.len() as u16 - 1;
        if let Some(value) = run[0] {
            runs.push((begin..=end, value));
        }
        begin = end.wrapping_add(1);
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: &str, port: u16) -> Address {
        Address::new(host, port)
    }

    const NODES: &str = "\
        a1 127.0.0.1:7001@17001,one.example myself,master - 0 0 3 connected 0-5460 [77->-b2]\n\
        b2 127.0.0.1:7002@17002 master - 0 1 2 connected 5461-10922 10924\n\
        c3 ::1:7003@17003 slave a1 0 1 3 connected\n\
        d4 :0@0 master,noaddr - 0 1 1 disconnected 10923\n\
        e5 :7005@17005,,shard-id=x master,fail - 0 1 1 disconnected 10925-16383\n";

    /// The values are those of `CLUSTER KEYSLOT`.
    #[test]
    fn the_slot_of_a_key_is_that_of_its_tag() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, slot) in [
            ("somekey", 11058),
            ("foo{hash_tag}", 2515),
            ("hash_tag", 2515),
            ("{user1000}.following", 3443),
            ("", 0),
        ] {
            assert_eq!(slot_of(key.as_bytes()), slot, "{key}");
        }
        for (key, same) in [("foo{{bar}}zap", "{bar"), ("foo{bar}{zap}", "bar")] {
            assert_eq!(slot_of(key.as_bytes()), slot_of(same.as_bytes()), "{key}");
        }
        for whole in ["foo{}{bar}", "foo{bar", "foo}{bar"] {
            assert_eq!(slot_of(whole.as_bytes()), crc16(whole.as_bytes()) % 16384, "{whole}");
        }
    }

    #[test]
    fn masters_and_their_slots_are_read() {
        let view = read_nodes(NODES, &address("h", 7000), false);
        let claims: Vec<_> = view
            .claims
            .iter()
            .map(|claim| (claim.epoch, claim.slots.clone(), claim.master.address.clone()))
            .collect();
        assert_eq!(
            claims,
            [
                (3, 0..=5460, address("127.0.0.1", 7001)),
                (2, 5461..=10922, address("127.0.0.1", 7002)),
                (2, 10924..=10924, address("127.0.0.1", 7002)),
                (1, 10925..=16383, address("h", 7005)),
            ]
        );
        assert_eq!((view.own, view.own_epoch), (Some(NodeId::new("a1")), 3));
        assert_eq!(view.nodes.len(), 4);
        assert_eq!(view.nodes[2].address, address("::1", 7003));
        let view = read_nodes(NODES, &address("h", 7000), true);
        assert_eq!(view.nodes[0].address, address("one.example", 7001));
    }

    #[test]
    fn a_node_is_found_by_either_of_its_names() {
        for tls in [false, true] {
            let node = &read_nodes(NODES, &address("h", 7000), tls).nodes[0].address;
            for host in ["127.0.0.1", "one.example"] {
                assert!(node.is_called(&address(host, 7001)), "{node:?} {host}");
            }
            assert!(!node.is_called(&address("127.0.0.1", 7002)));
            assert!(!node.is_called(&address("h", 7001)));
        }
    }

    #[test]
    fn of_two_claims_the_later_one_is_true() {
        let master = |host| Server { address: address(host, 1), id: None };
        let (old, new) = (master("old"), master("new"));
        let claims = vec![
            Claim { epoch: 7, slots: 100..=200, master: new.clone() },
            Claim { epoch: 3, slots: 0..=16383, master: old.clone() },
        ];
        assert_eq!(merge(claims), [(0..=99, old.clone()), (100..=200, new), (201..=16383, old)]);
        assert_eq!(merge(Vec::new()), []);
    }

    #[test]
    fn of_two_addresses_of_a_node_the_same_one_is_used_whatever_the_order() {
        let at = |host| Server { address: address(host, 1), id: Some(NodeId::new("a1")) };
        let claim = |host| Claim { epoch: 3, slots: 0..=16383, master: at(host) };
        let one = merge(vec![claim("one"), claim("two")]);
        assert_eq!(merge(vec![claim("two"), claim("one")]), one);
    }
}
