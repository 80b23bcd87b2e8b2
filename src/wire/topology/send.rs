//! Sends one copy of a call to the server of its keys, and follows `MOVED` and `ASK`.

use std::sync::Arc;

use futures::FutureExt;

use super::router::Router;
use crate::{
    error::RedisError,
    wire::{
        Confirm,
        answers::{Answer, Failure, FailureKind},
        deployment::Address,
        error::{WireError, is_of_keys_apart},
        script::{Invocation, Reply},
        session::Bound,
    },
};

/// How many redirections of one call are followed.
const REDIRECTS: usize = 4;

impl Router {
    /// Sends one copy, and follows redirections. A server that redirects a call has not run it.
    pub(in crate::wire) async fn send(
        self: &Arc<Self>,
        call: &Invocation,
        confirm: Option<Confirm>,
        mut bound: Bound,
    ) -> Answer {
        let no_server = || Failure::refused("CLUSTERDOWN no server is known");
        let Some(mut node) = self.node_of(call.key()) else {
            self.settings.refresh_requested.notify_one();
            return Err(no_server());
        };
        let mut asking = false;
        for _ in 0..REDIRECTS {
            let answer = match confirm {
                None => node.call(call, asking, bound).await,
                Some(confirm) => node.call_confirmed(call, asking, confirm, bound).boxed().await,
            };
            let Err(error) = &answer else { return answer };
            if error.kind != FailureKind::Redirected {
                if error.is_of_connection() || error.is_read_only() {
                    self.settings.refresh_requested.notify_one();
                }
                return answer;
            }
            self.settings.refresh_requested.notify_one();
            let routes = self.routes();
            let target = routes.address_of(&node).and_then(|asked| {
                let mut words = error.text.split_whitespace();
                asking = words.next() == Some("ASK");
                Address::parse(words.nth(1)?, asked)
            });
            bound = bound.rest();
            let next = match &target {
                Some(target) if asking => self.joining(target, bound.by).boxed().await,
                Some(target) => routes.at(target).cloned(),
                None => None,
            };
            match next {
                Some(next) => node = next,
                None => return answer,
            }
        }
        Err(no_server())
    }

    /// Sends the call to the server of its first key, when a slot moves and the keys are on two
    /// servers. `apart`: the error of the copy that named all keys.
    pub(in crate::wire) async fn send_to_first_key(
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

    pub(in crate::wire) fn judge(&self, answer: Answer) -> Result<Reply, WireError> {
        answer.map_err(|error| match WireError::from(error) {
            WireError::NotNow(error) if !self.is_cluster && is_redirect(&error) => {
                WireError::Refused(RedisError::new(
                    "this server is one of a Redis Cluster: use a redis-cluster:// URL",
                ))
            }
            error => error,
        })
    }
}

fn is_redirect(error: &RedisError) -> bool {
    let text = error.to_string();
    text.contains("MOVED ") || text.contains("ASK ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size_of_future<'a, F: Future>(
        _: impl FnOnce(&'a Arc<Router>, &'a Invocation, Option<Confirm>, Bound) -> F,
    ) -> usize {
        size_of::<F>()
    }

    /// The future is built and moved for every call. Rare parts, and the driver's 5 KB, are boxed
    /// apart from it.
    #[test]
    fn a_call_under_way_is_small() {
        let size = size_of_future(Router::send);
        assert!(size < 768, "{size} bytes");
    }
}
