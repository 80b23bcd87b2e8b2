//! [`Holding`]: the lock of a command.

use std::{borrow::Cow, time::Duration};

use redisson_lock::{Client, Error, FencedGuard, LockGuard, Loss};
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    args::{Kind, Run},
    outcome::Failure,
};

/// The longest time before the end of trust at which the command is told to end.
const LONGEST_MARGIN: Duration = Duration::from_secs(2);

/// The lock of a command, held.
#[derive(Debug)]
pub(crate) struct Holding {
    guard: Guard,
    margin: Duration,
    /// How often to ask for a hold that no renewal asks for.
    looks: Option<Duration>,
}

#[derive(Debug)]
enum Guard {
    Plain(LockGuard),
    Fenced(FencedGuard),
}

impl Holding {
    /// Waits for the lock. `None`: it was not got in time.
    pub(crate) async fn acquire(
        client: &Client,
        args: &Run,
        watchdog: Duration,
    ) -> Result<Option<Self>, Failure> {
        let name = &args.name;
        let guard = match args.kind {
            Kind::Fenced => {
                let lock = client.fenced_lock(name);
                acquire(&lock, args).await?.map(Guard::Fenced)
            }
            kind => {
                let sides = client.read_write_lock(name);
                let lock = match kind {
                    Kind::Fair => client.fair_lock(name),
                    Kind::Read => sides.read_lock().clone(),
                    Kind::Write => sides.write_lock().clone(),
                    Kind::Spin => client.spin_lock(name),
                    Kind::Plain => client.plain_lock(name),
                    Kind::Lock | Kind::Fenced => client.lock(name),
                };
                acquire(&lock, args).await?.map(Guard::Plain)
            }
        };
        let margin = margin(args.lease.unwrap_or(watchdog));
        let looks = args.lease.map(|lease| (lease / 3).min(watchdog / 3));
        let holding = guard.map(|guard| Self { guard, margin, looks });
        if let Some(holding) = &holding {
            holding.guard().note(note(args));
        }
        Ok(holding)
    }

    pub(crate) fn guard(&self) -> &LockGuard {
        match &self.guard {
            Guard::Plain(guard) => guard,
            Guard::Fenced(guard) => guard,
        }
    }

    pub(crate) fn token(&self) -> Option<u64> {
        match &self.guard {
            Guard::Plain(_) => None,
            Guard::Fenced(guard) => Some(guard.token().value()),
        }
    }

    /// When the command has to be told to end, as things stand.
    pub(crate) fn ends_at(&self) -> Instant {
        Instant::now() + self.guard().remaining().saturating_sub(self.margin)
    }

    /// How long the command then has until it is killed. As long again is left for that.
    pub(crate) fn last_grace(&self) -> Duration {
        self.margin / 2
    }

    /// The part of the trusted time that the standby leaves to the kill.
    pub(crate) fn standby_margin(&self) -> Duration {
        self.margin / 3
    }

    /// Waits for the loss.
    pub(crate) async fn lost(&self) -> Loss {
        let Some(pause) = self.looks else { return self.guard().lost().await };
        tokio::select! {
            why = self.guard().lost() => why,
            why = self.found_lost(pause) => why,
        }
    }

    /// Waits for the loss, or until the command has to be told to end.
    pub(crate) async fn untrusted(&self) -> Loss {
        let no_renewal = async {
            while self.ends_at() > Instant::now() {
                sleep_until(self.ends_at()).await;
            }
            Loss::Expired
        };
        tokio::select! {
            biased;
            why = self.lost() => why,
            why = no_renewal => why,
        }
    }

    async fn found_lost(&self, pause: Duration) -> Loss {
        loop {
            sleep(pause).await;
            if let Err(Error::NotHeld { why }) = self.guard().check().await {
                return why;
            }
        }
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self.guard {
            Guard::Plain(guard) => guard.unlock().await,
            Guard::Fenced(guard) => guard.unlock().await,
        }
    }

    /// Releases it in the background, if it is still held.
    pub(crate) fn abandon(self) {}
}

/// What operators are shown. The arguments of the command may be secrets.
fn note(args: &Run) -> Cow<'_, str> {
    match &args.note {
        Some(note) => note.into(),
        None => args.command[0].to_string_lossy(),
    }
}

/// How long before the end of trust the command is told to end.
fn margin(lease: Duration) -> Duration {
    (lease / 6).min(LONGEST_MARGIN)
}

async fn acquire<G: redisson_lock::SingleGuard>(
    lock: &redisson_lock::Lock<G>,
    args: &Run,
) -> Result<Option<G>, Error> {
    match args.wait {
        None => {
            let mut acquire = lock.lock();
            if let Some(lease) = args.lease {
                acquire = acquire.lease(lease);
            }
            acquire.await.map(Some)
        }
        Some(wait) => {
            let mut acquire = lock.try_lock();
            if !wait.is_zero() {
                acquire = acquire.wait(wait);
            }
            if let Some(lease) = args.lease {
                acquire = acquire.lease(lease);
            }
            acquire.await
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_is_a_sixth_of_the_lease_and_two_seconds_at_most() {
        assert_eq!(margin(Duration::from_secs(6)), Duration::from_secs(1));
        assert_eq!(margin(Duration::from_secs(30)), Duration::from_secs(2));
    }
}
