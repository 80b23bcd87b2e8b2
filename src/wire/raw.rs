//! [`RawNode`]: commands to one server, for the command line tool.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;

use super::{Flight, RawServer, connection::Channels, node::Node, script::Arg, topology::Router};
use crate::runtime::ClientRuntime;

/// One server of a transport.
#[derive(Debug)]
pub(super) struct RawNode {
    node: Arc<Node>,
    name: String,
    runtime: ClientRuntime,
    channels: Channels,
}

impl RawNode {
    pub(super) fn of(node: &Arc<Node>, router: &Router) -> Arc<dyn RawServer> {
        Arc::new(Self {
            name: node.name(),
            node: node.clone(),
            runtime: router.settings.runtime.clone(),
            channels: router.settings.channels,
        })
    }
}

impl RawServer for RawNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_sharded(&self) -> bool {
        self.channels == Channels::Sharded
    }

    fn command(&self, name: &'static str, args: Vec<Bytes>) -> Flight {
        let (node, runtime) = (self.node.clone(), self.runtime.clone());
        let args: Vec<_> = args.into_iter().map(Arg::Bytes).collect();
        async move { runtime.run(|| async { Ok(node.command(name, &args).await?) }).await }.boxed()
    }
}
