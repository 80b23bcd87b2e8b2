//! [`Attempts`]: lets one caller at a time connect to a server that serves no slot yet. The others wait for its
//! result.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Mutex as AsyncMutex;

use crate::{warnings::Warnings, wire::deployment::Address};

/// The attempts of one client to connect to such servers.
#[derive(Default)]
pub(super) struct Attempts {
    /// Each is locked while the server at its address is connected to: one that is silent keeps
    /// nobody from another.
    under_way: Mutex<BTreeMap<Address, Arc<AsyncMutex<()>>>>,
    pub(super) warnings: Warnings,
}

impl Attempts {
    /// To be locked during an attempt.
    pub(super) fn at(&self, address: &Address) -> Arc<AsyncMutex<()>> {
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.retain(|_, attempt| Arc::strong_count(attempt) > 1);
        under_way.entry(address.clone()).or_default().clone()
    }
}
