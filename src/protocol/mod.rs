//! The kinds of lock, the semaphores and the latch: scripts, keys and channels, and the meaning of the replies.
//!
//! Pure: nothing here waits or knows a connection. A new kind is one more file here that implements
//! [`Protocol`], one more folder in `lua/`, and one more entry in [`kind`].

macro_rules! script {
    ($name:literal) => {
        Script::new($name, include_str!(concat!("../../lua/", $name, ".lua")))
    };
}

pub(crate) mod announcement;
mod args;
pub(crate) mod asking;
mod combine;
mod contract;
pub(crate) mod expirable;
mod fair;
mod fenced;
mod hash;
mod kind;
pub(crate) mod latch;
mod one_key;
mod permitting;
mod plain;
mod read_write;
mod reentrant;
mod renewals;
mod replies;
mod request;
pub(crate) mod semaphore;

pub(crate) use self::{
    args::{ScriptArgs, Wish},
    combine::{combine, combined, is_combinable},
    contract::{Order, Protocol},
    kind::Side,
    permitting::{Permitting, Taken, taken},
    renewals::{Renew, renew, renew_apart},
    replies::{
        AcquireReply, Extended, Forced, Reentry, Renewed, Snapshot, Timely, done, downgraded,
        extended, forced, inspected, reentered, released, renewed, token,
    },
    request::{Countable, RequestArgs, cancelled, number_of},
};
