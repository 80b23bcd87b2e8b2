//! Redisson-compatible distributed locks on Redis.

mod acquire;
mod claim;
mod client;
mod config;
mod contend;
mod engine;
mod entry;
mod error;
mod guard;
mod hold;
mod lock;
mod names;
mod owner;
mod protocol;
mod queue;
#[cfg(test)]
mod sim;
mod wire;

pub use crate::{
    acquire::{Acquire, TryAcquire},
    client::Client,
    config::Config,
    error::{Error, Loss, RedisError},
    guard::LockGuard,
    lock::{Holder, Inspection, Lock, Remaining},
    owner::Owner,
    wire::FredConfig,
};
