//! Hash maps, `select!`, watch channels and UUIDs: the ordinary ones in production, seeded ones in
//! unit tests.
//!
//! A simulated run must be the same each time. Unit tests therefore draw everything from the
//! generator that `fastrand::seed` seeds, and their maps have one order.

use std::hash::{BuildHasherDefault, Hasher};

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

/// By numbers that this client has counted itself.
pub(crate) type NumberMap<V> = dashmap::DashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// A hash of one number, for maps whose keys no stranger chooses.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        // Neighbours get different high bits, by which a map chooses its shard.
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}
