//! [`Config`] as written, and `Settings`: the same, valid by construction.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    replicas::Replicas,
    wire::{Credentials, Deployment, Servers, ShardedPubsub, Tls, check_tls, read_url},
};

/// How a client connects and behaves. Reads and writes as plain text by serde, durations as `30s`.
/// What serde writes contains the passwords, and not the [`Tls`]; `{:?}` shows neither.
///
/// ```
/// # use std::time::Duration;
/// use redisson_lock::Config;
///
/// let config = Config::from_url("redis://127.0.0.1:6379")?.watchdog(Duration::from_secs(10));
/// # Ok::<(), redisson_lock::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use = "a configuration does nothing by itself: `Client::connect(config).await?`"]
pub struct Config {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentinel_username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentinel_password: Option<String>,
    #[serde(skip)]
    tls: Option<Tls>,
    prefix: String,
    #[serde(with = "humantime_serde")]
    watchdog: Duration,
    #[serde(with = "humantime_serde")]
    command_timeout: Duration,
    #[serde(with = "humantime_serde")]
    retry_timeout: Duration,
    #[serde(with = "humantime_serde")]
    fair_wait: Duration,
    #[serde(with = "humantime_serde")]
    redisson_fair_wait: Duration,
    sharded_pubsub: ShardedPubsub,
    replicas: Replicas,
    #[serde(with = "humantime_serde")]
    replica_timeout: Duration,
    pass_on: bool,
}

impl Default for Config {
    /// A Redis on this machine, and Redisson's own times.
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            username: None,
            password: None,
            sentinel_username: None,
            sentinel_password: None,
            tls: None,
            prefix: String::new(),
            watchdog: Duration::from_secs(30),
            command_timeout: Duration::from_secs(3),
            retry_timeout: Duration::from_secs(10),
            fair_wait: Duration::from_secs(10),
            redisson_fair_wait: Duration::from_secs(300),
            sharded_pubsub: ShardedPubsub::Auto,
            replicas: Replicas::None,
            replica_timeout: Duration::from_secs(1),
            pass_on: true,
        }
    }
}

impl Config {
    /// `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS (with one of the
    /// `tls-*` features), `unix:///path` or `redis+unix:///path` for a Unix socket (with a user
    /// `unix://user:password@localhost/path`).
    ///
    /// A Redis Cluster: `redis-cluster://[user:password@]host:port[?node=host:port&node=…]`, some of
    /// its nodes. A master that sentinels watch:
    /// `redis-sentinel://[user:password@]host:port[/database]?sentinelServiceName=name[&node=host:port…]`,
    /// where the hosts are sentinels and the user is that of the master; the sentinels' own by
    /// `&sentinelUsername=…&sentinelPassword=…`. With TLS `rediss-cluster://`, `rediss-sentinel://`.
    ///
    /// `valkey` may stand for `redis` in all of these. In users and passwords `% / ? # @ : & +` must be
    /// percent-encoded (`%25`, `%2F`, …).
    ///
    /// # Errors
    /// [`Error::Config`] when the URL cannot be read, has another scheme or another word behind its `?`,
    /// or needs a feature that is not compiled in. The error lists what is known, and repeats no secret.
    pub fn from_url(url: impl Into<String>) -> Result<Self, Error> {
        let url = url.into();
        read_url(&url)?;
        Ok(Self { url, ..Self::default() })
    }

    /// The user to log in as, instead of the URL's. Nothing in it is percent-encoded.
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.username = Some(username.into());
        self
    }

    /// The password to log in with, instead of the URL's. Nothing in it is percent-encoded.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// The user to log in as to the sentinels of a `redis-sentinel://` URL, instead of the URL's `sentinelUsername`.
    pub fn sentinel_username(mut self, username: impl Into<String>) -> Self {
        self.sentinel_username = Some(username.into());
        self
    }

    /// The password for the sentinels of a `redis-sentinel://` URL, instead of the URL's `sentinelPassword`.
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_password = Some(password.into());
        self
    }

    /// How TLS is used: other authorities than the system's, a client certificate, other names in certificates. For
    /// `rediss://`, `rediss-cluster://` and `rediss-sentinel://` URLs, which trust the system's authorities without it.
    ///
    /// serde does not write it: it may have a private key in it.
    ///
    /// # Errors
    /// [`Error::Config`] when a PEM cannot be read, a key does not belong to its certificate, the URL is one without TLS,
    /// or none of the `tls-*` features is compiled in. The error says which, and repeats nothing of a PEM.
    pub fn tls(mut self, tls: Tls) -> Result<Self, Error> {
        let deployment = read_url(&self.url)?;
        if !deployment.uses_tls {
            let url = deployment.shown();
            return Err(Error::Config(format!("TLS is configured, and {url} is a URL without it")));
        }
        check_tls(&tls)?;
        self.tls = Some(tls);
        Ok(self)
    }

    /// What stands before every lock's name, as Redisson's `NameMapper` may put it. Default: nothing.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How long a lock that is taken without a lease outlives its process: it is leased for so long
    /// and renewed every third of it. Redisson: `lockWatchdogTimeout`. Default: 30 s.
    ///
    /// Where Redisson peers read the same read/write lock, a third of this must be well below their
    /// `lockWatchdogTimeout`: a renewal of theirs cuts the key's TTL down to that, for all readers,
    /// and the next one of ours raises it again.
    pub fn watchdog(mut self, watchdog: Duration) -> Self {
        self.watchdog = watchdog;
        self
    }

    /// How long one call to Redis may take, with all that is sent for it: a script that the server does
    /// not know yet, and redirects in a cluster. After three calls in a row without an answer the connections
    /// are replaced. Default: 3 s.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long a call goes on trying while Redis cannot be reached. Default: 10 s.
    pub fn retry_timeout(mut self, timeout: Duration) -> Self {
        self.retry_timeout = timeout;
        self
    }

    /// How long a waiter of ours keeps its place in a fair lock's line if it is not seen. Default:
    /// 10 s; where clocks are not kept by NTP, 30 s. All clients of a lock must have the same: those with
    /// another one take waiters that are there for dead, and put them out of line.
    ///
    /// When a process dies, its waiters cost the others so long, and 3/10 more at most, until the
    /// next in line looks. It is counted from when they were last seen, once for all of them,
    /// wherever they stood; the same holds for places that a failover brings back.
    ///
    /// A waiter shows itself every 3/10 of it. A peer of Redisson's whose clock is ahead by more than
    /// half of it may cost our waiters their places.
    pub fn fair_wait(mut self, wait: Duration) -> Self {
        self.fair_wait = wait;
        self
    }

    /// The `fairLockWaitTimeout` of the Redisson peers: a place in line is kept through so much for
    /// each of their waiters before it. Default: 300 s, as Redisson's.
    pub fn redisson_fair_wait(mut self, wait: Duration) -> Self {
        self.redisson_fair_wait = wait;
        self
    }

    /// Whether messages in a Redis Cluster go by sharded channels. Default: as Redisson decides.
    pub fn sharded_pubsub(mut self, sharded: ShardedPubsub) -> Self {
        self.sharded_pubsub = sharded;
        self
    }

    /// How many replicas must confirm a hold before it is granted; a lock may say otherwise
    /// ([`Lock::replicas`](crate::Lock::replicas)). Default: none.
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = replicas;
        self
    }

    /// How long replicas may take to confirm, less than
    /// [`command_timeout`](Config::command_timeout). Redisson: `slavesSyncTimeout`. Default: 1 s.
    pub fn replica_timeout(mut self, timeout: Duration) -> Self {
        self.replica_timeout = timeout;
        self
    }

    /// Whether a lock that is released while others in this process wait for it is passed on to the next
    /// of them, with no word to the server for a few ms at a time: many times faster than to release and
    /// acquire it. Other processes are not kept from it: they are asked for after 64 turns or 2 ms, and
    /// while there are any, this process steps back after each such time until they had their turns.
    ///
    /// Plain, non-reentrant and fenced locks are passed on; fair, read/write and spin locks never.
    /// Default: yes.
    pub fn pass_on(mut self, pass_on: bool) -> Self {
        self.pass_on = pass_on;
        self
    }

    /// What the URL says, and what was said instead.
    fn deployment(&self) -> Result<Deployment, Error> {
        let mut deployment = read_url(&self.url)?;
        let or = |username: &Option<String>, password: &Option<String>, url: &mut Credentials| {
            let said = Credentials { username: username.clone(), password: password.clone() };
            *url = said.or(std::mem::take(url));
        };
        or(&self.username, &self.password, &mut deployment.credentials);
        match &mut deployment.servers {
            Servers::Sentinels(_, _, credentials) => {
                or(&self.sentinel_username, &self.sentinel_password, credentials);
            }
            _ if self.sentinel_username.is_some() || self.sentinel_password.is_some() => {
                return Err(Error::Config(
                    "credentials for sentinels need a redis-sentinel:// URL".into(),
                ));
            }
            _ => {}
        }
        Ok(deployment)
    }

    pub(crate) fn into_settings(self) -> Result<(Deployment, Settings), Error> {
        let mut deployment = self.deployment()?;
        deployment.tls = self.tls;
        let within = |what, value: Duration, least: Duration, most: Duration| {
            if value < least || value > most {
                return Err(Error::Config(format!(
                    "{what} is {value:?}; it must lie between {least:?} and {most:?}"
                )));
            }
            Ok(value)
        };
        let (ms, hour) = (Duration::from_millis(1), Duration::from_secs(3600));
        if self.replicas != Replicas::None {
            let most = self.command_timeout.saturating_sub(ms);
            within("replica_timeout", self.replica_timeout, ms, most)?;
        }
        let settings = Settings {
            server: deployment.name(),
            prefix: self.prefix,
            watchdog: whole_ms(within("watchdog", self.watchdog, 100 * ms, 24 * hour)?),
            command_timeout: within("command_timeout", self.command_timeout, 10 * ms, hour)?,
            retry_timeout: within("retry_timeout", self.retry_timeout, 10 * ms, hour)?,
            fair_wait: whole_ms(within("fair_wait", self.fair_wait, 1000 * ms, hour)?),
            redisson_fair_wait: whole_ms(within(
                "redisson_fair_wait",
                self.redisson_fair_wait,
                ms,
                24 * hour,
            )?),
            sharded_pubsub: self.sharded_pubsub,
            replicas: self.replicas,
            replica_timeout: whole_ms(self.replica_timeout),
            pass_on: self.pass_on,
        };
        Ok((deployment, settings))
    }
}

/// Shows scheme and server, and neither users nor passwords.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server =
            self.deployment().map_or("(servers that cannot be used)".into(), |it| it.shown());
        f.debug_struct("Config")
            .field("server", &server)
            .field("prefix", &self.prefix)
            .field("watchdog", &self.watchdog)
            .field("command_timeout", &self.command_timeout)
            .field("retry_timeout", &self.retry_timeout)
            .field("fair_wait", &self.fair_wait)
            .field("redisson_fair_wait", &self.redisson_fair_wait)
            .field("sharded_pubsub", &self.sharded_pubsub)
            .field("replicas", &self.replicas)
            .field("replica_timeout", &self.replica_timeout)
            .field("pass_on", &self.pass_on)
            .finish()
    }
}

/// What the server can count: a lease is trusted for no more than it is told.
pub(crate) fn whole_ms(duration: Duration) -> Duration {
    Duration::from_millis(duration.as_millis() as u64)
}

/// A configuration that holds.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Where the locks live: the same for all who name their server alike.
    pub(crate) server: String,
    pub(crate) prefix: String,
    pub(crate) watchdog: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) retry_timeout: Duration,
    pub(crate) fair_wait: Duration,
    pub(crate) redisson_fair_wait: Duration,
    pub(crate) sharded_pubsub: ShardedPubsub,
    pub(crate) replicas: Replicas,
    pub(crate) replica_timeout: Duration,
    pub(crate) pass_on: bool,
}

#[cfg(test)]
mod tests;
