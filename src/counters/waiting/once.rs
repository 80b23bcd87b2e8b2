//! [`Once`]: a request that counts once, however many copies of it are sent.

use std::time::Duration;

use tokio::time::Instant;

use crate::{engine::Engine, owner::HoldId};

/// How long the server keeps the id of a request of which a copy may be under way. A request that
/// has no answer after that time is given up.
pub(super) const KEPT: Duration = Duration::from_secs(600);

/// A request whose copies have the same id.
#[derive(Debug)]
pub(super) struct Once {
    pub(super) id: HoldId,
    begun: Instant,
    /// Server time in ms after which no copy may act, once one may have run. The clock of a server
    /// goes on while this process stands still.
    last: Option<u64>,
}

impl Once {
    /// A request that begins now.
    pub(super) fn new(id: HoldId) -> Self {
        Self { id, begun: Instant::now(), last: None }
    }

    /// Until when it may be repeated. The server keeps its id for longer than the last copy is of
    /// use.
    pub(super) fn repeatable_until(&self, engine: &Engine) -> Instant {
        self.begun + repeatable_for(engine)
    }

    /// Server time in ms after which a copy that is sent now must have no effect.
    pub(super) fn not_after(&self, engine: &Engine, key: &[u8], sent: Instant) -> u64 {
        engine.not_after(key, sent).min(self.last.unwrap_or(u64::MAX))
    }

    /// A copy that was sent then may have run. The server may know the id from then on.
    pub(super) fn may_have_run(&mut self, engine: &Engine, key: &[u8], sent: Instant) {
        let now = || engine.transport.time_at(key, sent);
        self.last.get_or_insert_with(|| now() + repeatable_for(engine).as_millis() as u64);
    }
}

/// How long after its first copy a request may be repeated.
pub(super) fn repeatable_for(engine: &Engine) -> Duration {
    KEPT.saturating_sub(2 * engine.settings.command_timeout)
}
