//! `doctor`.

use harness::{
    RedisServer,
    redis::{Value, cmd},
};

use crate::stage::{Stage, cli, code, json, out};

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
