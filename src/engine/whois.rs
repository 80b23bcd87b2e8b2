//! [`Whois`]: reads what the clients behind some holder ids announce about themselves.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{StreamExt, stream};
use tokio::time::{Instant, timeout_at};

use crate::{
    names,
    owner::client_of,
    protocol::announcement::{Announcement, announced, field, read},
    redis_error::RedisErrorKind::NoPermission,
    wire::{Transport, WireError},
};

/// The most announcements in one call. It bounds how long the server serves no other client.
const BATCH: usize = 100;

/// The most calls under way. In a cluster the announcements are in many slots.
const AT_ONCE: usize = 16;

/// The most holds that one question asks about. The others stay unknown.
pub(crate) const MOST_ASKED: usize = 2_000;

/// After a refusal nothing is asked for this time.
const PAUSE: Duration = Duration::from_secs(60);

/// Asks what clients announce.
#[derive(Debug)]
pub(super) struct Whois {
    client: Box<str>,
    /// Whether this client announces itself.
    announces: bool,
    /// When it was last refused.
    refused: Mutex<Option<Instant>>,
}

impl Whois {
    pub(super) fn new(client: &str, announces: bool) -> Self {
        Self { client: client.into(), announces, refused: Mutex::default() }
    }

    fn refused(&self) -> MutexGuard<'_, Option<Instant>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks about these holds: holder ids, and the locks' keys. `None` where nothing is announced,
    /// or nothing can be read by this moment.
    pub(super) async fn ask(
        &self,
        transport: &Arc<dyn Transport>,
        holds: &[(&str, &str)],
        by: Instant,
    ) -> Vec<Option<Announcement>> {
        let mut found = vec![None; holds.len()];
        if self.refused().is_some_and(|at| at.elapsed() < PAUSE) {
            return found;
        }
        // Keys of one slot, with their fields and their places in the answer.
        let mut slots = BTreeMap::<u16, Vec<(usize, (String, String))>>::new();
        for (at, (holder, lock)) in holds.iter().enumerate().take(MOST_ASKED) {
            let Some(((client, _), field)) = client_of(holder).zip(field(holder, lock)) else {
                continue;
            };
            if client == &*self.client && !self.announces {
                continue;
            }
            let key = names::announcement(client);
            slots.entry(transport.slot(key.as_bytes())).or_default().push((at, (key, field)));
        }
        let batches = slots
            .into_values()
            .flat_map(|asked| asked.chunks(BATCH).map(<[_]>::to_vec).collect::<Vec<_>>());
        let asking = batches.map(|batch| async move {
            let (places, asked): (Vec<_>, Vec<_>) = batch.into_iter().unzip();
            (places, ask(transport, &asked, by).await)
        });
        let mut answers = stream::iter(asking).buffer_unordered(AT_ONCE);
        while let Some((places, answer)) = answers.next().await {
            match answer {
                Ok(announcements) => {
                    for (at, one) in places.into_iter().zip(announcements) {
                        found[at] = one;
                    }
                }
                Err(error) => {
                    log!(debug, %error, "announcements cannot be read");
                    if matches!(&error, WireError::Refused(why) if why.kind() == NoPermission) {
                        *self.refused() = Some(Instant::now());
                    }
                }
            }
        }
        found
    }
}

async fn ask(
    transport: &Arc<dyn Transport>,
    asked: &[(String, String)],
    by: Instant,
) -> Result<Vec<Option<Announcement>>, WireError> {
    let reply = timeout_at(by, transport.call_by(read(asked), by)).await;
    announced(&reply.map_err(|_| WireError::unanswered("no answer in time"))??)
}
