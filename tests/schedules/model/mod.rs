//! A deterministic simulation of clients and an unreliable network, with one server. It knows no kind of lock.
//!
//! A kind of lock is a [`Model`]: what its clients may do next, what the answers mean to them, and what must never happen. The
//! simulation owns everything that is uncertain. Time is virtual. A script call is a [`Copy`] on a network that runs it, and brings
//! its answer, at any time or never. What a script does is never modelled: it runs on Redis.

mod bias;
mod in_process;
mod invocation;
mod mirror;
mod network;
mod real;
mod rules;
mod schedule;
mod seen;
mod server;
mod shrink;
mod step;
mod violation;
mod world;

pub(crate) use in_process::Replacement;
pub(crate) use invocation::{Arg, EPOCH_MS, Invocation, REAL_MS_PER_MS, Script, text};
pub(crate) use network::Progress;
pub(crate) use rules::{Change, Rules};
pub(crate) use schedule::Simulation;
pub(crate) use seen::{Message, Seen, virtual_ms};
pub(crate) use server::Server;
pub(crate) use shrink::shrink;
pub(crate) use step::{Closing, Model, Step};
pub(crate) use violation::{Kind, Violation};
pub(crate) use world::World;

/// Virtual milliseconds since the schedule began.
pub(crate) type Ms = u64;

/// The name of a step, and of the copy it sent. It stays when other steps are dropped.
pub(crate) type StepId = u32;
