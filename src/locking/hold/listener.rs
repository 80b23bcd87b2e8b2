//! [`Listener`]: listens for the question whether one hold could be released.
//!
//! A message says that somebody was asked, and the server's key says who. The key is read after each
//! subscription, so that nothing is missed before it, and now and then in any case.

use std::{
    future::pending,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};

use super::target::Target;
use crate::{
    determinism::{select, watch},
    engine::{ASK_AGAIN, Backoff, Lease},
    names,
    protocol::asking,
    wire::WireError,
};

/// How long a subscribed listener relies on messages. One may be lost in a cluster without sharded channels.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Server times are in whole ms.
const ROUNDED: Duration = Duration::from_millis(1);

/// What listens for one hold. Dropping it ends the subscription.
#[derive(Debug)]
pub(super) struct Listener {
    asked: watch::Receiver<bool>,
    task: AbortHandle,
}

impl Listener {
    pub(super) fn start(target: &Arc<Target>, lease: &Arc<Lease>) -> Self {
        let tell = watch::Sender::new(false);
        let asked = tell.subscribe();
        let (target, lease) = (target.clone(), lease.clone());
        let runtime = target.engine.life.runtime.clone();
        let task = runtime.spawn(async move {
            select! {
                () = listen(&target, &lease) => drop(tell.send_replace(true)),
                _ = lease.lost() => {}
            }
        });
        Self { asked, task: task.abort_handle() }
    }

    /// Completes when the hold was asked for.
    pub(super) async fn asked(&self) {
        let mut asked = self.asked.clone();
        // The hold is lost, or its client is closed.
        let is_over = asked.wait_for(|asked| *asked).await.is_err();
        if is_over {
            pending::<()>().await;
        }
    }

    /// Whether it was, as far as known.
    pub(super) fn is_asked(&self) -> bool {
        *self.asked.borrow()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Completes when the hold was asked for.
async fn listen(target: &Target, lease: &Lease) {
    let engine = &target.engine;
    let questions = names::questions(target.name());
    let mut subscription = engine.subscriptions.subscribe(&questions);
    let mut backoff = Backoff::persistent();
    loop {
        subscription.ready().await;
        subscription.arm();
        let answer = engine.transport.call(asking::asked(&questions, &lease.renew.id)).await;
        match answer.and_then(|reply| asking::asked_ago(&reply)) {
            Ok(Some(ago)) if is_for(lease, ago) => return,
            Ok(_) => backoff = Backoff::persistent(),
            Err(error @ (WireError::Unanswered(_) | WireError::NotNow(_))) => {
                log!(debug, lock = target.name(), %error, "questions are not read yet");
                sleep(backoff.next()).await;
                continue;
            }
            Err(error) if !engine.warned_of_unread_questions.swap(true, Ordering::Relaxed) => {
                log!(warn, lock = target.name(), %error, "questions to the holder cannot be read");
            }
            Err(_) => {}
        }
        let pause = if subscription.is_confirmed() { LOOK_AGAIN } else { ASK_AGAIN };
        let _ = timeout(pause, subscription.woken()).await;
    }
}

/// Whether a question that was asked so long ago, at least, is for the present caller of the hold.
/// If the clocks do not tell, it is.
fn is_for(lease: &Lease, ago: Duration) -> bool {
    // The id belongs to its first caller alone.
    let Some(adopted_at) = lease.adopted_at() else { return true };
    let asked = (Instant::now() + ROUNDED).checked_sub(ago);
    asked.is_some_and(|asked| asked >= adopted_at)
}
