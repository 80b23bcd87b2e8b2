//! [`RedisTransport`]: the connections of one client, as a [`Transport`]. It follows the redirections
//! (`MOVED`, `ASK`) of a call.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::{
    FutureExt,
    future::{BoxFuture, join_all, try_join_all},
};
use tokio::time::Instant;

use super::{
    Confirm, Flight, ServerId, Transport,
    answers::{Answer, Failure, FailureKind},
    connection::Bound,
    deployment::Address,
    error::{WireError, is_of_keys_apart},
    node::Node,
    script::{Invocation, Reply},
    topology::{Router, group_by_node},
};
#[cfg(feature = "_servers")]
use super::{RawServer, RawServers, raw::RawNode, script::Arg};
use crate::{
    redis_error::{RedisError, RedisErrorKind},
    runtime::ClientRuntime,
};

/// How many servers one call is sent to, one after another, by redirections.
const MOST_SERVERS: usize = 4;

/// The connections of one client.
#[derive(Clone, Debug)]
pub(crate) struct RedisTransport {
    pub(super) router: Arc<Router>,
}

impl RedisTransport {
    pub(super) fn new(router: Router) -> Self {
        Self { router: Arc::new(router) }
    }

    fn runtime(&self) -> ClientRuntime {
        self.router.settings.runtime.clone()
    }

    /// Sends one copy, at the first poll. It must be answered by `by`, or within the usual time.
    pub(super) fn send(
        &self,
        call: Invocation,
        confirm: Option<Confirm>,
        by: Option<Instant>,
    ) -> Flight {
        let router = self.router.clone();
        async move {
            let copy = || async {
                let usual = router.settings.command_timeout;
                let bound = by.map_or_else(|| Bound::of(usual), |by| Bound::until(by, usual));
                let answer = match router.send(&call, confirm, bound).await {
                    Err(error) if is_of_keys_apart(&error.text) => {
                        router.send_to_first_key(&call, confirm, bound, error).boxed().await
                    }
                    answer => answer,
                };
                router.judge(answer)
            };
            router.settings.runtime.run(copy).await
        }
        .boxed()
    }
}

impl Router {
    /// Sends one copy, and follows redirections. A server that redirects a call has not run it.
    async fn send(
        self: &Arc<Self>,
        call: &Invocation,
        confirm: Option<Confirm>,
        mut bound: Bound,
    ) -> Answer {
        let mut node = self.node_for(call.key())?;
        let mut asking = false;
        let mut servers = 0;
        loop {
            let answer = match confirm {
                None => node.call(call, asking, bound).await,
                Some(confirm) => node.call_confirmed(call, asking, confirm, bound).boxed().await,
            };
            let Err(error) = &answer else { return answer };
            servers += 1;
            bound = bound.rest();
            match self.next(error, &node, servers, bound.by).boxed().await {
                Some(next) => (node, asking) = next,
                None => return answer,
            }
        }
    }

    /// The same for a command that is no script.
    #[cfg(feature = "_servers")]
    pub(super) async fn send_command(
        self: &Arc<Self>,
        mut node: Arc<Node>,
        name: &'static str,
        args: &[Arg],
    ) -> Answer {
        let by = Instant::now() + self.settings.command_timeout;
        let (mut asking, mut servers) = (false, 0);
        loop {
            let answer = tokio::time::timeout_at(by, node.command(name, args, asking)).await;
            let answer = answer.unwrap_or_else(|_| Err(Failure::timed_out()));
            let Err(error) = &answer else { return answer };
            servers += 1;
            match self.next(error, &node, servers, by).await {
                Some(next) => (node, asking) = next,
                None => return answer,
            }
        }
    }

    /// The server to which this answer of a node redirects, and whether the slot is being moved there.
    /// `servers`: how many have answered so.
    async fn next(
        self: &Arc<Self>,
        error: &Failure,
        node: &Arc<Node>,
        servers: usize,
        by: Instant,
    ) -> Option<(Arc<Node>, bool)> {
        let redirects = error.kind == FailureKind::Redirected;
        // A slot that is being moved still belongs to the server that says ASK.
        let is_news = redirects && !error.text.starts_with("ASK");
        if is_news || error.is_of_connection() || error.is_read_only() {
            self.settings.refresh_requested.notify_one();
        }
        if !redirects || servers == MOST_SERVERS {
            return None;
        }
        let routes = self.routes();
        let asked = routes.address_of(node)?;
        let mut words = error.text.split_whitespace();
        let asking = words.next() == Some("ASK");
        let announced = Address::parse_servers(words.nth(1)?, asked)?;
        let target = match &self.deployment {
            Some(deployment) => deployment.nat.reach(announced),
            None => announced,
        };
        let next = match asking {
            true => self.joining(&target, Some(node), by).boxed().await,
            false => self.known_at(&target),
        };
        Some((next?, asking))
    }

    /// Sends the call to the server of its first key, when a slot moves and the keys are on two
    /// servers. `apart`: the error of the copy that named all keys.
    async fn send_to_first_key(
        self: &Arc<Self>,
        call: &Invocation,
        confirm: Option<Confirm>,
        bound: Bound,
        apart: Failure,
    ) -> Answer {
        let Some(call) = call.with_one_key() else { return Err(apart) };
        match self.send(&call, confirm, bound.rest()).await {
            // As the first time, and nothing has been changed: see [`Script::or_with_one_key`].
            Err(error) if is_of_keys_apart(&error.text) => Err(apart),
            answer => answer,
        }
    }

    pub(super) fn judge(&self, answer: Answer) -> Result<Reply, WireError> {
        answer.map_err(|error| match WireError::from(error) {
            WireError::NotNow(error) if !self.is_cluster() && is_redirect(&error) => {
                WireError::Refused(RedisError::new(
                    RedisErrorKind::Moved,
                    "this server is one of a Redis Cluster: use a redis-cluster:// URL",
                ))
            }
            error => error,
        })
    }
}

fn is_redirect(error: &RedisError) -> bool {
    let text = error.text();
    text.contains("MOVED ") || text.contains("ASK ")
}

impl Transport for RedisTransport {
    fn call(&self, call: Invocation) -> Flight {
        self.send(call, None, None)
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        self.send(call, None, Some(by))
    }

    fn call_confirmed(&self, call: Invocation, confirm: Confirm) -> Flight {
        self.send(call, Some(confirm), None)
    }

    fn slot(&self, key: &[u8]) -> u16 {
        self.router.slot(key)
    }

    fn is_cluster(&self) -> bool {
        self.router.is_cluster()
    }

    fn time_at(&self, key: &[u8], moment: Instant) -> u64 {
        self.router.node_of(key).map_or(0, |node| node.clock.at(moment))
    }

    fn observe(&self, key: &[u8], now: u64) {
        if let Some(node) = self.router.node_of(key) {
            node.clock.observe(now);
        }
    }

    fn server_time(&self, key: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        let node = self.router.node_for(key);
        let runtime = self.runtime();
        async move { runtime.run(|| async { node?.time().await }).await }.boxed()
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        let router = self.router.clone();
        async move {
            let routes = router.routes();
            join_all(routes.nodes.iter().map(async |(_, node)| node.time().await)).await;
            // Clusters and sentinels say who is master.
            if router.deployment.is_none() {
                join_all(routes.nodes.iter().map(async |(_, node)| node.look_for_demotion().await))
                    .await;
            }
        }
        .boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let router = self.router.clone();
        async move {
            let mut subscribed_on = Vec::with_capacity(channels.len());
            for channel in channels {
                subscribed_on.push((router.node_for(channel.as_bytes())?, channel));
            }
            let groups = group_by_node(subscribed_on);
            try_join_all(groups.into_iter().map(async |(node, channels)| {
                let (map, sharded) = (&router.subscriptions, router.settings.channels.is_sharded());
                // What fails is repeated when the channels are unsubscribed.
                let _ = map.unsubscribe_elsewhere(&channels, &node, sharded).await;
                let done = match router.is_cluster() {
                    true => map.subscribe(channels, &node, sharded).await,
                    false => node.subscribe(channels, sharded).await,
                };
                if done.is_err() {
                    router.settings.refresh_requested.notify_one();
                }
                done
            }))
            .await
            .map(drop)
        }
        .boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        let router = self.router.clone();
        async move {
            if !router.is_cluster() {
                let node = router.node_for(&[])?;
                return node.unsubscribe(channels, false).await;
            }
            let sharded = router.settings.channels.is_sharded();
            router.subscriptions.unsubscribe(&channels, sharded).await
        }
        .boxed()
    }

    fn may_replace_servers(&self) -> bool {
        self.router.deployment.is_some()
    }

    fn server_id(&self, name: &str) -> ServerId {
        self.router.node_of(name.as_bytes()).map_or(0, |node| node.id)
    }

    fn may_be_subscribed(&self, channel: &str) -> bool {
        self.router.subscriptions.has(channel)
    }

    fn probe(&self, server: ServerId) -> BoxFuture<'static, Result<(), WireError>> {
        let routes = self.router.routes();
        async move {
            match routes.nodes.iter().find(|(_, node)| node.id == server) {
                Some((_, node)) => node.probe().await,
                None => Ok(()),
            }
        }
        .boxed()
    }

    fn given_up(&self, key: &[u8], silence: Duration) {
        if let Some(node) = self.router.node_of(key) {
            node.timed_out(silence);
        }
    }

    #[cfg(feature = "_servers")]
    fn servers(&self) -> RawServers {
        let routes = self.router.routes();
        let serving = |node: &Arc<Node>| routes.slots.iter().any(|(_, of)| Arc::ptr_eq(of, node));
        let nodes = routes.nodes.iter().filter(|(_, node)| serving(node));
        let connected = nodes.map(|(_, node)| RawNode::of(node, &self.router)).collect();
        let missing = self.router.masters_without(&routes).into_iter();
        RawServers { connected, missing: missing.map(|address| address.to_string()).collect() }
    }

    #[cfg(feature = "_servers")]
    fn server_of(&self, key: &[u8]) -> Option<Arc<dyn RawServer>> {
        self.router.node_of(key).map(|node| RawNode::of(&node, &self.router))
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        let router = self.router.clone();
        async move {
            router.closed.store(true, Ordering::Relaxed);
            router.settings.refresh_requested.notify_one();
            join_all(router.routes().nodes.iter().map(async |(_, node)| node.quit().await)).await;
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
