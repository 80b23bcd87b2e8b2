//! [`LateSources`]: the answers of nodes or sentinels that came after the majority had decided.

use std::sync::{Arc, Mutex, PoisonError};

use futures::stream::{Stream, StreamExt};

use super::slots::View;
use crate::wire::{answers::Failure, deployment::Address, session::Session};

type Answer = (Address, Option<Result<(View, Arc<Session>), Failure>>);
type LateAnswer = (Address, View, Arc<Session>);

/// The answers that have come too late, and their connections. They are kept for the next time: a source that is
/// always slow may be the one that knows the last owners of slots.
#[derive(Clone, Default)]
pub(super) struct LateSources(Arc<Mutex<Vec<LateAnswer>>>);

impl LateSources {
    /// Waits for the answers of the others.
    pub(super) async fn hear_out(self, mut asking: impl Stream<Item = Answer> + Unpin) {
        while let Some((address, answer)) = asking.next().await {
            if let Some(Ok((view, session))) = answer {
                let mut late = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                late.push((address, view, session));
            }
        }
    }

    pub(super) fn take(&self) -> Vec<LateAnswer> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
