//! [`Config`]: what a user sets.

mod announce;
mod driver;
mod files;
mod observer;
#[cfg(feature = "redis-rs")]
mod redis_rs;
#[cfg(feature = "redisson-yaml")]
mod redisson_yaml;
mod settings;
mod shown;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub(crate) use self::{
    announce::About,
    settings::{Settings, whole_ms},
};
use crate::{
    error::Error,
    observer::Observed,
    options::{Driver, Replicas, ShardedPubsub},
    wire::{Tls, check_tls, read_url},
};

/// How a client connects and behaves.
///
/// serde reads and writes it, with durations as text such as `30s`. The written form contains the
/// passwords, but not the [`Tls`]. `{:?}` shows neither. A file that an administrator writes had
/// better name the secrets' own files: `password_file`, `tls_authority_file`,
/// `tls_certificate_file`, `tls_key_file`.
///
/// All durations are cut to whole milliseconds, except the two timeouts of requests.
/// [`Client::connect`](crate::Client::connect) refuses a value out of range with [`Error::Config`].
///
/// ```
/// # use std::time::Duration;
/// use redisson_lock::Config;
///
/// let config = Config::from_url("redis://127.0.0.1:6379")?;
/// let config = config.watchdog(Duration::from_secs(10));
/// # Ok::<(), redisson_lock::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[must_use = "a configuration does nothing by itself: `Client::connect(config).await?`"]
pub struct Config {
    url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "files::secret")]
    password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    password_file: Option<PathBuf>,
    /// The user if no other is set, but only with a password, as in Redisson.
    #[serde(skip_serializing_if = "Option::is_none")]
    username_with_password: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentinel_username: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "files::secret")]
    sentinel_password: Option<String>,
    #[serde(skip)]
    tls: Option<Tls>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_authority_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_certificate_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tls_key_file: Option<PathBuf>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    nat_map: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    driver: Option<Driver>,
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
    reuse_holds: bool,
    lazy_connect: bool,
    #[serde(skip)]
    observer: Option<Observed>,
    #[serde(skip_serializing_if = "Option::is_none")]
    announce: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    announce_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    announce_host: Option<String>,
}

impl Default for Config {
    /// A Redis server on this machine, and Redisson's defaults for the times that Redisson has too.
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1:6379".into(),
            username: None,
            password: None,
            password_file: None,
            username_with_password: None,
            sentinel_username: None,
            sentinel_password: None,
            tls: None,
            tls_authority_file: None,
            tls_certificate_file: None,
            tls_key_file: None,
            nat_map: BTreeMap::new(),
            driver: None,
            prefix: String::new(),
            watchdog: Duration::from_secs(30),
            command_timeout: Duration::from_secs(3),
            retry_timeout: Duration::from_secs(10),
            fair_wait: Duration::from_secs(10),
            redisson_fair_wait: Duration::from_secs(300),
            sharded_pubsub: ShardedPubsub::Auto,
            replicas: Replicas::None,
            replica_timeout: Duration::from_secs(1),
            reuse_holds: true,
            lazy_connect: false,
            observer: None,
            announce: None,
            announce_version: None,
            announce_host: None,
        }
    }
}

impl Config {
    /// Reads a URL. The other settings get their defaults.
    ///
    /// | servers | URL |
    /// |---|---|
    /// | one server | `redis://[user:password@]host[:port][/database]` |
    /// | a Unix socket | `unix:///path`, `redis+unix:///path`, `unix://user:password@localhost/path` |
    /// | a cluster | `redis-cluster://[user:password@]host:port[?node=host:port&node=…]` |
    /// | sentinels | `redis-sentinel://[user:password@]host:port[/database]?sentinelServiceName=name[&node=host:port…]` |
    ///
    /// With TLS the schemes are `rediss`, `rediss-cluster` and `rediss-sentinel`. They need one of
    /// the `tls-*` features. `valkey` may replace `redis` in every scheme.
    ///
    /// The hosts of a cluster URL are some of its nodes. The hosts of a sentinel URL are sentinels, and its user is the
    /// master's. The sentinels' own user follows as `&sentinelUsername=…&sentinelPassword=…`.
    ///
    /// In users and passwords `% / ? # @ : & +` must be percent-encoded (`%25`, `%2F`, …). A user without a password
    /// (`user@`) is logged in with an empty one, as `nopass` needs it. A password without a user is written `:password@`.
    ///
    /// # Errors
    /// [`Error::Config`] when the URL cannot be read, has an unknown scheme or query key, or needs a feature that is not
    /// compiled in. The error lists what is known, and repeats no secret.
    pub fn from_url(url: impl Into<String>) -> Result<Self, Error> {
        let url = url.into();
        read_url(&url)?;
        Ok(Self { url, ..Self::default() })
    }

    /// Sets the user to log in as. It replaces the URL's user, and is not percent-encoded.
    pub fn username(mut self, username: impl Into<String>) -> Self {
        self.username = Some(username.into());
        self
    }

    /// Sets the password to log in with. It replaces the URL's password, and is not percent-encoded.
    pub fn password(mut self, password: impl Into<String>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets the user for the sentinels of a `redis-sentinel://` URL. It replaces `sentinelUsername`
    /// in the URL, and is not percent-encoded. Other URLs refuse it.
    pub fn sentinel_username(mut self, username: impl Into<String>) -> Self {
        self.sentinel_username = Some(username.into());
        self
    }

    /// Sets the password for the sentinels of a `redis-sentinel://` URL. It replaces
    /// `sentinelPassword` in the URL, and is not percent-encoded. Other URLs refuse it.
    pub fn sentinel_password(mut self, password: impl Into<String>) -> Self {
        self.sentinel_password = Some(password.into());
        self
    }

    /// Sets trusted authorities, a client certificate, and the names that certificates must have.
    /// Default: the system's authorities, no client certificate, the hosts' names.
    ///
    /// The URL must be one with TLS: `rediss://`, `rediss-cluster://` or `rediss-sentinel://`.
    ///
    /// serde does not write it, because it may contain a private key.
    ///
    /// # Errors
    /// [`Error::Config`] when a PEM cannot be read, a key does not match its certificate, the URL
    /// is one without TLS, or no `tls-*` feature is compiled in. The error repeats nothing of a
    /// PEM.
    pub fn tls(mut self, tls: Tls) -> Result<Self, Error> {
        let deployment = read_url(&self.url)?;
        if !deployment.uses_tls {
            let url = deployment.shown();
            return Err(Error::Config(format!(
                "TLS is configured, but {url} is a URL without TLS: its scheme must begin with rediss"
            )));
        }
        check_tls(&tls)?;
        self.tls = Some(tls);
        Ok(self)
    }

    /// Sets where to reach a server of a cluster or behind sentinels that announces another address:
    /// a host by a host, or `host:port` by `host:port`. Redisson: `natMapper`. Default: addresses
    /// are as they are announced.
    ///
    /// A cluster whose nodes announce host names beside their IP addresses may redirect by either.
    /// Map both. [`Client::connect`](crate::Client::connect) refuses a map that cannot be used.
    pub fn nat_map<From, To>(mut self, map: impl IntoIterator<Item = (From, To)>) -> Self
    where
        From: Into<String>,
        To: Into<String>,
    {
        self.nat_map = map.into_iter().map(|(from, to)| (from.into(), to.into())).collect();
        self
    }

    /// Sets the prefix of every lock's name on the server. Redisson: a `NameMapper` that adds a
    /// prefix. Default: none.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the lease of a hold that is taken without one. The watchdog renews such a hold every
    /// third of it, while its guard lives. A crash therefore costs the others this time at most.
    /// Redisson: `lockWatchdogTimeout`. Default: 30 s. From 100 ms to 24 h. A renewal is given up
    /// after an eighth of it or `command_timeout`, whichever is less: slower servers keep no hold.
    ///
    /// If Redisson clients read the same read/write lock, a third of this must be well below their
    /// `lockWatchdogTimeout`, and below each lease of their `MultiLock`s and RedLocks that read it. Both
    /// cut the TTL of all readers until this crate's next renewal. If it ends before, a writer gets in.
    pub fn watchdog(mut self, watchdog: Duration) -> Self {
        self.watchdog = watchdog;
        self
    }

    /// Sets how long one request to Redis may take. It includes everything that is sent for it: a script that the server
    /// does not know yet, and redirections in a cluster. Default: 3 s. From 10 ms to 1 h.
    ///
    /// After three requests in a row without an answer, the connections to that server are replaced. From 300 s on,
    /// requests to semaphores and latches are not repeated: the server keeps their ids for 10 min.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// Sets how long an acquisition or a release goes on trying while Redis does not answer.
    /// Default: 10 s. From 10 ms to 1 h.
    ///
    /// The first request of a call has the [command timeout](Config::command_timeout), also when that
    /// is longer. Local callers of one lock share the requests of the first of them, and its error.
    pub fn retry_timeout(mut self, timeout: Duration) -> Self {
        self.retry_timeout = timeout;
        self
    }

    /// Sets how long a waiter of this crate keeps its place in a fair lock's line after it last
    /// asked. Default: 10 s; 30 s is better where NTP does not keep the clocks. From 1 s to 1 h.
    ///
    /// All clients of a lock must use the same value. A client with another value takes live
    /// waiters for dead and removes them from the line.
    ///
    /// A waiter asks the server every 3/10 of this time or 3 s, whichever is less. When a process dies,
    /// its waiters delay the others by this time and one such pause, counted from when they last asked.
    /// All waiters of one process cost that once. Places that a failover brings back cost the same.
    ///
    /// A Redisson client whose clock is ahead by more than half of this time may remove this
    /// crate's waiters.
    pub fn fair_wait(mut self, wait: Duration) -> Self {
        self.fair_wait = wait;
        self
    }

    /// Sets the longest time for which a Redisson waiter keeps its place: at least the longest
    /// `fairLockWaitTimeout`, and the longest wait of a fair `tryLock(wait)`. A waiter keeps its place
    /// so much longer for each Redisson waiter before it. Default: 300 s. From 1 ms to 24 h.
    pub fn redisson_fair_wait(mut self, wait: Duration) -> Self {
        self.redisson_fair_wait = wait;
        self
    }

    /// Sets whether a cluster's messages use sharded channels. Default: as Redisson decides. See
    /// [`ShardedPubsub`].
    pub fn sharded_pubsub(mut self, sharded: ShardedPubsub) -> Self {
        self.sharded_pubsub = sharded;
        self
    }

    /// Sets how many replicas must confirm a hold before it is granted. Default: none.
    /// [`Lock::replicas`](crate::Lock::replicas) overrides it for one lock.
    pub fn replicas(mut self, replicas: Replicas) -> Self {
        self.replicas = replicas;
        self
    }

    /// Sets how long replicas may take to confirm. Redisson: `slavesSyncTimeout`. Default: 1 s. From
    /// 1 ms to less than [`command_timeout`](Config::command_timeout). That is checked only if
    /// [`replicas`](Config::replicas) is set, and not for [`Lock::replicas`](crate::Lock::replicas).
    pub fn replica_timeout(mut self, timeout: Duration) -> Self {
        self.replica_timeout = timeout;
        self
    }

    /// Sets whether a hold on the server may serve several local callers: an unlock may hand it off
    /// to the next local waiter, and readers may share it. Default: yes.
    ///
    /// A hand-off needs no round trip, or one if an owner or a fencing token takes part. After 64 of them
    /// or 2 ms, whichever is first, the server is asked whether other processes wait. If they do, the
    /// hold is released, and this process yields until they had their turns. If none of them takes the
    /// lock, the next local series may be twice as long, up to 32 times.
    ///
    /// Reentrant, non-reentrant and fenced locks are handed off, and write holds without an owner.
    /// [Readers](crate::ReadWriteLock) share a hold. Fair, spin and plain locks are never handed off.
    pub fn reuse_holds(mut self, reuse_holds: bool) -> Self {
        self.reuse_holds = reuse_holds;
        self
    }

    /// Sets whether [`Client::connect`](crate::Client::connect) may return before a server was
    /// reached. Redisson: `lazyInitialization`. Default: no.
    ///
    /// The client then connects in the background, for as long as it takes. Until it has, a call
    /// waits as when the connection is lost: an acquisition for up to
    /// [`retry_timeout`](Config::retry_timeout). Its error says why there is no connection. A wrong
    /// URL or password is therefore told by the first call, at the end of its time. What no server
    /// can mend is still an error of `connect`.
    pub fn lazy_connect(mut self, lazy: bool) -> Self {
        self.lazy_connect = lazy;
        self
    }
}

#[cfg(test)]
mod tests;
