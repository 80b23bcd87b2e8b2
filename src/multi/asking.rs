//! Asks the holders of several locks whether they would release them. `guard/asked.rs` hears it.

use futures::future::join_all;

use super::{MultiLock, Rule};
use crate::{error::Error, lock::Asked};

impl MultiLock {
    /// Asks the present holders of all locks to release them, each by itself and all at the same
    /// time: see [`Lock::ask_to_release`](crate::Lock::ask_to_release). The answers are added up, so
    /// a guard that holds three of the locks counts three times. It hears the question by
    /// [`MultiGuard::asked_to_release`](crate::MultiGuard::asked_to_release).
    ///
    /// # Errors
    /// As [`Lock::ask_to_release`](crate::Lock::ask_to_release) for any of the locks; for a majority,
    /// only when too few servers are left. The others were asked all the same. [`Error::Invalid`] when
    /// the list of locks cannot be used.
    ///
    /// # Cancel safety
    /// If it is dropped before its end, any of the holders may or may not have been asked.
    pub async fn ask_to_release(&self) -> Result<Asked, Error> {
        let locks = self.in_order()?;
        let spare = match self.rule {
            Rule::All => 0,
            Rule::Majority => (locks.len() - 1) / 2,
        };
        let (mut all, mut listen, mut failed) = (0, 0, Vec::new());
        for answer in join_all(locks.iter().map(|lock| lock.ask_to_release())).await {
            match answer {
                Ok(Asked::Free) => {}
                Ok(Asked::Sent { holders, listening }) => {
                    all += holders;
                    listen += listening;
                }
                Err(error) => failed.push(error),
            }
        }
        match failed.into_iter().nth(spare) {
            Some(error) => Err(error),
            None if all == 0 => Ok(Asked::Free),
            None => Ok(Asked::Sent { holders: all, listening: listen }),
        }
    }
}
