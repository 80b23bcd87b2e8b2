//! Asks the holders of a [`Lock`] whether they would release it. `guard/asked.rs` hears it.

use tokio::time::Instant;

use super::{Lock, check_sides};
use crate::{
    error::Error,
    protocol::{self, Side, asking},
};

/// The answer to [`Lock::ask_to_release`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Asked {
    /// Nobody holds the lock, so nobody was asked.
    Free,
    /// The holders were asked.
    #[non_exhaustive]
    Sent {
        /// How many holders were asked: more than one only of readers.
        holders: u64,
        /// How many clients got the message: those with a guard of the lock that listens. 0: no
        /// holder listens now. One that begins to within 10 min learns of it. Redisson never does.
        listening: u64,
    },
}

impl Asked {
    /// Whether a client got the message.
    #[must_use]
    pub fn is_heard(self) -> bool {
        matches!(self, Self::Sent { listening: 1.., .. })
    }
}

impl<G> Lock<G> {
    /// Asks the present holder to release the lock, and returns without waiting for that. Curator
    /// calls it a revocation.
    ///
    /// The holder learns of it by
    /// [`LockGuard::asked_to_release`](crate::LockGuard::asked_to_release), if it listens. It
    /// decides, and nothing is taken from it. Redisson, and other clients of a
    /// [plain lock](crate::Client::plain_lock), cannot hear the question.
    ///
    /// The question is for the hold that is seen now. If the lock is not released, because the
    /// holder does not listen or another one got the lock meanwhile, it may be asked again.
    ///
    /// - The read side asks all readers, the write side the writer. If there are more than 10,000
    ///   readers, only those that an [inspection](crate::Inspection::more_holders) lists are asked.
    ///   [`ReadWriteLock::ask_to_release`](crate::ReadWriteLock::ask_to_release) asks both.
    /// - A hold that is [handed off](crate::Config::reuse_holds) within a process keeps its id. The next
    ///   caller does not hear a question to the one before, unless it came within the milliseconds
    ///   around the hand-off.
    ///
    /// # Errors
    /// - [`Error::Redis`] when the server does not answer within
    ///   [`Config::command_timeout`](crate::Config::command_timeout), or refuses. The holder may have
    ///   been asked. Nothing is sent twice.
    /// - [`Error::WrongKind`], [`Error::Invalid`], [`Error::Closed`].
    ///
    /// # Cancel safety
    /// If it is dropped before its end, the holder may or may not have been asked.
    ///
    /// # Examples
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn f(client: redisson_lock::Client) -> Result<(), redisson_lock::Error> {
    /// let lock = client.lock("reindex");
    /// let guard = loop {
    ///     lock.ask_to_release().await?;
    ///     // Again, because another holder may get it before.
    ///     if let Some(guard) = lock.try_lock().wait(Duration::from_secs(30)).await? {
    ///         break guard;
    ///     }
    /// };
    /// # drop(guard); Ok(())
    /// # }
    /// ```
    pub async fn ask_to_release(&self) -> Result<Asked, Error> {
        let side = self.state()?.target.kind.side();
        self.ask(side).await
    }

    /// Asks the holders on this side. [`Side::Whole`]: on both.
    pub(crate) async fn ask(&self, side: Side) -> Result<Asked, Error> {
        let target = &self.state()?.target;
        let doing = "asking the holder of";
        let by = Instant::now() + target.engine.settings.command_timeout;
        let seen = target.ask_by(target.protocol.inspect(), by).await;
        let seen = seen.map_err(target.with_context(doing))?;
        let seen = protocol::inspected(seen).map_err(target.explain(doing))?;
        if seen.is_free() {
            return Ok(Asked::Free);
        }
        check_sides(&seen, target)?;
        let mut holders = seen.holders(seen.has_sides());
        holders.retain(|holder| match side {
            Side::Whole | Side::Token => true,
            Side::Read => holder.shares,
            Side::Write => !holder.shares,
        });
        if holders.is_empty() {
            return Ok(Asked::Free);
        }
        let ask = asking::ask(target.name(), holders.iter().map(|holder| &*holder.id));
        let reply = target.ask_by(ask, by).await.map_err(target.with_context(doing))?;
        let listening = asking::told(&reply).map_err(target.explain(doing))?;
        Ok(Asked::Sent { holders: holders.len() as u64, listening })
    }
}
