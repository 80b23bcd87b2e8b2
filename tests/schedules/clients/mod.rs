//! What the clients of all kinds of locks have in common: their calls, the owners of this crate, Redisson's threads and scripts, and the janitor.

mod call;
mod claim;
mod id;
mod janitor;
mod owner_step;
mod redisson;
mod redisson_threads;
mod thread;

use std::fmt;

use harness::redis::Value;

use crate::model::World;

pub(crate) use call::{Call, OwnVerb, Terms, Verb};
pub(crate) use claim::{Claim, Unanswered};
pub(crate) use id::{Id, Name};
pub(crate) use janitor::Janitor;
pub(crate) use owner_step::OwnerStep;
pub(crate) use redisson::{
    CapturedScripts, Redisson, THEIR_WAIT, WATCHDOG, capture_scripts, is_renewed,
};
pub(crate) use redisson_threads::RedissonThreads;
pub(crate) use thread::Thread;

/// A call of these clients, and the world in which they make it.
pub(crate) type CallOf<C> = Call<<C as Clients>::Id, <C as Clients>::Terms, <C as Clients>::Own>;
pub(crate) type WorldOf<'w, C> = World<'w, CallOf<C>>;

/// The clients of one kind of lock, and the judge of what they are told.
pub(crate) trait Clients: Sized {
    /// A holder.
    type Id: Copy + PartialEq + fmt::Display;
    type Terms: Terms;
    type Own: OwnVerb;

    /// Calls by way of the network.
    fn call(&mut self, call: CallOf<Self>, world: &mut WorldOf<'_, Self>);

    /// Calls past the network.
    fn run_at_once(&mut self, call: &CallOf<Self>, world: &mut WorldOf<'_, Self>) -> Value;

    /// How often the server keeps this holder.
    fn count(&self, id: Self::Id) -> Option<u32>;

    /// Whether its hold was taken away by force or by time.
    fn was_lost(&self, id: Self::Id) -> bool;

    /// A new hold under an old id.
    fn begin_again(&mut self, id: Self::Id);
}
