//! The contestants, and their properties.

use harness::{Lang, Peer, PeerArgs, PeerError};

use crate::meter::Usage;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    Ours,
    /// Without passing holds on inside the process.
    OursAlone,
    /// Over redis-rs. The others of us are over fred.
    OursOverRedisRs,
    Bare,
    Redisson,
    #[cfg(feature = "crates")]
    RsLock,
    #[cfg(feature = "crates")]
    RLock,
    #[cfg(feature = "crates")]
    RedisLock,
    #[cfg(feature = "crates")]
    RedLock,
}

/// What must be known to compare them.
#[derive(Debug)]
pub(crate) struct Behaviour {
    pub(crate) waits: &'static str,
    pub(crate) renews: &'static str,
    pub(crate) reenters: &'static str,
    pub(crate) connects: &'static str,
}

/// What no script sends, so that every call came from a client.
const SENT: [&str; 6] = ["evalsha", "eval", "fcall", "subscribe", "unsubscribe", "script|load"];

impl Contestant {
    /// All there are, us first.
    pub(crate) fn all() -> Vec<Self> {
        vec![
            Self::Ours,
            Self::OursAlone,
            Self::OursOverRedisRs,
            Self::Bare,
            Self::Redisson,
            #[cfg(feature = "crates")]
            Self::RsLock,
            #[cfg(feature = "crates")]
            Self::RLock,
            #[cfg(feature = "crates")]
            Self::RedisLock,
            #[cfg(feature = "crates")]
            Self::RedLock,
        ]
    }

    /// The one of this name.
    pub(crate) fn named(name: &str) -> Self {
        let found = Self::all().into_iter().find(|contestant| contestant.name() == name);
        found.unwrap_or_else(|| panic!("there is no contestant {name}"))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ours => "redisson-lock",
            Self::OursAlone => "redisson-lock, holds not reused",
            Self::OursOverRedisRs => "redisson-lock over redis-rs",
            Self::Bare => "bare EVALSHA by fred",
            Self::Redisson => "Redisson",
            #[cfg(feature = "crates")]
            Self::RsLock => "rslock",
            #[cfg(feature = "crates")]
            Self::RLock => "rlock",
            #[cfg(feature = "crates")]
            Self::RedisLock => "redis-lock",
            #[cfg(feature = "crates")]
            Self::RedLock => "redlock",
        }
    }

    /// The package of Rust whose version counts.
    pub(crate) fn package(self) -> Option<&'static str> {
        match self {
            Self::Bare => Some("fred"),
            Self::OursAlone | Self::OursOverRedisRs | Self::Redisson => None,
            contestant => Some(contestant.name()),
        }
    }

    pub(crate) fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::OursAlone | Self::OursOverRedisRs)
    }

    /// Bare commands do not.
    pub(crate) fn can_wait(self) -> bool {
        self != Self::Bare
    }

    pub(crate) fn behaviour(self) -> Behaviour {
        let [waits, renews, reenters, connects] = match self {
            Self::Ours | Self::OursAlone | Self::OursOverRedisRs | Self::Redisson => {
                ["is woken by a message", "yes", "yes", "once"]
            }
            Self::Bare => ["does not", "no", "no", "once"],
            #[cfg(feature = "crates")]
            Self::RsLock => ["polls, pauses of 0 to 200 ms", "only in `using`", "no", "once"],
            #[cfg(feature = "crates")]
            Self::RLock => ["polls every 100 ms", "yes", "no", "once"],
            #[cfg(feature = "crates")]
            Self::RedisLock => ["polls every 100 ms, 10 s at most", "no", "no", "once"],
            #[cfg(feature = "crates")]
            Self::RedLock => ["polls, pauses of 0 to 200 ms", "no", "no", "for every command"],
        };
        let connects = match self {
            Self::Redisson => "a pool",
            _ => connects,
        };
        Behaviour { waits, renews, reenters, connects }
    }

    /// How many commands its clients sent.
    pub(crate) fn commands(self, usage: &Usage) -> f64 {
        let sent: u64 = SENT.iter().map(|command| usage.calls(command)).sum();
        let more = match self {
            // With every release one of the client's own, and one in the script.
            Self::Redisson => usage.calls("del") as f64 / 2.0,
            #[cfg(feature = "crates")]
            Self::RsLock | Self::RLock | Self::RedisLock | Self::RedLock => {
                usage.calls("set") as f64
            }
            _ => 0.0,
        };
        sent as f64 + more
    }

    /// A process of its own.
    pub(crate) async fn spawn(self, url: &str) -> Result<Peer, PeerError> {
        match self {
            Self::Redisson => Peer::spawn(Lang::Java, &PeerArgs::redis(url).optimized()).await,
            _ => Ok(start_client(url, self.name()).await),
        }
    }
}

/// This program again, as a client that does one job.
pub(crate) async fn start_client(url: &str, job: &str) -> Peer {
    let this = std::env::current_exe().expect("this program");
    let args = PeerArgs::redis(url).launcher(this).option("--as", job);
    Peer::spawn(Lang::Rust, &args).await.unwrap_or_else(|error| panic!("{job}: {error}"))
}
