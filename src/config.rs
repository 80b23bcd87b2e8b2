//! [`Config`] as written, and `Settings`: the same, valid by construction.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    error::Error,
    replicas::Replicas,
    wire::{FredConfig, ShardedPubsub, check_url, server_name, shown},
};

/// How a client connects and behaves. Reads and writes as plain text by serde, durations as `30s`.
/// What serde writes has the URL in it with its passwords; `{:?}` shows neither.
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
    #[serde(skip)]
    fred: Option<FredConfig>,
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
            fred: None,
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
        check_url(&url)?;
        Ok(Self { url, ..Self::default() })
    }

    /// Server, credentials, database and TLS from a configuration of fred: so a certificate authority
    /// other than the system's is trusted, or a client certificate is shown.
    ///
    /// Servers that a cluster or sentinels name by an IP address must have certificates for that, or
    /// `TlsHostMapping` says for which host: `DefaultHost` for the first one that the configuration
    /// names, `Custom` for what a function makes of the address.
    ///
    /// How fred repeats, times out and reconnects is not taken over: its defaults break locks. Such a
    /// configuration is not written by serde: there is no URL in it. `{:?}` of a [`FredConfig`] itself
    /// shows its passwords, and `FredConfig::from_url` takes an unknown scheme for plain text.
    ///
    /// There with one of the `tls-*` features only: without them fred reads `rediss://` as `redis://`, and
    /// nothing in its configuration tells that TLS was asked for.
    ///
    /// ```
    /// # #[cfg(all(feature = "tls-rustls-ring", not(feature = "tls-rustls")))] {
    /// // With the feature tls-rustls or tls-rustls-ring.
    /// use redisson_lock::{Config, FredConfig, TlsHostMapping, rustls};
    ///
    /// let roots = rustls::RootCertStore::empty(); // and then yours
    /// let tls = rustls::ClientConfig::builder().with_root_certificates(roots);
    /// let tls = tls.with_no_client_auth(); // or .with_client_auth_cert(certificates, key)?
    /// let mut fred = FredConfig::from_url("redis-cluster://redis.example:6380").unwrap();
    /// fred.tls.insert(tls.into()).hostnames = TlsHostMapping::DefaultHost;
    /// let config = Config::from_fred(fred);
    /// # }
    /// ```
    #[cfg(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native"))]
    pub fn from_fred(config: FredConfig) -> Self {
        Self { url: String::new(), fred: Some(config), ..Self::default() }
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

    pub(crate) fn into_settings(self) -> Result<(FredConfig, Settings), Error> {
        let fred = match self.fred {
            Some(fred) => fred,
            None => check_url(&self.url)?,
        };
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
            server: server_name(&fred),
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
        Ok((fred, settings))
    }
}

/// Shows scheme and server, and neither users nor passwords.
impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = match &self.fred {
            Some(fred) => shown(fred),
            None => {
                check_url(&self.url).map_or("(a URL that cannot be used)".into(), |url| shown(&url))
            }
        };
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
mod tests {
    use super::*;

    #[test]
    fn a_written_config_is_read_and_unknown_words_are_refused() {
        let config: Config =
            serde_json::from_str(r#"{"url":"redis://h:1","watchdog":"1500ms"}"#).unwrap();
        let (_, settings) = config.into_settings().unwrap();
        assert_eq!(settings.watchdog, Duration::from_millis(1500));
        assert_eq!(settings.command_timeout, Duration::from_secs(3));
        assert!(serde_json::from_str::<Config>(r#"{"watchdog_ms":3}"#).is_err());
        assert!(serde_json::from_str::<Config>(r#"{"watchdog":"-3s"}"#).is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(matches!(Config::from_url("127.0.0.1"), Err(Error::Config(_))));
        assert!(matches!(Config::from_url(""), Err(Error::Config(_))));
        let short = Config::default().watchdog(Duration::ZERO).into_settings();
        assert!(matches!(short, Err(Error::Config(_))), "{short:?}");
        let long = Config::default().command_timeout(Duration::MAX).into_settings();
        assert!(matches!(long, Err(Error::Config(_))), "{long:?}");
    }

    #[cfg(not(any(feature = "tls-rustls", feature = "tls-rustls-ring", feature = "tls-native")))]
    #[test]
    fn tls_is_refused_where_it_would_be_plain_text() {
        for url in ["rediss://h:1", "REDISS://h:1", " rediss://h:1", "valkeys://h:1"] {
            assert!(matches!(Config::from_url(url), Err(Error::Config(_))), "{url:?}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let config = Config::from_url("redis://me:secret@h:1/2").unwrap();
        let shown = format!("{config:?}");
        assert!(!shown.contains("secret"), "{shown}");
        assert!(shown.contains("redis://h:1/2"), "{shown}");
    }
}
