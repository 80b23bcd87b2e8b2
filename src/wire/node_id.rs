//! [`NodeId`]: which node of a cluster it is, whatever its address. [`Wanted`]: what the node at an address
//! must be.

use std::sync::Arc;

use super::answers::Failure;
use crate::redis_error::RedisErrorKind;

/// The id that a node of a cluster keeps for its life. An address may come to belong to another node, also
/// to one of another cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(Arc<str>);

impl NodeId {
    pub(super) fn new(id: &str) -> Self {
        Self(id.into())
    }
}

/// What a node must be to be asked for locks.
#[derive(Clone, Debug)]
pub(super) enum Wanted {
    Itself(NodeId),
    /// One that knows this one, and is of its cluster.
    Knows(NodeId),
}

impl Wanted {
    /// Fails if another node wrote this answer to `CLUSTER NODES`. A proxy may leave out who wrote it.
    pub(super) fn check(&self, nodes: &str) -> Result<(), Failure> {
        let is_myself = |flags: &str| flags.split(',').any(|flag| flag == "myself");
        let mut nodes = nodes.lines().filter_map(|line| {
            let mut words = line.split_whitespace();
            Some((words.next()?, is_myself(words.nth(1)?)))
        });
        let is_it = match self {
            Self::Itself(NodeId(wanted)) => {
                let writer = nodes.find(|(_, is_myself)| *is_myself);
                writer.is_none_or(|(id, _)| *id == **wanted)
            }
            Self::Knows(NodeId(wanted)) => {
                let mut nodes = nodes.peekable();
                nodes.peek().is_none() || nodes.any(|(id, _)| *id == **wanted)
            }
        };
        if is_it { Ok(()) } else { Err(another()) }
    }
}

/// The failure of a connection to a server that is not what is wanted.
pub(super) fn another() -> Failure {
    let why = "another server has the address of this node of the cluster now";
    Failure::not_sent(why).because(RedisErrorKind::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_what_it_says_of_itself_and_of_others() {
        let nodes = "a1 127.0.0.1:7001@17001 master - 0 0 3 connected 0-5460\n\
             b2 127.0.0.1:7002@17002 myself,master - 0 1 2 connected 5461-10922\n";
        let itself = |id| Wanted::Itself(NodeId::new(id));
        let knows = |id| Wanted::Knows(NodeId::new(id));
        for wanted in [itself("b2"), knows("b2"), knows("a1")] {
            wanted.check(nodes).unwrap();
        }
        for wanted in [itself("a1"), knows("c3")] {
            let error = wanted.check(nodes).unwrap_err();
            assert!(error.text.contains("another server"), "{error}");
            wanted.check("").unwrap();
        }
    }
}
