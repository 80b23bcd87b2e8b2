//! Hash maps, `select!`, watch channels and UUIDs: the ordinary ones in production, seeded ones in
//! unit tests.
//!
//! A simulated run must be the same each time. Unit tests therefore draw everything from the
//! generator that `fastrand::seed` seeds, and their maps have one order.

#[cfg(not(test))]
mod by_chance {
    pub(crate) use std::collections::hash_map::RandomState as MapState;

    pub(crate) use tokio::{select, sync::watch};

    pub(crate) fn uuid() -> uuid::Uuid {
        uuid::Uuid::new_v4()
    }
}

#[cfg(test)]
mod by_seed {
    use std::{collections::hash_map::DefaultHasher, hash::BuildHasherDefault};

    pub(crate) type MapState = BuildHasherDefault<DefaultHasher>;

    pub(crate) fn uuid() -> uuid::Uuid {
        uuid::Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes()).into_uuid()
    }

    /// `tokio::select!` without `biased;` begins with a random branch. Here it is drawn by fastrand.
    macro_rules! select {
        (biased; $($branches:tt)*) => { tokio::select!(biased; $($branches)*) };
        ($($branches:tt)*) => {
            tokio::select!(@{ start={ fastrand::u32(0..BRANCHES) }; () } $($branches)*)
        };
    }
    pub(crate) use select;
}

#[cfg(not(test))]
pub(crate) use by_chance::{MapState, select, uuid, watch};
#[cfg(test)]
pub(crate) use by_seed::{MapState, select, uuid};

#[cfg(test)]
pub(crate) mod watch;

pub(crate) type DashMap<K, V> = dashmap::DashMap<K, V, MapState>;
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, MapState>;
