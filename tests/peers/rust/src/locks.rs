//! The one place that knows which kind of lock is made how.

use redisson_lock::{Client, Lock};

use crate::answers::Failure;
use crate::request::{Kind, Request};

/// The lock a request means.
pub(crate) fn lock(client: &Client, request: &Request) -> Result<Lock, Failure> {
    named(client, request.kind, request.name()?)
}

pub(crate) fn named(client: &Client, kind: Kind, name: &str) -> Result<Lock, Failure> {
    match kind {
        Kind::Lock => Ok(client.lock(name)),
        Kind::None => Err(Failure::invalid("the kind none is for loops")),
    }
}
