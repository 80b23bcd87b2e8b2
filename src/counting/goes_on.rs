//! A request of a counter whose future was dropped, or that must succeed in the end, such as a return of permits, is
//! repeated in the background. The janitor runs it.

use std::sync::Arc;

use tokio::time::Instant;

use super::{counter::Counter, once::Once};
use crate::{
    engine::Backoff,
    error::Error,
    protocol::{Countable, RequestArgs, Timely},
    sometimes::sometimes,
    wire::{Invocation, Reply, WireError},
};

impl<P: Countable> Counter<P> {
    /// Returns the error for the caller of a request that must be done in the end. The request goes
    /// on in the background, unless the key is of another type, or the client is closed.
    pub(super) fn goes_on<T: Send + 'static>(
        self: Arc<Self>,
        request: Once,
        call: impl Fn(&P, &RequestArgs<'_>) -> Invocation + Send + Sync + 'static,
        read: fn(Reply) -> Result<Timely<T>, WireError>,
        error: WireError,
    ) -> Error {
        if self.engine.is_closed() {
            return Error::Closed;
        }
        let told = error.clone().into_error(self.name());
        if !matches!(error, WireError::WrongType) {
            let janitor = self.engine.janitor.clone();
            janitor.spawn(async move { self.persist(request, call, read, error).await });
        }
        told
    }

    /// Repeats a request after any error, the first of which is this.
    async fn persist<T>(
        &self,
        mut request: Once,
        call: impl Fn(&P, &RequestArgs<'_>) -> Invocation,
        read: fn(Reply) -> Result<Timely<T>, WireError>,
        mut error: WireError,
    ) {
        sometimes!("a counted request goes on in the background");
        let engine = &self.engine;
        let give_up = request.repeatable_until();
        let mut backoff = Backoff::persistent();
        while !engine.is_closed() && Instant::now() < give_up {
            let sent = Instant::now();
            let (copy, settled) = self.copy(&mut request, sent, &call);
            let answer = engine.call(copy, sent).await.and_then(read);
            let Err(failed) = self.read(&mut request, settled, answer) else { return };
            if let Err(last) = engine.retry_even_if_refused(failed, &mut backoff, give_up).await {
                error = last;
                break;
            }
        }
        if !engine.is_closed() {
            let (what, name) = (P::WHAT, self.name());
            log!(warn, what, name, %error, "a change was given up");
        }
    }
}
