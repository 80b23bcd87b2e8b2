//! A Redis Cluster for one test.

mod assembly;
mod moving;
mod view;

use std::time::Duration;

use redis::{Connection, RedisResult, cmd};

use crate::connect::connect;
use crate::inspect::Inspector;
use crate::monitor::Messages;
use crate::peer::PeerArgs;
use crate::server::RedisServer;
use crate::servers::Servers;
use crate::slots::{SLOTS, slot};
use crate::wait::{PATIENCE, eventually};
use view::View;

pub use assembly::RedisClusterBuilder;

const REPLY_LIMIT: Duration = Duration::from_secs(1);

/// Three masters with a replica each, on free loopback ports; gone when dropped.
///
/// Nodes are counted from 0, which is no more than a name: who is master and who replica, the nodes say. What is said
/// of [`RedisServer`] is true of each of them.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// `127.0.0.1:port` of every node, be it alive or not.
    pub fn addresses(&self) -> Vec<String> {
        self.nodes.iter().map(RedisServer::address).collect()
    }

    /// A node, such as for [`RedisServer::pause`].
    pub fn node(&self, node: usize) -> &RedisServer {
        &self.nodes[node]
    }

    /// The master that keeps this key.
    ///
    /// # Panics
    /// When no node knows of any.
    pub fn master_of(&self, key: &str) -> usize {
        let master = self.view().master_of(slot(key));
        self.index(master.unwrap_or_else(|| panic!("nobody keeps the slot of {key:?}")))
    }

    /// The replica of the master that keeps this key.
    ///
    /// # Panics
    /// When it has none.
    pub fn replica_of(&self, key: &str) -> usize {
        let (view, master) = (self.view(), self.nodes[self.master_of(key)].port());
        let replica = view.replicas_of(master).next();
        self.index(replica.unwrap_or_else(|| panic!("the master of {key:?} has no replica")))
    }

    /// The masters that keep slots.
    pub fn masters(&self) -> Vec<usize> {
        let view = self.view();
        let masters = view.members().iter().filter(|member| member.has_slots());
        masters.map(|member| self.index(member.port)).collect()
    }

    /// The master that keeps no slot.
    ///
    /// # Panics
    /// When there is none.
    pub fn empty_master(&self) -> usize {
        let view = self.view();
        let is_empty = |member: &&view::Member| member.is_master() && !member.has_slots();
        self.index(view.members().iter().find(is_empty).expect("a master without slots").port)
    }

    /// Kills a node (SIGKILL).
    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts a node again, empty, but knowing who it was; kills it first if it still runs.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node].restart();
    }

    /// Waits until all nodes that can be reached agree that another than `lost` keeps this key; gives that one.
    pub async fn failed_over(&self, key: &str, lost: usize) -> usize {
        let other = || {
            let master = self.agreed().ok()?.master_of(slot(key))?;
            (master != self.nodes[lost].port()).then(|| self.index(master))
        };
        eventually(PATIENCE, &format!("another master than {lost} for {key:?}"), other).await
    }

    /// Waits until all nodes answer and agree, and every replica is linked to its master.
    pub async fn settled(&self) {
        let mut why = String::new();
        let settled = || self.check().map_err(|not_yet| why = not_yet).ok();
        let settled = crate::wait::glimpse(PATIENCE, settled).await;
        assert!(settled.is_some(), "the cluster is not settled after {PATIENCE:?}: {why}");
    }

    /// What is not yet well.
    fn check(&self) -> Result<(), String> {
        self.agreed()?;
        for node in &self.nodes {
            let mut node = connect(node.port(), REPLY_LIMIT).map_err(|error| error.to_string())?;
            let view = View::of(&mut node).map_err(|error| error.to_string())?;
            if view.members().len() != self.nodes.len() {
                return Err(format!("a node knows {} nodes", view.members().len()));
            }
            if let Some(doubtful) = view.members().iter().find(|member| member.is_doubtful) {
                return Err(format!("there is doubt about {doubtful:?}"));
            }
            let link = self.link(&mut node, &view).map_err(|error| error.to_string())?;
            link.ok_or("a replica is not linked")?;
        }
        Ok(())
    }

    /// Some when a master has its replicas in step, or a replica its master.
    fn link(&self, node: &mut Connection, view: &View) -> RedisResult<Option<()>> {
        let info: String = cmd("INFO").arg("replication").query(node)?;
        let is_master = info.contains("role:master");
        let port: u16 = port_of(node)?;
        let is_linked = if is_master {
            info.matches("state=online").count() == view.replicas_of(port).count()
        } else {
            info.contains("master_link_status:up")
        };
        let as_seen = view.on(port).is_some_and(|member| member.is_master() == is_master);
        Ok((is_linked && as_seen).then_some(()))
    }

    /// What all that can be reached agree upon, if every slot has a master that works.
    fn agreed(&self) -> Result<View, String> {
        let mut agreed: Option<View> = None;
        for node in &self.nodes {
            let Ok(mut node) = connect(node.port(), REPLY_LIMIT) else { continue };
            let info: RedisResult<String> = cmd("CLUSTER").arg("INFO").query(&mut node);
            let (Ok(info), Ok(view)) = (info, View::of(&mut node)) else { continue };
            if !info.contains("cluster_state:ok") {
                return Err("the state is not ok".into());
            }
            let kept: u32 = view.homes().iter().map(|&(a, b, _)| u32::from(b - a) + 1).sum();
            if kept != u32::from(SLOTS) {
                return Err(format!("{kept} slots are kept"));
            }
            match &agreed {
                Some(agreed) if agreed.homes() != view.homes() => {
                    return Err("two nodes do not agree who keeps what".into());
                }
                Some(_) => {}
                None => agreed = Some(view),
            }
        }
        agreed.ok_or_else(|| "no node can be reached".into())
    }

    /// What the first node thinks that can be reached.
    fn view(&self) -> View {
        let views = self.nodes.iter().filter_map(|node| {
            let mut node = connect(node.port(), REPLY_LIMIT).ok()?;
            View::of(&mut node).ok()
        });
        let kept = |view: &View| !view.homes().is_empty();
        views.into_iter().find(kept).expect("a node of the cluster that can be reached")
    }

    fn index(&self, port: u16) -> usize {
        let node = self.nodes.iter().position(|node| node.port() == port);
        node.unwrap_or_else(|| panic!("port {port} is none of the cluster's"))
    }
}

impl Servers for RedisCluster {
    fn peer_args(&self) -> PeerArgs {
        PeerArgs::cluster(&self.addresses())
    }

    fn inspector(&self) -> Inspector {
        Inspector::of_cluster(self.nodes.iter().map(RedisServer::port).collect())
    }

    fn client_of(&self, key: &str) -> Connection {
        self.nodes[self.master_of(key)].client()
    }

    fn messages(&self, channel: &str) -> Messages {
        Messages::in_cluster(|| self.client_of(channel), channel)
    }
}

fn port_of(node: &mut Connection) -> RedisResult<u16> {
    let (_, port): (String, u16) = cmd("CONFIG").arg("GET").arg("port").query(node)?;
    Ok(port)
}

#[cfg(test)]
mod tests;
