//! The queries of a [`Lock`]: whether it is held, for how long, and by whom.

use tokio::time::Instant;

use super::Lock;
use crate::{
    error::Error,
    inspection::{Access, Inspection, Remaining},
    observer::LockKind,
    protocol,
};

impl<G> Lock<G> {
    /// Asks the server whether the lock is held.
    ///
    /// # Errors
    /// [`Error::Redis`] when the server does not answer within
    /// [`Config::command_timeout`](crate::Config::command_timeout), or refuses;
    /// [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.inspect_side().await?.is_locked())
    }

    /// Asks the server how long the lock stays held if it is neither released nor renewed.
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn ttl(&self) -> Result<Remaining, Error> {
        Ok(self.inspect_side().await?.remaining)
    }

    /// Asks the server who holds the lock, how often, and for how long. For a fair lock it also
    /// returns the waiters.
    ///
    /// A second request asks what the holders' clients [announce](crate::Config::announce). It may
    /// take as long as the first. Without an answer the holders are shown without it.
    ///
    /// One side of a read/write lock shows its own holders only. [`ReadWriteLock::inspect`] shows
    /// both sides. If something else has this name, it is shown as far as it can be read: ids are cut
    /// at 128 bytes, and a value that is no count is shown as 0. A part of a very large hash is read:
    /// see [`Inspection::more_holders`].
    ///
    /// [`ReadWriteLock::inspect`]: crate::ReadWriteLock::inspect
    ///
    /// # Errors
    /// As [`is_locked`](Lock::is_locked).
    ///
    /// # Cancel safety
    /// May be dropped at any time.
    pub async fn inspect(&self) -> Result<Inspection, Error> {
        let seen = self.inspect_side().await?;
        self.with_announced(seen).await
    }

    /// Asks the server for this side's holders, without what their clients announce.
    async fn inspect_side(&self) -> Result<Inspection, Error> {
        let kind = self.state()?.target.kind;
        let mut seen = self.inspect_key().await?;
        let access = match kind {
            LockKind::Read => Access::Shared,
            _ => Access::Exclusive,
        };
        seen.holders.retain(|holder| holder.access == access);
        if seen.holders.is_empty() {
            seen.remaining = Remaining::Free;
        }
        Ok(seen)
    }

    /// Asks the server for the holders of both sides of a read/write lock, with what their clients
    /// announce.
    pub(crate) async fn inspect_all(&self) -> Result<Inspection, Error> {
        let seen = self.inspect_key().await?;
        self.with_announced(seen).await
    }

    /// Adds what the holders' clients have announced. Without an answer nothing is added.
    async fn with_announced(&self, mut seen: Inspection) -> Result<Inspection, Error> {
        let target = &self.state()?.target;
        let by = Instant::now() + target.engine.settings.command_timeout;
        let holds = seen.holders.iter().map(|holder| (&*holder.id, target.name()));
        let announced = target.engine.whois(&holds.collect::<Vec<_>>(), by).await;
        seen.announced(announced);
        Ok(seen)
    }

    /// Asks the server for all holders that the key names, without what their clients announce.
    async fn inspect_key(&self) -> Result<Inspection, Error> {
        let state = self.state()?;
        let target = &state.target;
        let reply = target.ask(target.protocol.inspect()).await;
        let reply = reply.map_err(target.with_context("inspecting"))?;
        let snapshot = protocol::inspected(reply).map_err(target.explain("inspecting"))?;
        Ok(Inspection::new(snapshot, target.kind, target.engine.identity.client()))
    }
}
