//! The kinds of lock, the semaphores and the latch: scripts, keys and channels, and the meaning of the replies.
//!
//! Pure: nothing here waits or knows a connection. CONTRIBUTING.md lists what a new kind of lock needs.
//!
//! | file | content |
//! |---|---|
//! | [`contract`], [`kind`] | [`Protocol`]: what every kind of lock implements; the list of the kinds |
//! | [`reentrant`], [`fair`], [`fenced`], [`read_write`], [`plain`] | the kinds of lock. The non-reentrant and spin locks are reentrant ones on the server |
//! | [`one_key`] | calls that several kinds share, beside the defaults of [`Protocol`] |
//! | [`args`], [`replies`] | the arguments of the scripts beside keys and ids; the meaning of their replies |
//! | [`renewals`], [`mod@combine`] | many renewals in one call; many acquisitions and releases in one call |
//! | [`semaphore`], [`expirable`], [`latch`] | the counters |
//! | [`counting`], [`permitting`] | requests that count once; what both semaphores share |
//! | [`asking`], [`announcement`] | questions to holders; what a client announces about itself |

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
mod counting;
pub(crate) mod expirable;
mod fair;
mod fenced;
mod kind;
pub(crate) mod latch;
mod one_key;
mod permitting;
mod plain;
mod read_write;
mod reentrant;
mod renewals;
mod replies;
pub(crate) mod semaphore;

pub(crate) use self::{
    args::{ScriptArgs, Wish},
    combine::{Part, combine, combined},
    contract::{Order, Protocol},
    counting::{Countable, RequestArgs, cancelled, number_of},
    kind::Side,
    permitting::{Permitting, Taken, taken},
    read_write::MESSAGES_OF_A_WRITER,
    renewals::{Renew, renew, renew_apart},
    replies::{
        AcquireReply, Extended, Forced, Reentry, Renewed, Snapshot, Timely, done, extended, forced,
        inspected, reentered, released, renewed, token,
    },
};
