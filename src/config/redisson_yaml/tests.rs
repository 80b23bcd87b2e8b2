//! Redisson's files, good and bad.

mod credentials;

use super::*;
use crate::options::ShardedPubsub;

fn read_with(yaml: &str, has_tls: bool) -> Result<Config, Error> {
    read(yaml, has_tls, |name| match name {
        "CACHE_PASSWORD" => Some("s3cret".into()),
        "ODD_PASSWORD" => Some("pa${s3cret}word".into()),
        "BROKEN" => Some("x\ns3cret: y".into()),
        _ => None,
    })
}

fn good(yaml: &str) -> Config {
    read_with(yaml, false).unwrap_or_else(|error| panic!("{error}\n{yaml}"))
}

/// What is wrong with the file, without what every such error begins with.
fn bad(yaml: &str) -> String {
    match read_with(yaml, false) {
        Err(Error::Config(why)) => {
            assert!(!why.contains("s3cret"), "{why}");
            why.strip_prefix("Redisson's YAML, line ").unwrap_or(&why).to_owned()
        }
        other => panic!("{other:?}\n{yaml}"),
    }
}

const ONE: &str = "singleServerConfig: {address: 'redis://h:1'}\n";

#[test]
fn one_server() {
    let config = good(
        r#"
singleServerConfig:
  address: "redis://cache.internal:6380"
  database: 3
  timeout: 2_000
  clientName: orders
username: orders
password: "${CACHE_PASSWORD:-change-me}"
lockWatchdogTimeout: 20000
fairLockWaitTimeout: 60000
codec: !<org.redisson.client.codec.StringCodec> {}
"#,
    );
    assert_eq!(config.url, "redis://cache.internal:6380/3");
    assert_eq!(config.username.as_deref(), Some("orders"));
    assert_eq!(config.password.as_deref(), Some("s3cret"));
    assert_eq!(config.watchdog, Duration::from_secs(20));
    assert_eq!(config.redisson_fair_wait, Duration::from_secs(60));
    assert_eq!(config.command_timeout, Duration::from_secs(2));
    // A single server has no replicas to ask.
    assert_eq!(config.replicas, Replicas::None);
}

#[test]
fn a_cluster_behind_address_translation() {
    let config = good(
        r#"
clusterServersConfig:
  nodeAddresses:
    - "redis://10.1.0.11:7000"
    - "redis://[::1]:7001"
  scanInterval: 3000
  shardedSubscriptionMode: OFF
  retryDelay: !<org.redisson.config.ConstantDelay> {delay: PT0.5S}
  natMapper: !<org.redisson.config.HostNatMapper>
    hostsMap: {"172.18.0.2": "10.1.0.11", "172.18.0.3": "10.1.0.12"}
password: "${CACHE_PASSWORD}"
slavesSyncTimeout: 500
"#,
    );
    assert_eq!(config.url, "redis-cluster://10.1.0.11:7000?node=[::1]:7001");
    assert_eq!(config.sharded_pubsub, ShardedPubsub::Off);
    assert_eq!(config.replicas, Replicas::OneOfAll);
    assert_eq!(config.replica_timeout, Duration::from_millis(500));
    assert_eq!(config.nat_map["172.18.0.3"], "10.1.0.12");
    assert!(config.into_settings().is_ok());
}

#[test]
fn sentinels() {
    let config = good(
        r#"
sentinelServersConfig:
  masterName: pri&mary
  sentinelAddresses: ["redis://sentinel-1:26379", "valkey://sentinel-2:26379"]
  sentinelPassword: "${CACHE_PASSWORD}"
  readMode: MASTER
  database: 2
  natMapper: !<org.redisson.config.HostPortNatMapper> {hostsPortMap: {"a:1": "b:2"}}
username: locker
password: other
checkLockSyncedSlaves: off
"#,
    );
    assert_eq!(
        config.url,
        "redis-sentinel://sentinel-1:26379/2?sentinelServiceName=pri%26mary&node=sentinel-2:26379"
    );
    assert_eq!(config.sentinel_password.as_deref(), Some("s3cret"));
    assert_eq!(config.replicas, Replicas::None);
    assert!(config.into_settings().is_ok());
}

/// Seen with Redisson 4.7.0.

#[test]
fn sockets_json_aliases_and_old_fields_are_read() {
    assert_eq!(
        good("singleServerConfig: {address: 'redis+uds:///run/a.sock'}").url,
        "unix:///run/a.sock"
    );
    assert_eq!(good(r#"{"singleServerConfig": {"address": "valkey://h:1"}}"#).url, "redis://h:1");
    let _ = good(&format!("{ONE}valkeyCapabilities: [REDIRECT]"));
    assert!(good(&format!("{ONE}lazyInitialization: true")).lazy_connect);
    assert!(!good(ONE).lazy_connect);
    let _ = good(&format!("{ONE}threads: &n 4\nnettyThreads: *n"));
    let _ = good(
        "singleServerConfig: {address: 'redis://h:1', retryInterval: 1500, pingTimeout: 1000}",
    );
    let _ = good(
        "singleServerConfig: {address: 'redis://h:1'}\nnameMapper: !<org.redisson.config.DefaultNameMapper> {}",
    );
    // Of a field that is given twice Redisson takes the last.
    assert_eq!(
        good(&format!("{ONE}lockWatchdogTimeout: 1000\nlockWatchdogTimeout: 2000")).watchdog,
        Duration::from_secs(2)
    );
}

#[test]
fn a_short_timeout_shortens_the_time_of_the_replicas() {
    let yaml = "clusterServersConfig: {nodeAddresses: ['redis://h:1'], timeout: 800}";
    let config = good(yaml);
    assert_eq!(config.replica_timeout, Duration::from_millis(799));
    assert!(config.into_settings().is_ok());
    assert!(bad(&format!("{yaml}\nslavesSyncTimeout: 800")).contains("slavesSyncTimeout is 800ms"));
}

#[test]
fn sentinels_without_a_password_of_their_own_get_that_of_the_servers() {
    let mode = "sentinelServersConfig: {masterName: m, sentinelAddresses: ['redis://h:1']";
    for (yaml, username, password) in [
        (format!("{mode}}}\nusername: u\npassword: p"), None, Some("p")),
        (format!("{mode}, sentinelPassword: q}}\nusername: u\npassword: p"), None, Some("q")),
        (format!("{mode}, sentinelUsername: s, sentinelPassword: q}}"), Some("s"), Some("q")),
        (format!("{mode}}}"), None, None),
    ] {
        let config = good(&yaml);
        assert_eq!(config.sentinel_username.as_deref(), username, "{yaml}");
        assert_eq!(config.sentinel_password.as_deref(), password, "{yaml}");
        assert!(config.into_settings().is_ok(), "{yaml}");
    }
}

/// The value of a variable is not replaced again, and no error repeats it.
#[test]
fn what_looks_like_a_variable_in_a_value_is_none() {
    let config = good(&format!("{ONE}password: \"${{ODD_PASSWORD}}\""));
    assert_eq!(config.password.as_deref(), Some("pa${s3cret}word"));
    let why = bad(&format!("{ONE}password: ${{BROKEN}}"));
    assert!(why.contains("3, column 1: Redisson has no field that a variable names"), "{why}");
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    for (yaml, told) in [
        ("", "1, column 1: the file is empty"),
        ("singleServerConfig: [", "this is not YAML"),
        ("threads: 4", "no section names the servers"),
        (
            "singleServerConfig: {adress: 'redis://h:1'}",
            "1, column 22: Redisson has no field singleServerConfig.adress: did you mean address?",
        ),
        (
            "singleServerConfig: {timeout: 3000}",
            "1, column 21: singleServerConfig.address is missing",
        ),
        (
            "singleServerConfig:\n  address: 'redis://h:1'\n  adress: x",
            "3, column 3: Redisson has no field singleServerConfig.adress: did you mean address?",
        ),
        (
            &format!("{ONE}lockWatchdogTimout: 1"),
            "2, column 1: Redisson has no field lockWatchdogTimout: did you mean lockWatchdogTimeout?",
        ),
        (&format!("{ONE}colour: red"), "2, column 1: Redisson has no field colour"),
        (
            "threads: 4\nsingleSeverConfig: {}",
            "2, column 1: Redisson has no field singleSeverConfig: did you mean singleServerConfig?",
        ),
        (
            "clusterServersConfig: {nodeAdresses: ['redis://h:1'], scanInterval: 1}",
            "Redisson has no field clusterServersConfig.nodeAdresses: did you mean nodeAddresses?",
        ),
        ("masterSlaveServersConfig: {masterAddres: x}", "is a mode that this crate does not have"),
        (
            &format!("{ONE}lockWatchdogTimeout: PT3S"),
            "2, column 22: lockWatchdogTimeout must be a whole number",
        ),
        (&format!("{ONE}lockWatchdogTimeout: 3000.0"), "must be a whole number"),
        (&format!("{ONE}lockWatchdogTimeout:"), "must be a whole number"),
        (
            &format!("{ONE}lockWatchdogTimeout: 1"),
            "lockWatchdogTimeout is 1ms, but must be between",
        ),
        (&format!("{ONE}checkLockSyncedSlaves: y"), "must be true or false"),
        (&format!("{ONE}password: [a]"), "2, column 11: password must be a text"),
        (
            &format!("{ONE}password: ${{UNSET}}"),
            "password needs the environment variable UNSET, which has no value",
        ),
        (
            "singleServerConfig: {address: 'redis://${HOST}:1'}",
            "needs the environment variable HOST",
        ),
        (
            &format!("{ONE}clusterServersConfig: {{}}"),
            "clusterServersConfig stands beside singleServerConfig",
        ),
        (&format!("{ONE}---\na: 1"), "a second document"),
        ("clusterServersConfig: {nodeAddresses: 'redis://h:1'}", "nodeAddresses must be a list"),
        ("clusterServersConfig: {nodeAddresses: []}", "nodeAddresses is missing or empty"),
        (
            "clusterServersConfig: {nodeAddresses: ['redis://h:1', 'rediss://h:2']}",
            "all with TLS or all without",
        ),
        (
            "clusterServersConfig: {nodeAddresses: ['redis://h:1'], database: 1}",
            "database must be 0",
        ),
        (
            "clusterServersConfig: {nodeAddresses: ['redis://h:1'], shardedSubscriptionMode: auto}",
            "must be AUTO, ON or OFF",
        ),
        ("sentinelServersConfig: {sentinelAddresses: ['redis://h:1']}", "masterName is missing"),
        ("singleServerConfig: {address: 'h:1'}", "must begin with redis://"),
        ("singleServerConfig: {address: 'redis://s3cret@h'}", "with a port"),
        ("singleServerConfig: {address: 'http://h:1'}", "must begin with redis://"),
        ("singleServerConfig: {address: 'redis://h:1', database: 256}", "0 to 255"),
        ("a: &a [*a]", "the alias has no anchor"),
    ] {
        let why = bad(yaml);
        assert!(why.contains(told), "{why}\n{yaml}");
    }
}

#[test]
fn what_would_change_the_lock_or_who_may_connect_is_refused() {
    for (field, told) in [
        (
            "nameMapper: !<com.example.Prefix> {}",
            "nameMapper is code that this crate cannot run: set a prefix by Config::prefix",
        ),
        ("commandMapper: !<com.example.Renamed> {}", "commandMapper is code"),
        (
            "credentialsResolver: !<org.redisson.config.EntraIdCredentialsResolver> {}",
            "credentialsResolver is code",
        ),
        ("password: '{aes}s3cret'", "is encrypted by Redisson PRO"),
        ("secretKey: s3cret", "Redisson has no field secretKey"),
    ] {
        let why = bad(&format!("{ONE}{field}"));
        assert!(why.contains(told), "{why}");
    }
    for mode in ["masterSlaveServersConfig", "replicatedServersConfig"] {
        let why = bad(&format!("{mode}: {{}}"));
        assert!(why.contains("is a mode that this crate does not have"), "{why}");
    }
    let why = bad(
        "clusterServersConfig: {nodeAddresses: ['redis://h:1'], natMapper: !<com.example.Nat> {}}",
    );
    assert!(why.contains("natMapper must be"), "{why}");
}

#[cfg(feature = "_tls")]
#[test]
fn java_stores_are_replaced_by_tls_of_this_crate() {
    let yaml = |field: &str| format!("singleServerConfig: {{address: 'rediss://h:1'}}\n{field}");
    assert_eq!(good(&yaml("sslVerificationMode: STRICT")).url, "rediss://h:1");
    for (field, told) in [
        ("sslVerificationMode: CA_ONLY", "sslVerificationMode must be STRICT"),
        ("sslVerificationMode: NONE", "sslVerificationMode must be STRICT"),
        (
            "sslTruststore: 'file:/a.p12'\nsslTruststorePassword: s3cret",
            "sslTruststore is a Java key store",
        ),
        ("sslKeystore: 'file:/a.p12'", "sslKeystore is a Java key store"),
    ] {
        let why = bad(&yaml(field));
        assert!(why.contains(told), "{why}");
        assert_eq!(read_with(&yaml(field), true).unwrap().url, "rediss://h:1");
    }
    let old =
        "singleServerConfig: {address: 'rediss://h:1', sslEnableEndpointIdentification: false}";
    assert!(bad(old).contains("sslEnableEndpointIdentification must be true"));
}

#[test]
fn without_tls_the_fields_about_certificates_do_not_count() {
    let _ = good(&format!("{ONE}sslVerificationMode: NONE\nsslTruststore: 'file:/a.p12'"));
}

/// A file of aliases of aliases does not fill the memory.
#[test]
fn a_file_that_grows_when_it_is_read_is_refused() {
    let mut yaml = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..9 {
        let before = vec![format!("*a{}", i - 1); 10].join(", ");
        yaml += &format!("a{i}: &a{i} [{before}]\n");
    }
    assert!(bad(&yaml).contains("too deep or too large"), "{}", bad(&yaml));
    let deep = "[".repeat(40) + &"]".repeat(40);
    assert!(bad(&format!("a: {deep}")).contains("too deep or too large"));
}
