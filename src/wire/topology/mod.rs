//! Which server serves a key: [`router`] knows it, [`discover`] asks for it, [`mod@refresh`] keeps it up
//! to date. [`news`] decides which sentinels are believed after a failover.

mod channels;
mod discover;
mod news;
mod refresh;
mod router;
mod slots;

pub(super) use self::{
    channels::group_by_node,
    discover::{Discovery, ServerMap},
    refresh::refresh,
    router::{Router, Routes, connect_all},
    slots::{ALL_SLOTS, slot_of},
};
