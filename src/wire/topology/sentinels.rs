//! Reads what a sentinel answers about its master, its peers and itself.

use std::collections::HashMap;

use super::slots::{ALL_SLOTS, Claim, Server, View};
use crate::wire::{answers::Failure, deployment::Address, node_id::NodeId, script::Reply};

/// Whether two answers name one master.
pub(super) fn name_the_same(one: &Reply, other: &Reply) -> bool {
    let named = |master| {
        let mut fields = fields(master);
        (fields.remove("ip"), fields.remove("port"))
    };
    named(one) == named(other)
}

/// Reads a sentinel's answers about the master, the other sentinels, and its own id, if it tells that. `heir` is what it
/// answered to `GET-MASTER-ADDR-BY-NAME` before it told of the master.
pub(super) fn read_master(
    master: &Reply,
    heir: Option<&Reply>,
    others: &Reply,
    own: Option<&Reply>,
) -> Result<View, Failure> {
    let master = fields(master);
    let address = |fields: &HashMap<String, String>| {
        let port = fields.get("port")?.parse().ok()?;
        Some(Address::new(fields.get("ip")?, port))
    };
    let epoch = master.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    let (Some(epoch), Some(at)) = (epoch, address(&master)) else {
        return Err(Failure::no_master("no master is known"));
    };
    let Reply::Array(others) = others else {
        return Err(Failure::unreadable("no sentinels are told"));
    };
    let others: Vec<_> = others.iter().map(fields).collect();
    let server = |address| Server { address, id: None };
    let nodes = others.iter().filter_map(address).map(server).collect();
    // Of sentinels that do not tell their own ids, two may have none in common.
    let own = own.and_then(Reply::as_text);
    let own = own.map(|own| NodeId::new(&own));
    let ids = own.iter().flat_map(|own| {
        let ids = others.iter().filter_map(|other| other.get("runid")).filter(|id| !id.is_empty());
        ids.map(|id| NodeId::new(id)).chain([own.clone()])
    });
    let ids = ids.collect();
    let is_leaving = |flags: &String| flags.split(',').any(|flag| flag == "failover_in_progress");
    // Until all replicas follow the new master, this is the old one. Once a replica has become the master, the epoch is
    // new, and `GET-MASTER-ADDR-BY-NAME` names that replica.
    let view = View { nodes, ids, own, ..View::default() };
    let claim = |address| Claim { epoch, slots: ALL_SLOTS, master: server(address) };
    if !master.get("flags").is_some_and(is_leaving) {
        return Ok(View { claims: vec![claim(at)], ..view });
    }
    Ok(match heir.and_then(read_address).filter(|heir| *heir != at) {
        Some(heir) => View { heir: Some(claim(heir)), ..view },
        None => View { leaving: Some(at), ..view },
    })
}

/// Reads a host and a port.
fn read_address(reply: &Reply) -> Option<Address> {
    let Reply::Array(parts) = reply else { return None };
    let [host, port] = &parts[..] else { return None };
    Some(Address::new(&host.as_text()?, port.as_text()?.parse().ok()?))
}

/// Reads names and values in turns, as a sentinel writes them.
fn fields(reply: &Reply) -> HashMap<String, String> {
    let Reply::Array(parts) = reply else { return HashMap::new() };
    let pairs = parts.chunks_exact(2);
    pairs.filter_map(|pair| Some((pair[0].as_text()?, pair[1].as_text()?))).collect()
}
