//! [`Settings`]: the values of a [`Config`](super::Config), checked.

use std::time::Duration;

use super::{About, Config};
use crate::{
    error::Error,
    observer::Observed,
    options::{Driver, Replicas, ShardedPubsub},
    wire::{Credentials, Deployment, Nat, PasswordFile, Servers, read_url},
};

/// The least and the greatest value of a setting.
pub(super) type Limits = (Duration, Duration);

const MS: Duration = Duration::from_millis(1);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) const WATCHDOG: Limits = (Duration::from_millis(100), DAY);
pub(super) const COMMAND_TIMEOUT: Limits = (Duration::from_millis(10), HOUR);
const RETRY_TIMEOUT: Limits = (Duration::from_millis(10), HOUR);
const FAIR_WAIT: Limits = (Duration::from_secs(1), HOUR);
pub(super) const REDISSON_FAIR_WAIT: Limits = (MS, DAY);

/// Checks that a value is within its limits. The error ends a sentence that begins with its name.
pub(super) fn within(value: Duration, (least, most): Limits) -> Result<Duration, String> {
    if value < least || value > most {
        return Err(format!("is {value:?}, but must be between {least:?} and {most:?}"));
    }
    Ok(value)
}

/// Cuts to whole milliseconds, the server's unit. A lease is trusted for no longer than the server
/// was told.
pub(crate) fn whole_ms(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64)
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// The name of the server or servers. It is equal for all clients that name them alike.
    pub(crate) server: String,
    pub(crate) driver: Driver,
    pub(crate) prefix: String,
    pub(crate) watchdog: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) retry_timeout: Duration,
    pub(crate) fair_wait: Duration,
    pub(crate) redisson_fair_wait: Duration,
    pub(crate) sharded_pubsub: ShardedPubsub,
    pub(crate) replicas: Replicas,
    pub(crate) replica_timeout: Duration,
    pub(crate) reuse_holds: bool,
    pub(crate) lazy_connect: bool,
    pub(crate) observer: Option<Observed>,
    /// What is announced about the client.
    pub(crate) about: Option<About>,
}

impl Config {
    /// What the URL says, with the credentials that were set beside it.
    pub(super) fn deployment(&self) -> Result<Deployment, Error> {
        let mut deployment = read_url(&self.url)?;
        let or = |username: &Option<String>, password: &Option<String>, url: &mut Credentials| {
            let said = Credentials { username: username.clone(), password: password.clone() };
            *url = said.or(std::mem::take(url)).complete();
        };
        let has_password = self.password.is_some() || self.password_file.is_some();
        let with_password = self.username_with_password.as_ref().filter(|_| has_password);
        let username = self.username.as_ref().or(with_password).cloned();
        or(&username, &self.password, &mut deployment.credentials);
        deployment.password_file = self.password_file.clone().map(PasswordFile::new);
        match &mut deployment.servers {
            Servers::Sentinels(_, _, credentials) => {
                or(&self.sentinel_username, &self.sentinel_password, credentials);
            }
            _ if self.sentinel_username.is_some() || self.sentinel_password.is_some() => {
                return Err(Error::Config(
                    "credentials for sentinels are set, but the URL is not a redis-sentinel:// URL"
                        .into(),
                ));
            }
            _ => {}
        }
        Ok(deployment)
    }

    pub(crate) fn into_settings(self) -> Result<(Deployment, Settings), Error> {
        let mut deployment = self.deployment()?;
        self.check_password_file()?;
        deployment.tls = self.tls_of_files(deployment.uses_tls)?;
        deployment.nat = Nat::read(&self.nat_map)?;
        let about = self.about()?;
        let within = |what, value, limits| {
            within(value, limits).map_err(|why| Error::Config(format!("{what} {why}")))
        };
        if self.replicas != Replicas::None {
            let most = self.command_timeout.saturating_sub(MS);
            within("replica_timeout", self.replica_timeout, (MS, most))?;
        }
        let settings = Settings {
            server: deployment.name(),
            driver: self.get_driver(),
            prefix: self.prefix,
            watchdog: whole_ms(within("watchdog", self.watchdog, WATCHDOG)?),
            command_timeout: within("command_timeout", self.command_timeout, COMMAND_TIMEOUT)?,
            retry_timeout: within("retry_timeout", self.retry_timeout, RETRY_TIMEOUT)?,
            fair_wait: whole_ms(within("fair_wait", self.fair_wait, FAIR_WAIT)?),
            redisson_fair_wait: whole_ms(within(
                "redisson_fair_wait",
                self.redisson_fair_wait,
                REDISSON_FAIR_WAIT,
            )?),
            sharded_pubsub: self.sharded_pubsub,
            replicas: self.replicas,
            replica_timeout: whole_ms(self.replica_timeout),
            reuse_holds: self.reuse_holds,
            lazy_connect: self.lazy_connect,
            observer: self.observer,
            about,
        };
        Ok((deployment, settings))
    }
}
