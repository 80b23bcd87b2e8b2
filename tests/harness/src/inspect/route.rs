//! The server that is asked about a key.

use std::collections::HashMap;
use std::time::Duration;

use redis::{Connection, RedisError, RedisResult};

use crate::connect::connect;
use crate::slots::slot;
use crate::wait::blocking;

/// How long a node takes at most to answer; a paused one does not.
const REPLY_LIMIT: Duration = Duration::from_secs(1);
/// How long a cluster may take at most to find a master for a slot.
const LIMIT: Duration = Duration::from_secs(10);

pub(super) enum Route {
    One(Connection),
    Cluster(Nodes),
}

/// The nodes of a cluster, replicas too. Nodes say themselves who keeps what.
pub(super) struct Nodes {
    ports: Vec<u16>,
    connections: HashMap<u16, Connection>,
    /// Where a slot was when somebody last asked.
    homes: HashMap<u16, u16>,
}

impl Route {
    pub(super) fn cluster(ports: Vec<u16>) -> Self {
        Self::Cluster(Nodes { ports, connections: HashMap::new(), homes: HashMap::new() })
    }

    /// Asks the server that keeps this key.
    pub(super) fn at<T>(
        &mut self,
        key: &[u8],
        ask: impl Fn(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        match self {
            Self::One(connection) => ask(connection),
            Self::Cluster(nodes) => nodes.at(key, ask),
        }
    }

    /// Asks every server that can be reached.
    pub(super) fn everywhere<T>(
        &mut self,
        ask: impl Fn(&mut Connection) -> RedisResult<T>,
    ) -> Vec<RedisResult<T>> {
        match self {
            Self::One(connection) => vec![ask(connection)],
            Self::Cluster(nodes) => {
                let ports = nodes.ports.clone();
                let answers = ports.into_iter().map(|port| nodes.ask(port, &ask));
                answers.filter(|answer| !answer.as_ref().is_err_and(is_out_of_reach)).collect()
            }
        }
    }
}

impl Nodes {
    fn at<T>(
        &mut self,
        key: &[u8],
        ask: impl Fn(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let slot = slot(key);
        let (mut others, mut last) = (self.ports.clone().into_iter().cycle(), None);
        let answer = blocking(LIMIT, || {
            let home = self.homes.get(&slot).copied();
            let port = home.or_else(|| others.next()).expect("a node");
            match self.ask(port, &ask) {
                Err(error) if error.code() == Some("MOVED") => {
                    self.homes.insert(slot, home_in(&error).expect("an address"));
                    last = Some(error);
                    None
                }
                Err(error) if is_out_of_reach(&error) || is_passing(&error) => {
                    self.homes.remove(&slot);
                    last = Some(error);
                    None
                }
                answer => {
                    self.homes.insert(slot, port);
                    Some(answer)
                }
            }
        });
        answer.unwrap_or_else(|| Err(last.expect("an error")))
    }

    /// Twice, if need be: a connection may be an old one.
    fn ask<T>(
        &mut self,
        port: u16,
        ask: impl Fn(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let was_connected = self.connections.contains_key(&port);
        let answer = self.ask_once(port, &ask);
        match answer {
            Err(error) if was_connected && is_out_of_reach(&error) && !error.is_timeout() => {
                self.ask_once(port, ask)
            }
            answer => answer,
        }
    }

    fn ask_once<T>(
        &mut self,
        port: u16,
        ask: impl Fn(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let mut connection = match self.connections.remove(&port) {
            Some(connection) => connection,
            None => connect(port, REPLY_LIMIT)?,
        };
        let answer = ask(&mut connection);
        if !answer.as_ref().is_err_and(is_out_of_reach) {
            self.connections.insert(port, connection);
        }
        answer
    }
}

fn is_out_of_reach(error: &RedisError) -> bool {
    error.is_io_error() || error.is_unrecoverable_error()
}

/// It will be otherwise when the cluster has recovered, or the slot has arrived.
fn is_passing(error: &RedisError) -> bool {
    matches!(error.code(), Some("CLUSTERDOWN" | "TRYAGAIN" | "ASK" | "LOADING" | "MASTERDOWN"))
}

fn home_in(error: &RedisError) -> Option<u16> {
    let (address, _) = error.redirect_node()?;
    address.rsplit_once(':')?.1.parse().ok()
}
