//! Which server serves a key: [`router`] knows it, [`discover`] asks for it, [`mod@refresh`] keeps it up
//! to date. [`failover_epoch`] decides which sentinels are believed after a failover,
//! [`cluster_identity`] and [`sentinel_identity`] who belongs to the deployment. [`source`] asks one of
//! them, [`sentinels`] reads what a sentinel says, [`slots`] what a node says. [`late_sources`] keeps
//! what slow ones answer, [`recent_claims`] the last owners of slots, [`addresses`] where nodes have answered. [`attempts`] lets one caller at a time
//! connect to a server, [`sharding`] asks whether a cluster has sharded channels. [`identity`] is either of the
//! two identities. [`channels`] knows on which server each channel is subscribed.

mod addresses;
mod attempts;
mod channels;
mod cluster_identity;
mod discover;
mod failover_epoch;
mod identity;
mod late_sources;
mod recent_claims;
mod refresh;
mod router;
mod sentinel_identity;
mod sentinels;
mod sharding;
mod slots;
mod source;

pub(super) use self::{
    channels::group_by_node,
    discover::{Discovery, ServerMap},
    refresh::{ask_again, refresh},
    router::{Patience, Router, Routes, connect_all},
    slots::{ALL_SLOTS, slot_of},
};
