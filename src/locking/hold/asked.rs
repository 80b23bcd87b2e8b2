//! Whether somebody asks the caller of a hold to release it.

use super::{Hold, listener::Listener};
use crate::determinism::select;

impl Hold {
    /// Completes when somebody has asked. The first call begins to listen, until the hold ends.
    pub(crate) async fn asked_to_release(&self) {
        select! {
            () = self.listener().asked() => {}
            // It may have a successor by then.
            _ = self.open.acquire() => self.or_successor().listener().asked().await,
        }
    }

    /// Whether somebody has, as far as known. The first call begins to listen.
    pub(crate) fn is_asked_to_release(&self) -> bool {
        self.listener().is_asked()
    }

    fn listener(&self) -> &Listener {
        self.listener.get_or_init(|| Box::new(Listener::start(&self.target, &self.lease)))
    }
}
