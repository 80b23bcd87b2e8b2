//! The driver over redis-rs. Only this folder names redis-rs.
//!
//! redis-rs parses the replies. The socket, the queue of callers and the timers are this driver's
//! own, because each of redis-rs's connections breaks a rule of
//! [the seam](super::connection). These are its version 1.8's:
//! - `ConnectionManager` reconnects by itself, and a command waits for that. Here a connection that
//!   breaks ends.
//! - `MultiplexedConnection` takes `sunsubscribe`, which a server sends when a slot moves, for the
//!   reply to its oldest command. All later replies then go to the wrong callers. It does so for
//!   RESP3 only, and has no messages with RESP2. Here a confirmation counts for the subscription of
//!   its channel only, and any other one is reported as a gap.
//! - `MultiplexedConnection` has a queue of 50 commands. A caller waits for a place in it, so a
//!   command may not be sent at the first poll. A command whose caller is gone by then is not sent
//!   at all. Here a command is queued at the first poll and then sent in any case. If the queue is
//!   full, its caller is told that it was not sent.
//! - A timeout is an IO error, as is a lost connection. Neither says whether the command was sent.
//!   Its default of 500 ms covers all commands alike.
//! - `PubSub` queues messages without a bound. It cannot send `SSUBSCRIBE` or `CLIENT SETNAME`. Here
//!   the listener takes each message as it is read.
//! - A server that refuses AUTH for its number of arguments is sent AUTH again, without the user.
//!   Here AUTH is sent once, and the words of a refusal are not passed on: they may repeat the
//!   password.

mod answers;
mod connection;
mod login;
mod task;

use futures::FutureExt;
use tokio::time::timeout;

use super::{
    answers::Failure,
    connection::{Connecting, Driver, Options},
    deployment::Endpoint,
    tls_library::Connector,
};

/// Makes connections that read replies with redis-rs.
pub(super) struct RedisRsDriver {
    tls: Option<Connector>,
}

impl RedisRsDriver {
    /// With or without TLS.
    pub(super) fn new(tls: Option<Connector>) -> Self {
        Self { tls }
    }
}

impl Driver for RedisRsDriver {
    fn connect(&self, endpoint: Endpoint, options: Options) -> Connecting {
        let (tls, within) = (self.tls.clone(), options.command_timeout);
        let connecting = login::connect(endpoint, tls, options);
        async move { timeout(within, connecting).await.map_err(|_| Failure::timed_out())? }.boxed()
    }
}
