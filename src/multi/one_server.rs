//! Whether two clients of a list lead to one server, whose URL they spell differently.

use std::time::Duration;

use futures::FutureExt;
use tokio::time::timeout;

use crate::{error::Error, lock::Lock, locking::share::Share};

/// Asks the server of a lock that was refused whether it was refused because of what this call holds
/// itself: a lock of the same name, whose holder id is there. That is an error. Takes `limit` at most. Returns
/// whether the server has answered, if it had to be asked.
pub(super) async fn must_be_several(
    refused: &Lock,
    held: impl IntoIterator<Item = &Share>,
    limit: Duration,
) -> Result<bool, Error> {
    let state = refused.state()?;
    let (name, server) = (state.name(), &state.target.engine.settings.server);
    let holds = held.into_iter().map(Share::hold);
    let namesakes: Vec<_> = holds.filter(|hold| hold.target.name() == name).collect();
    if namesakes.is_empty() {
        return Ok(true);
    }
    let Ok(Ok(seen)) = timeout(limit, refused.inspect_all().boxed()).await else {
        return Ok(false);
    };
    let is_there = |id: &str| seen.holders.iter().any(|holder| holder.id == id);
    match namesakes.into_iter().find(|hold| is_there(hold.id().as_str())) {
        None => Ok(true),
        Some(hold) => {
            let same = &hold.target.engine.settings.server;
            let what =
                format!("the lock {name:?} is named twice: {same} and {server} are one server");
            Err(Error::Invalid(what))
        }
    }
}
