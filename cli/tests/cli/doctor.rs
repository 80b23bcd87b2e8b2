//! `doctor`.

use harness::{
    Proxy, RedisServer,
    redis::{Value, cmd},
};
use serde_json::Value as Json;

use crate::stage::{Stage, cli, code, err, json, out};

fn check<'a>(findings: &'a [Json], name: &str) -> &'a Json {
    findings.iter().find(|it| it["check"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn doctor_is_content_with_a_server_for_locks() {
    let stage = Stage::new();
    let done = stage.done(&["doctor", "--json"]);
    assert_eq!(code(&done), 0, "{done:?}");
    let checks: Vec<_> =
        json(&done).iter().map(|it| it["check"].as_str().unwrap().to_owned()).collect();
    assert_eq!(
        checks,
        ["version", "eviction", "clock", "replicas", "rights", "names", "announcing", "messages"]
    );
    assert!(json(&done).iter().all(|it| it["verdict"] != "bad"), "{done:?}");
    assert!(stage.redis().keys().is_empty(), "it leaves nothing behind");
}

#[test]
fn doctor_advises_against_evictions() {
    let server = RedisServer::builder().arg("--maxmemory").arg("100mb");
    let stage = Stage::with(server.arg("--maxmemory-policy").arg("allkeys-lru"));
    let done = stage.done(&["doctor", "--json"]);
    assert_eq!(code(&done), 1, "{done:?}");
    let bad: Vec<_> = json(&done).into_iter().filter(|it| it["verdict"] == "bad").collect();
    assert_eq!((bad.len(), &bad[0]["check"]), (1, &"eviction".into()), "{done:?}");
    assert!(bad[0]["advice"].as_str().unwrap().contains("noeviction"));
}

#[test]
fn doctor_names_a_right_that_is_missing() {
    let stage = Stage::new();
    let rights = ["on", ">pw", "~*", "&*", "+@all", "-pexpire"];
    let _: Value = stage.redis().query(cmd("ACL").arg("SETUSER").arg("u").arg(&rights));
    let url = stage.server.url().replace("redis://", "redis://u:pw@");
    let done = cli(&url, &["doctor", "--json"]).output().unwrap();
    assert_eq!(code(&done), 1, "{done:?}");
    let found = json(&done);
    let rights = found.iter().find(|it| it["check"] == "rights").unwrap();
    assert_eq!(rights["verdict"], "bad", "{rights}");
    assert!(rights["value"].as_str().unwrap().starts_with("lock"), "{rights}");
    assert!(!out(&done).contains("pw"), "{done:?}");
}

/// It may be all that its services need.
#[test]
fn doctor_warns_of_rights_that_only_other_kinds_or_names_need() {
    let stage = Stage::new();
    for (user, rights, told) in [
        ("plain", ["~*", "-lindex"], "fair: "),
        ("narrow", ["~orders*", "+ping"], "redisson-lock-doctor"),
    ] {
        let rights = ["on", ">pw", "&*", "+@all", rights[0], rights[1]];
        let _: Value = stage.redis().query(cmd("ACL").arg("SETUSER").arg(user).arg(&rights));
        let url = stage.server.url().replace("redis://", &format!("redis://{user}:pw@"));
        let done = cli(&url, &["doctor", "--json"]).output().unwrap();
        assert_eq!(code(&done), 0, "{done:?}");
        let found = json(&done);
        let rights = found.iter().find(|it| it["check"] == "rights").unwrap();
        assert_eq!(rights["verdict"], "warning", "{rights}");
        assert!(rights["value"].as_str().unwrap().contains(told), "{rights}");
    }
}

#[test]
fn doctor_advises_on_a_server_that_is_full_or_a_replica() {
    for (set, told) in [
        (["CONFIG", "SET", "maxmemory", "1"], "the server is full"),
        (["REPLICAOF", "127.0.0.1", "1", ""], "this server is a replica"),
    ] {
        let stage = Stage::new();
        let mut command = cmd(set[0]);
        command.arg(set.iter().skip(1).filter(|word| !word.is_empty()).collect::<Vec<_>>());
        let _: Value = stage.redis().query(&command);
        let done = stage.done(&["doctor", "--json"]);
        assert_eq!(code(&done), 1, "{done:?}");
        let found = json(&done);
        let rights = found.iter().find(|it| it["check"] == "rights").unwrap();
        assert_eq!(rights["verdict"], "bad", "{rights}");
        assert!(rights["advice"].as_str().unwrap().contains(told), "{rights}");
        let announcing = found.iter().find(|it| it["check"] == "announcing").unwrap();
        assert_eq!(announcing["advice"], rights["advice"], "{announcing}");
    }
}

#[test]
fn doctor_leaves_nothing_behind_where_rights_are_missing() {
    let stage = Stage::new();
    for (n, missing) in ["-pexpire", "-del", "-hget", "-hset", "-eval"].into_iter().enumerate() {
        let (user, rights) = (format!("u{n}"), ["on", ">pw", "~*", "&*", "+@all", missing]);
        let _: Value = stage.redis().query(cmd("ACL").arg("SETUSER").arg(&user).arg(&rights));
        let url = stage.server.url().replace("redis://", &format!("redis://{user}:pw@"));
        let done = cli(&url, &["doctor", "--json"]).output().unwrap();
        let found = json(&done);
        let announcing = found.iter().find(|it| it["check"] == "announcing").unwrap();
        assert_eq!(announcing["verdict"], "warning", "{missing}: {announcing}");
        let keys = stage.redis().keys();
        let left: Vec<_> = keys.iter().filter(|it| it.contains("redisson_lock_client")).collect();
        assert!(left.is_empty(), "{missing}: {left:?}");
    }
}

/// It polls, and may have the lock sooner than a message that is late.
#[test]
fn doctor_warns_where_no_message_can_wake_a_waiter() {
    let stage = Stage::new();
    let rights = ["on", ">pw", "~*", "&*", "+@all", "-subscribe"];
    let _: Value = stage.redis().query(cmd("ACL").arg("SETUSER").arg("u").arg(&rights));
    let url = stage.server.url().replace("redis://", "redis://u:pw@");
    for _ in 0..3 {
        let done = cli(&url, &["doctor", "--json"]).output().unwrap();
        assert_eq!(code(&done), 0, "{done:?}");
        let found = json(&done);
        let messages = check(&found, "messages");
        assert_eq!(messages["verdict"], "warning", "{messages}");
        assert!(messages["value"].as_str().unwrap().contains("without a message"), "{messages}");
        assert!(messages["advice"].as_str().unwrap().contains("channels"), "{messages}");
    }
}

/// A waiter that polls may be as fast as a message.
#[test]
fn doctor_does_not_call_messages_good_if_it_cannot_ask_who_listens() {
    let stage = Stage::new();
    for (user, subscribe) in [("hears", "+subscribe"), ("polls", "-subscribe")] {
        let rights = ["on", ">pw", "~*", "&*", "+@all", "-pubsub", subscribe];
        let _: Value = stage.redis().query(cmd("ACL").arg("SETUSER").arg(user).arg(&rights));
        let url = stage.server.url().replace("redis://", &format!("redis://{user}:pw@"));
        let found = json(&cli(&url, &["doctor", "--json"]).output().unwrap());
        let messages = check(&found, "messages");
        assert_eq!(messages["verdict"], "warning", "{user}: {messages}");
        assert!(messages["advice"].as_str().unwrap().contains("NUMSUB"), "{user}: {messages}");
    }
}

#[test]
fn doctor_tells_what_it_found_where_a_second_client_cannot_connect() {
    let stage = Stage::new();
    let _: Value = stage.redis().query(cmd("CONFIG").arg("SET").arg("maxclients").arg(3));
    let done = stage.done(&["doctor", "--json"]);
    let found = json(&done);
    assert_eq!((code(&done), &*err(&done)), (1, ""), "{done:?}");
    assert_eq!(found.len(), 8, "{done:?}");
    let messages = check(&found, "messages");
    assert_eq!(messages["verdict"], "bad", "{messages}");
    assert!(messages["advice"].as_str().unwrap().contains("maxclients"), "{messages}");
    let keys = stage.redis().keys();
    assert!(!keys.iter().any(|key| key.contains("doctor")), "{keys:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_blames_no_right_for_another_error() {
    let stage = Stage::new();
    let proxy = Proxy::start(stage.server.port()).await;
    let lost = proxy.lose_requests("replication", 1);
    // That of the check is not the first.
    for _ in 0..10 {
        proxy.answer_next("SETNAME", "-ERR unknown command 'CLIENT'");
    }
    let done = cli(&proxy.url(), &["doctor", "--json"]).output().unwrap();
    assert_eq!(lost.count(), 1, "{done:?}");
    let found = json(&done);
    for name in ["replicas", "names"] {
        let finding = check(&found, name);
        assert_eq!(finding["verdict"], "warning", "{finding}");
        let advice = finding["advice"].as_str().unwrap();
        assert!(!advice.contains("may not") && !advice.contains("grant"), "{finding}");
    }
    assert_eq!(code(&done), 0, "{done:?}");
}
