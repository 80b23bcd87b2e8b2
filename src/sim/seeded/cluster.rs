//! [`ToCluster`]: two masters of a cluster, as their client sees them. Each has half of the names.

use std::{sync::Arc, time::Duration};

use futures::{FutureExt, future::BoxFuture, future::join_all};
use tokio::time::Instant;

use super::{link::Link, transport::ToServer};
use crate::wire::{Confirm, Flight, Invocation, Transport, WireError};

/// The heirs of one server have numbers of their own.
const HEIRS: u64 = 1 << 32;

#[derive(Debug)]
pub(super) struct ToCluster(Vec<ToServer>);

impl ToCluster {
    pub(super) fn new(links: &[Arc<Link>]) -> Self {
        Self(links.iter().cloned().map(ToServer).collect())
    }

    fn of(&self, key: &[u8]) -> &ToServer {
        &self.0[usize::from(self.slot(key))]
    }

    /// By master.
    fn apart(&self, channels: Vec<String>) -> impl Iterator<Item = (&ToServer, Vec<String>)> {
        let mut parts = vec![Vec::new(); self.0.len()];
        for channel in channels {
            parts[usize::from(self.slot(channel.as_bytes()))].push(channel);
        }
        self.0.iter().zip(parts).filter(|(_, part)| !part.is_empty())
    }
}

/// Which master has the lock of a key or a channel: the last digit of its name says so.
pub(super) fn master_of(key: &str, masters: usize) -> usize {
    let inner = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let lock = inner.map_or(key, |(lock, _)| lock);
    let digit = lock.bytes().last().map_or(0, |digit| digit.saturating_sub(b'0'));
    usize::from(digit) % masters
}

async fn all(parts: Vec<BoxFuture<'static, Result<(), WireError>>>) -> Result<(), WireError> {
    join_all(parts).await.into_iter().collect()
}

impl Transport for ToCluster {
    fn call(&self, call: Invocation) -> Flight {
        self.of(call.key()).call(call)
    }

    fn call_by(&self, call: Invocation, by: Instant) -> Flight {
        self.of(call.key()).call_by(call, by)
    }

    fn call_confirmed(&self, call: Invocation, confirm: Confirm) -> Flight {
        self.of(call.key()).call_confirmed(call, confirm)
    }

    fn slot(&self, key: &[u8]) -> u16 {
        master_of(&String::from_utf8_lossy(key), self.0.len()) as u16
    }

    fn is_cluster(&self) -> bool {
        true
    }

    fn time_at(&self, key: &[u8], moment: Instant) -> u64 {
        self.of(key).time_at(key, moment)
    }

    fn observe(&self, key: &[u8], now: u64) {
        self.of(key).observe(key, now);
    }

    fn server_time(&self, key: &[u8]) -> BoxFuture<'static, Result<u64, WireError>> {
        self.of(key).server_time(key)
    }

    fn keep_time(&self) -> BoxFuture<'static, ()> {
        join_all(self.0.iter().map(Transport::keep_time)).map(drop).boxed()
    }

    fn subscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        all(self.apart(channels).map(|(master, part)| master.subscribe(part)).collect()).boxed()
    }

    fn unsubscribe(&self, channels: Vec<String>) -> BoxFuture<'static, Result<(), WireError>> {
        all(self.apart(channels).map(|(master, part)| master.unsubscribe(part)).collect()).boxed()
    }

    fn may_be_subscribed(&self, _: &str) -> bool {
        true
    }

    fn may_replace_servers(&self) -> bool {
        true
    }

    fn server_id(&self, name: &str) -> u64 {
        let master = master_of(name, self.0.len());
        self.0[master].server_id(name) + master as u64 * HEIRS
    }

    fn probe(&self, server: u64) -> BoxFuture<'static, Result<(), WireError>> {
        let master = (server / HEIRS) as usize;
        self.0[master.min(self.0.len() - 1)].probe(server)
    }

    fn given_up(&self, key: &[u8], silence: Duration) {
        self.of(key).given_up(key, silence);
    }

    fn quit(&self) -> BoxFuture<'static, ()> {
        join_all(self.0.iter().map(Transport::quit)).map(drop).boxed()
    }
}
