//! [`LateSources`]: connections to sources that were slower than most.

use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{Stream, StreamExt};

use crate::wire::{answers::Failure, deployment::Address, session::Session};

type Source = (Address, Arc<Session>);

/// The connections of sources that have answered too late. They are worth keeping for the next time.
#[derive(Clone, Default)]
pub(super) struct LateSources(Arc<Mutex<Vec<Source>>>);

impl LateSources {
    /// Waits for the answers of the others.
    pub(super) async fn hear_out<V>(
        self,
        mut asking: impl Stream<Item = (Address, Result<(V, Arc<Session>), Failure>)> + Unpin,
    ) {
        while let Some((address, answer)) = asking.next().await {
            if let Ok((_, session)) = answer {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).push((address, session));
            }
        }
    }

    pub(super) fn take(&self) -> Vec<Source> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
