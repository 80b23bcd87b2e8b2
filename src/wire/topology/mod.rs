//! Which server serves a key: how that is found, kept up to date, and followed by a call.

mod channels;
mod discover;
mod refresh;
mod router;
mod slots;

pub(super) use self::{
    channels::group_by_node,
    discover::{Discovery, ServerMap},
    refresh::refresh,
    router::{Router, Routes, connect_all},
    slots::ALL_SLOTS,
};
