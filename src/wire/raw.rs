//! [`RawNode`]: commands to one server, for the command line tool.

use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;

use super::{Flight, RawServer, node::Node, script::Arg, topology::Router};

/// One server of a transport.
#[derive(Debug)]
pub(super) struct RawNode {
    node: Arc<Node>,
    name: String,
    router: Arc<Router>,
}

impl RawNode {
    pub(super) fn of(node: &Arc<Node>, router: &Arc<Router>) -> Arc<dyn RawServer> {
        Arc::new(Self { name: node.name(), node: node.clone(), router: router.clone() })
    }
}

impl RawServer for RawNode {
    fn name(&self) -> &str {
        &self.name
    }

    fn is_sharded(&self) -> bool {
        self.router.settings.channels.is_sharded()
    }

    fn command(&self, name: &'static str, args: Vec<Bytes>) -> Flight {
        let (node, router) = (self.node.clone(), self.router.clone());
        let args: Vec<_> = args.into_iter().map(Arg::Bytes).collect();
        async move {
            let copy =
                || async { router.judge(router.send_command(node.clone(), name, &args).await) };
            router.settings.runtime.run(copy).await
        }
        .boxed()
    }
}
