//! [`NodeId`]: which node of a cluster, or which sentinel, it is, whatever its address.

use std::sync::Arc;

use super::answers::Failure;
use crate::redis_error::RedisErrorKind;

/// The id that a node of a cluster, or a sentinel, keeps for its life. An address may come to belong to
/// another one, also of another deployment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeId(Arc<str>);

impl NodeId {
    pub(super) fn new(id: &str) -> Self {
        Self(id.into())
    }

    /// Fails if another node wrote this answer to `CLUSTER NODES`. A proxy may leave out who wrote it.
    pub(super) fn check(&self, nodes: &str) -> Result<(), Failure> {
        let is_myself = |flags: &str| flags.split(',').any(|flag| flag == "myself");
        let writer = nodes.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let id = words.next()?;
            is_myself(words.nth(1)?).then_some(id)
        });
        if writer.is_none_or(|writer| *writer == *self.0) { Ok(()) } else { Err(another()) }
    }
}

/// The failure of a connection to a server that is another one than was meant.
pub(super) fn another() -> Failure {
    let why = "another server has the address of this node of the cluster now";
    Failure::not_sent(why).because(RedisErrorKind::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_known_by_the_line_of_its_own() {
        let nodes = "a1 127.0.0.1:7001@17001 master - 0 0 3 connected 0-5460\n\
             b2 127.0.0.1:7002@17002 myself,master - 0 1 2 connected 5461-10922\n";
        NodeId::new("b2").check(nodes).unwrap();
        let error = NodeId::new("a1").check(nodes).unwrap_err();
        assert!(error.text.contains("another server"), "{error}");
        NodeId::new("a1").check("").unwrap();
    }
}
