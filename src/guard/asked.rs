//! Hears the question whether a hold could be released. `lock/asking.rs` asks it.

use super::LockGuard;

impl LockGuard {
    /// Waits until somebody asks for this hold, by
    /// [`Lock::ask_to_release`](crate::Lock::ask_to_release) in any process. The caller decides what
    /// to do: nothing is taken from it.
    ///
    /// It completes at once if the hold was asked for before. Questions to other holds of the lock
    /// do not count, earlier and later ones of the same [`Owner`](crate::Owner) included. All guards
    /// of one owner's hold are asked together.
    ///
    /// It does not complete when the hold is lost, or the client closed: await it within
    /// [`while_held`](LockGuard::while_held), or beside [`lost`](LockGuard::lost).
    ///
    /// # What it costs
    /// The first poll begins to listen, until the hold ends: one subscription for each lock and
    /// client, and one request for each hold. One more request every 10 s makes up for a lost
    /// message, or every 3 s while the client cannot subscribe. A guard that listens is released on
    /// the server: its hold is not [handed off](crate::Config::reuse_holds) locally.
    ///
    /// If the connection is lost, the question is read when it is back, if it was asked within the
    /// last 10 min. A refusal by the server, as for a missing right, is logged as a warning.
    ///
    /// # Cancel safety
    /// May be dropped and called again at any time. A question that came in between is not missed.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn page(number: u32) {}
    /// # async fn f(lock: redisson_lock::Lock) -> Result<(), redisson_lock::Error> {
    /// let guard = lock.lock().await?;
    /// let pages = async {
    ///     for number in 1..=1_000 {
    ///         page(number).await;
    ///         if guard.is_asked_to_release() {
    ///             return; // at a point where another can go on
    ///         }
    ///     }
    /// };
    /// guard.while_held(pages).await?;
    /// guard.unlock().await?;
    ///
    /// // Or at once, whatever the work does:
    /// # let work = async {};
    /// let guard = lock.lock().await?;
    /// let stopped = async {
    ///     tokio::select! {
    ///         () = work => {}
    ///         () = guard.asked_to_release() => {}
    ///     }
    /// };
    /// guard.while_held(stopped).await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn asked_to_release(&self) {
        self.share.hold().asked_to_release().await;
    }

    /// Returns whether somebody has asked for this hold, as far as known. Does no I/O.
    ///
    /// The first call begins to listen in the background, as
    /// [`asked_to_release`](LockGuard::asked_to_release) does, and returns `false`: call it early.
    #[must_use]
    pub fn is_asked_to_release(&self) -> bool {
        self.share.hold().is_asked_to_release()
    }
}
