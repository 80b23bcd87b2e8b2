//! fred, the Redis client underneath. Only this folder names it.

mod endpoint;
mod tls;

pub(super) use self::{endpoint::config, tls::Connector};
