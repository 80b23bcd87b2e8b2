//! [`Copies`]: the copies of one request, sent one after the other until one is answered.

use futures::{FutureExt, future::BoxFuture};
use tokio::time::Instant;

use crate::{
    engine::{Backoff, Engine},
    error::Error,
    locking::request::within,
    wire::WireError,
};

/// The copies of one request, and the bound of each.
///
/// A copy that is sent at the beginning of a call has its own bound, the command timeout. Any other
/// copy has what is left of the time for retries. A call ends at the later of these bounds.
pub(crate) struct Copies {
    sent: Instant,
    retry_until: Instant,
    /// Whether the current copy is sent at the beginning of the call.
    is_prompt: bool,
    backoff: Backoff,
    /// Why the copy before had no answer.
    failed: Option<WireError>,
}

impl Copies {
    /// For a call that begins at `now`.
    pub(crate) fn new(now: Instant, retry_until: Instant) -> Self {
        Self { sent: now, retry_until, is_prompt: true, backoff: Backoff::new(), failed: None }
    }

    /// For a call that begins now, or that began at `since` and has waited for something else.
    /// `retry_until`: until when a call may repeat the request, by when it began.
    pub(crate) fn since(
        since: Option<Instant>,
        retry_until: impl FnOnce(Instant) -> Instant,
    ) -> Self {
        match since {
            None => {
                let now = Instant::now();
                Self::new(now, retry_until(now))
            }
            Some(begun) => Self::new(begun, retry_until(begun)).after_a_wait(),
        }
    }

    /// For the same call, which has waited for something else.
    pub(crate) fn after_a_wait(self) -> Self {
        Self { sent: Instant::now(), is_prompt: false, ..self }
    }

    /// Until when the request may be repeated.
    pub(crate) fn retry_until(&self) -> Instant {
        self.retry_until
    }

    /// When the current copy is sent.
    pub(crate) fn sent(&self) -> Instant {
        self.sent
    }

    /// Sends the current copy, and waits for its answer within its bound. If the time is over, the
    /// copy may have run, and the error is that of the copy before. `copy` is sent at its first poll.
    pub(crate) fn send<T>(
        &self,
        copy: impl Future<Output = Result<T, WireError>>,
    ) -> impl Future<Output = Result<T, WireError>> {
        let bound = (!self.is_prompt).then_some(self.retry_until);
        within(bound, copy).map(|answer| answer.unwrap_or_else(|| Err(self.unanswered())))
    }

    /// The current copy was not answered within its bound.
    fn unanswered(&self) -> WireError {
        match &self.failed {
            Some(why) => why.clone().into_unanswered(),
            None => WireError::unanswered("no answer in time"),
        }
    }

    /// Prepares the next copy, after a pause. Fails if the error is final, or no time is left.
    pub(crate) async fn again(
        &mut self,
        error: WireError,
        engine: &Engine,
    ) -> Result<(), WireError> {
        self.failed = Some(error.clone());
        engine.retry_unless_refused(error, &mut self.backoff, self.retry_until).await?;
        self.sent = Instant::now();
        self.is_prompt = false;
        Ok(())
    }

    /// The same, with the error for the caller. `key`: what the request is about. Boxed, because it is
    /// rare.
    pub(crate) fn again_for<'a>(
        &'a mut self,
        error: WireError,
        engine: &'a Engine,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), Error>> {
        async move { self.again(error, engine).await.map_err(|error| error.into_error(key)) }
            .boxed()
    }
}
