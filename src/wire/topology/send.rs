//! One copy of a call on its way to where its keys are, and what to do when that is elsewhere.

use fred::error::{Error as FredError, ErrorKind};
use futures::FutureExt;

use super::router::Router;
use crate::{
    error::RedisError,
    wire::{
        Confirm,
        answers::{Answer, classify, is_of_connection, is_read_only},
        connection::Bound,
        deployment::Address,
        error::{WireError, is_of_keys_apart},
        script::{Invocation, Reply},
    },
};

/// A call is passed on so many times by servers that send it elsewhere.
const REDIRECTS: usize = 4;

impl Router {
    /// Sends one copy, and follows redirects: where one comes from nothing has run.
    pub(in crate::wire) async fn send(
        &self,
        call: &Invocation,
        confirm: Option<Confirm>,
        mut bound: Bound,
    ) -> Answer {
        let no_server = || FredError::new(ErrorKind::Cluster, "CLUSTERDOWN no server is known");
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
            if !matches!(error.kind(), ErrorKind::Cluster) {
                if is_of_connection(error) || is_read_only(error) {
                    self.settings.refresh_requested.notify_one();
                }
                return answer;
            }
            self.settings.refresh_requested.notify_one();
            let routes = self.routes();
            let target = routes.address_of(&node).and_then(|asked| {
                let mut words = error.details().split_whitespace();
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

    /// Sends the call to where its first key is, its keys being on different sides of a slot that moves.
    /// `apart`: what was said to a copy that named them all.
    pub(in crate::wire) async fn send_to_first_key(
        &self,
        call: &Invocation,
        confirm: Option<Confirm>,
        bound: Bound,
        apart: FredError,
    ) -> Answer {
        let Some(call) = call.with_one_key() else { return Err(apart) };
        match self.send(&call, confirm, bound.rest()).await {
            // As the first time, before it has done anything: see there.
            Err(error) if is_of_keys_apart(error.details()) => Err(apart),
            answer => answer,
        }
    }

    pub(in crate::wire) fn judge(&self, answer: Answer) -> Result<Reply, WireError> {
        answer.map_err(|error| match classify(error) {
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
        _: impl FnOnce(&'a Router, &'a Invocation, Option<Confirm>, Bound) -> F,
    ) -> usize {
        size_of::<F>()
    }

    /// It is built and moved for every call: what is rare, and fred's own 5 KB, are boxed apart from it.
    #[test]
    fn a_call_under_way_is_small() {
        let size = size_of_future(Router::send);
        assert!(size < 1 << 10, "{size} bytes");
    }
}
