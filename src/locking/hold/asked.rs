//! Hears whether somebody asks the caller of a hold to release it. `lock/asking.rs` asks.

use super::{Hold, listener::Listener};

impl Hold {
    /// Completes when somebody has asked. The first call begins to listen, until the hold ends.
    pub(crate) async fn asked_to_release(&self) {
        self.listener().asked().await;
    }

    /// Whether somebody has, as far as known. The first call begins to listen.
    pub(crate) fn is_asked_to_release(&self) -> bool {
        self.listener().is_asked()
    }

    fn listener(&self) -> &Listener {
        self.listener.get_or_init(|| Box::new(Listener::start(&self.target, &self.lease)))
    }
}
