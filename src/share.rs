//! [`Share`]: one of the times a hold is held.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures::FutureExt;

use crate::{error::Error, hold::Hold, patience::Patience};

/// One of the times a hold is held. Dropping it gives it back.
#[derive(Debug)]
pub struct Share {
    hold: Arc<Hold>,
    watched: bool,
    armed: bool,
}

impl Share {
    pub(crate) fn new(hold: Arc<Hold>, watched: bool) -> Self {
        hold.shares.fetch_add(1, Ordering::Relaxed);
        Self { hold, watched, armed: true }
    }

    pub(crate) fn hold(&self) -> &Arc<Hold> {
        &self.hold
    }

    /// Makes the hold last for so long from now on, if it does not last longer; goes on in the
    /// background if it is dropped.
    pub(crate) async fn prolong(&self, lease: Duration, patience: Patience) -> Result<(), Error> {
        let janitor = &self.hold.entry.engine.janitor;
        janitor.finish(self.hold.clone().prolong(lease, patience)).await
    }

    /// Gives it back; goes on in the background if it takes too long, or is dropped.
    pub(crate) async fn release(mut self) -> Result<(), Error> {
        self.armed = false;
        self.hold.shares.fetch_sub(1, Ordering::Relaxed);
        let hold = self.hold.clone();
        let janitor = hold.entry.engine.janitor.clone();
        janitor.finish(hold.release(self.watched)).await
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.armed {
            self.hold.shares.fetch_sub(1, Ordering::Relaxed);
            let hold = self.hold.clone();
            let release =
                self.hold.clone().release(self.watched).map(move |released| match released {
                    Ok(()) | Err(Error::Closed) => {}
                    Err(error) => {
                        let lock = hold.entry.name();
                        tracing::warn!(lock, %error, "release of a dropped guard");
                    }
                });
            self.hold.entry.engine.janitor.spawn(release);
        }
    }
}
