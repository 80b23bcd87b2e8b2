//! [`Section`]: the names of the fields that a section may have, and what is said about another.

/// The sections of which exactly one names the servers.
pub(super) const MODES: [&str; 5] =
    [SINGLE, SENTINEL, CLUSTER, "masterSlaveServersConfig", "replicatedServersConfig"];

pub(super) const SINGLE: &str = "singleServerConfig";
pub(super) const SENTINEL: &str = "sentinelServersConfig";
pub(super) const CLUSTER: &str = "clusterServersConfig";

/// Fields without a meaning for a client of locks, or for this one, at the top level and in the
/// sections of modes.
pub(super) const UNUSED_ANYWHERE: &[&str] = &[
    "sslCiphers",
    "sslProtocols",
    "sslProvider",
    "tcpKeepAlive",
    "tcpKeepAliveCount",
    "tcpKeepAliveIdle",
    "tcpKeepAliveInterval",
    "tcpNoDelay",
    "tcpUserTimeout",
];

/// Fields without such a meaning at the top level alone.
pub(super) const UNUSED_AT_TOP: &[&str] = &[
    "addressResolverGroupFactory",
    "cleanUpKeysAmount",
    "codec",
    "connectionListener",
    "eventLoopGroup",
    "executor",
    "keepPubSubOrder",
    "lockWatchdogBatchSize",
    "maxCleanUpDelay",
    "minCleanUpDelay",
    "nettyExecutor",
    "nettyHook",
    "nettyThreads",
    "protocol",
    "referenceEnabled",
    "reliableTopicWatchdogTimeout",
    "threads",
    "transportMode",
    "useScriptCache",
    "useThreadClassLoader",
    "valkeyCapabilities",
];

/// Fields without such a meaning in the sections of modes alone. Those of Redisson 3 are the last.
pub(super) const UNUSED_OF_MODE: &[&str] = &[
    "checkMasterLinkStatus",
    "checkSentinelsList",
    "checkSlaveStatusWithSyncing",
    "checkSlotsCoverage",
    "clientName",
    "connectTimeout",
    "connectionMinimumIdleSize",
    "connectionPoolSize",
    "dnsMonitoringInterval",
    "dnsMonitoringTimes",
    "failedSlaveCheckInterval",
    "failedSlaveNodeDetector",
    "failedSlaveReconnectionInterval",
    "fallbackLoadingToMaster",
    "idleConnectionTimeout",
    "keepAlive",
    "loadBalancer",
    "masterConnectionMinimumIdleSize",
    "masterConnectionPoolSize",
    "pingConnectionInterval",
    "readMode",
    "reconnectionDelay",
    "retryAttempts",
    "retryDelay",
    "scanInterval",
    "sentinelsDiscovery",
    "slaveConnectionMinimumIdleSize",
    "slaveConnectionPoolSize",
    "subscriptionConnectionMinimumIdleSize",
    "subscriptionConnectionPoolSize",
    "subscriptionMode",
    "subscriptionTimeout",
    "subscriptionsPerConnection",
    "credentialsReapplyInterval",
    "failedAttempts",
    "pingTimeout",
    "reconnectionTimeout",
    "retryInterval",
];

/// The fields that are read at the top level and in the sections of modes.
const READ_ANYWHERE: &[&str] = &[
    "commandMapper",
    "credentialsResolver",
    "nameMapper",
    "password",
    "sslEnableEndpointIdentification",
    "sslKeystore",
    "sslKeystorePassword",
    "sslKeystoreType",
    "sslTruststore",
    "sslTruststorePassword",
    "sslVerificationMode",
    "username",
];

/// Fields that are read at the top level alone, beside the sections.
const READ_AT_TOP: &[&str] = &[
    "checkLockSyncedSlaves",
    "fairLockWaitTimeout",
    "lazyInitialization",
    "lockWatchdogTimeout",
    "slavesSyncTimeout",
];

/// Fields that are read in the section of a mode.
const READ_OF_MODE: [(&str, &[&str]); 3] = [
    (SINGLE, &["address", "database", "timeout"]),
    (
        CLUSTER,
        &["database", "natMap", "natMapper", "nodeAddresses", "shardedSubscriptionMode", "timeout"],
    ),
    (
        SENTINEL,
        &[
            "database",
            "masterName",
            "natMap",
            "natMapper",
            "sentinelAddresses",
            "sentinelPassword",
            "sentinelUsername",
            "timeout",
        ],
    ),
];

/// A section, as far as its names go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Section {
    Top,
    Mode(&'static str),
}

impl Section {
    /// Whether Redisson has a field of this name here.
    pub(super) fn has(self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// A hint at what an unknown name may be meant for, as the end of a sentence. Empty if nothing is close.
    pub(super) fn hint(self, name: &str) -> String {
        let elsewhere = [Self::Mode(SINGLE), Self::Mode(CLUSTER), Self::Mode(SENTINEL), Self::Top];
        let closest = self.names().map(|known| (distance(known, name), known)).min();
        match closest {
            // A letter in four, but two at most.
            Some((distance, known)) if distance <= (name.len() / 4).min(2) => {
                format!(": did you mean {known}?")
            }
            _ => match elsewhere.into_iter().find(|section| section.has(name)) {
                Some(Self::Top) => ": it belongs at the top level".into(),
                Some(Self::Mode(mode)) => format!(": it belongs in {mode}"),
                None => String::new(),
            },
        }
    }

    fn names(self) -> impl Iterator<Item = &'static str> {
        let (read, unused) = match self {
            Self::Top => ([READ_AT_TOP, &MODES], UNUSED_AT_TOP),
            Self::Mode(mode) => {
                let own = READ_OF_MODE.into_iter().find(|(name, _)| *name == mode);
                ([own.map_or(&[][..], |(_, names)| names), &[]], UNUSED_OF_MODE)
            }
        };
        read.into_iter().chain([READ_ANYWHERE, UNUSED_ANYWHERE, unused]).flatten().copied()
    }
}

/// How many letters have to be changed, added or left out. Upper and lower case are the same.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (above, letter) in one.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = above + 1;
        for (i, &its) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != its);
            diagonal = row[i + 1];
            row[i + 1] = changed.min(diagonal + 1).min(row[i] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_letters() {
        for (one, other, letters) in [
            ("address", "address", 0),
            ("address", "Adress", 1),
            ("timeout", "timeuot", 2),
            ("", "abc", 3),
            ("abc", "", 3),
        ] {
            assert_eq!(distance(one, other), letters, "{one} {other}");
        }
    }

    #[test]
    fn a_hint_names_what_is_close_or_where_a_name_belongs() {
        for (section, name, hint) in [
            (Section::Mode(SENTINEL), "MASTERNAME", ": did you mean masterName?"),
            (Section::Mode(SINGLE), "nodeAddresses", ": it belongs in clusterServersConfig"),
            (Section::Mode(SINGLE), "lockWatchdogTimeout", ": it belongs at the top level"),
            (Section::Top, "address", ": it belongs in singleServerConfig"),
        ] {
            assert_eq!(section.hint(name), hint, "{name}");
        }
    }

    #[test]
    fn what_is_far_from_all_names_has_no_hint() {
        assert_eq!(Section::Top.hint("colour"), "");
        assert_eq!(Section::Top.hint("x"), "");
    }
}
