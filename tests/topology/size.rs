//! The size of a contest: small, unless the environment says otherwise.
//!
//! | variable | |
//! |---|---|
//! | `TOPOLOGY_OWNERS` | contenders in each of the two processes |
//! | `TOPOLOGY_SECONDS` | how long they contend |
//! | `TOPOLOGY_FAILOVERS` | how many masters are killed meanwhile, one after another; a killed master comes back as a replica |
//! | `TOPOLOGY_HOLD_MS` | how long each holds the lock |
//! | `TOPOLOGY_REPLICAS` | `none` or `all`: which replicas confirm a hold; without it, each language's default |
//! | `TOPOLOGY_LAG` | `1`: each master is killed while its replicas are cut off from it, and the lock has another holder than they know |

use std::env;
use std::time::Duration;

use harness::{PATIENCE, PeerArgs};

/// No replica takes over sooner.
const SHORTEST_FAILOVER: Duration = Duration::from_secs(1);

#[derive(Debug, Clone)]
pub(crate) struct Size {
    pub(crate) owners: usize,
    pub(crate) time: Duration,
    pub(crate) failovers: usize,
    pub(crate) hold: Duration,
    replicas: Option<String>,
    pub(crate) lag: bool,
}

impl Size {
    pub(crate) fn of_environment() -> Self {
        let size = Self {
            owners: number("TOPOLOGY_OWNERS", 4) as usize,
            time: Duration::from_secs(number("TOPOLOGY_SECONDS", 14)),
            failovers: number("TOPOLOGY_FAILOVERS", 1) as usize,
            hold: Duration::from_millis(number("TOPOLOGY_HOLD_MS", 2)),
            replicas: env::var("TOPOLOGY_REPLICAS").ok(),
            lag: number("TOPOLOGY_LAG", 0) > 0,
        };
        // Whoever waits when the time is over still gets a turn.
        let all = 2 * u32::try_from(size.owners).expect("a crowd") * size.hold;
        assert!(
            all < PATIENCE,
            "to let all have one more turn takes {all:?}, more than {PATIENCE:?}"
        );
        size
    }

    pub(crate) fn peer_args(&self, args: PeerArgs) -> PeerArgs {
        match &self.replicas {
            Some(replicas) => args.replicas(replicas),
            None => args,
        }
    }

    /// Whether a hold that a failover forgets may still be in use when the next one is granted.
    pub(crate) fn may_overlap(&self) -> bool {
        self.hold >= SHORTEST_FAILOVER && self.replicas.as_deref() != Some("all")
    }
}

fn number(variable: &str, default: u64) -> u64 {
    match env::var(variable) {
        Ok(value) => {
            value.parse().unwrap_or_else(|_| panic!("{variable} needs a number, not {value:?}"))
        }
        Err(_) => default,
    }
}
