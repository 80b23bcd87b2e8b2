//! Which errors of which versions of Redis mean what.

use super::*;

#[test]
fn errors_of_scripts_are_read_as_redis_6_writes_them_too() {
    let words = "ERR Error running script (call to f_3b64a469): @user_script";
    let by_7 = "Operation script: 3b64a469, on @user_script:1.";
    for text in [format!("WRONGTYPE {by_7}"), format!("{words}:1: WRONGTYPE Operation")] {
        assert!(matches!(WireError::from_server(&text), WireError::WrongType), "{text}");
    }
    for text in [format!("READONLY {by_7}"), format!("{words}: 12: -READONLY Operation")] {
        assert!(matches!(WireError::from_server(&text), WireError::NotNow(_)), "{text}");
    }
    let elsewhere = "attempted to access a non local key in a cluster node";
    let rehashing = "Unable to execute command 'exists' in script because undeclared keys were accessed \
                     during rehashing of the slot";
    for text in [
        format!("ERR Script {elsewhere} script: 3b64a469, on @user_script:26."),
        format!("{words}:1: @user_script: 1: Lua script {elsewhere}"),
        // Redis 7.4 and Valkey 8.
        format!("ERR {rehashing} script: 3b64a469, on @user_script:26."),
        format!("ERR {rehashing}"),
    ] {
        let error = WireError::from_server(&text);
        assert!(matches!(error, WireError::NotNow(_)) && error.is_of_keys_apart(), "{text}");
        assert!(!error.did_nothing(), "{text}");
    }
    let number = "value is not an integer or out of range";
    for text in [
        format!("ERR {number}"),
        format!("ERR {number} script: 3b64a469, on @user_script:1."),
        format!("{words}:1: ERR {number}"),
        format!("{words}:1: @user_script: 1: -ERR {number}"),
        format!("@user_script: 1: -ERR {number}"),
    ] {
        assert!(matches!(WireError::from_server(&text), WireError::WrongType), "{text}");
    }
    let refused = WireError::from_server(&format!("{words}:1: ERR unknown"));
    assert!(matches!(refused, WireError::Refused(_)), "{refused:?}");
}

#[test]
fn the_kind_of_an_error_is_that_of_its_code() {
    use RedisErrorKind as Kind;

    let by_6 = "ERR Error running script (call to f_d4): @user_script:1: @user_script: 1:";
    // With `cluster-allow-reads-when-down`.
    let reads_only = "attempted to execute a write command while the cluster is down and readonly";
    for (kind, text) in [
        (Kind::Auth, "NOAUTH Authentication required."),
        (Kind::Auth, "WRONGPASS invalid username-password pair or user is disabled."),
        (Kind::Auth, "ERR AUTH <password> called without any password configured"),
        (Kind::Auth, "DENIED Redis is running in protected mode"),
        (Kind::NoPermission, "NOPERM this user has no permissions to run 'evalsha'"),
        (Kind::NoPermission, "ERR The user executing the script can't run this command"),
        (Kind::ReadOnly, "READONLY You can't write against a read only replica."),
        (Kind::ReadOnly, &format!("{by_6} -READONLY You can't write")),
        (Kind::Loading, "LOADING Redis is loading the dataset in memory"),
        (Kind::Busy, "BUSY Redis is busy running a script."),
        (Kind::OutOfMemory, "OOM command not allowed when used memory > 'maxmemory'."),
        (Kind::CannotSave, "MISCONF Errors writing to the AOF file"),
        (Kind::NoReplicas, "NOREPLICAS Not enough good replicas to write."),
        (Kind::NoMaster, "MASTERDOWN Link with MASTER is down"),
        (Kind::NoMaster, "ERR No such master with that name"),
        (Kind::ClusterDown, "CLUSTERDOWN Hash slot not served"),
        (Kind::ClusterDown, &format!("ERR Script {reads_only}")),
        (Kind::ClusterDown, &format!("{by_6} Lua script {reads_only}")),
        (Kind::Moved, "MOVED 866 127.0.0.1:7001"),
        (Kind::Moved, "ASK 866 127.0.0.1:7001"),
        (Kind::Moved, "TRYAGAIN Multiple keys request during rehashing of slot"),
        (Kind::Moved, "ERR Script attempted to access a non local key in a cluster node"),
        (Kind::TooManyClients, "ERR max number of clients reached"),
        (Kind::Refused, "ERR unknown command 'EVALSHA'"),
        (Kind::Refused, "CROSSSLOT Keys in request don't hash to the same slot"),
    ] {
        assert_eq!(kind_of(text), kind, "{text}");
    }
}

#[test]
fn the_arguments_of_a_command_do_not_change_the_kind_of_an_error() {
    for name in ["order:42", "password-reset:42", "OAUTH:42", "TRYAGAIN", "a non local key"] {
        let text = format!(
            "ERR unknown command 'EVALSHA', with args beginning with: 'd47e' '1' '{name}' "
        );
        assert_eq!(kind_of(&text), RedisErrorKind::Refused, "{name}");
        let error = WireError::from_server(&text);
        assert!(matches!(error, WireError::Refused(_)), "{error:?}");
    }
}

/// The texts are those of real servers of these versions.
#[test]
fn what_passes_is_waited_for_and_what_does_not_is_told() {
    let by_6 = "ERR Error running script (call to f_d47ed46b): @user_script:1: @user_script: 1:";
    let by_7 = "script: d47ed46b, on @user_script:1.";
    for (code, words) in [
        ("MISCONF", "Redis is configured to save RDB snapshots, but it's currently unable to"),
        ("MISCONF", "Errors writing to the AOF file: No space left on device"),
        ("OOM", "command not allowed when used memory > 'maxmemory'."),
        ("NOREPLICAS", "Not enough good replicas to write."),
        ("READONLY", "You can't write against a read only replica."),
    ] {
        for text in [
            format!("{code} {words}"),
            format!("{code} {words} {by_7}"),
            format!("{by_6} -{code} {words}"),
            format!("@user_script: 1: -{code} {words}"),
            format!("=[C]: -1: -{code} {words}"),
        ] {
            let error = WireError::from_server(&text);
            assert!(matches!(error, WireError::NotNow(_)), "{text}: {error:?}");
            assert!(error.did_nothing(), "{text}");
        }
    }
    for text in [
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script.",
        "MASTERDOWN Link with MASTER is down",
        "CLUSTERDOWN Hash slot not served",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "ERR max number of clients reached",
    ] {
        assert!(matches!(WireError::from_server(text), WireError::NotNow(_)), "{text}");
    }
    for text in [
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "NOAUTH Authentication required.",
        "WRONGPASS invalid username-password pair or user is disabled.",
    ] {
        let error = WireError::from_server(text);
        assert!(matches!(error, WireError::Refused(_)), "{text}: {error:?}");
        assert!(error.did_nothing(), "{text}");
    }
    for text in [
        format!("ERR The user executing the script can't run this command {by_7}"),
        format!("NOPERM ACL failure in script: User has no permissions {by_7}"),
        "NOPERM ACL failure in script: User has no permissions".to_owned(),
        format!("{by_6} The user executing the script can't run this command"),
        "ERR unknown command".to_owned(),
    ] {
        let error = WireError::from_server(&text);
        assert!(matches!(error, WireError::Refused(_)), "{text}: {error:?}");
        assert!(!error.did_nothing(), "{text}");
    }
}
