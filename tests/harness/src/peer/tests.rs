use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

/// A peer in a few lines of shell, in place of a real one.
struct Script(tempfile::TempDir);

impl Script {
    fn new(body: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("run");
        fs::write(&path, format!("#!/bin/sh\n{body}")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(directory)
    }

    /// Answers `hello`, then every request with its own `value`.
    fn echo() -> Self {
        Self::new(
            r#"hello='{"impl":"sh","version":"1","client":"c"}'
            while read -r line; do
                id=${line##*'"id":'}; id=${id%%[,\}]*}
                case $line in
                *'"hello"'*) value=$hello;;
                *'"refuse"'*) echo '{"id":'$id',"ok":false,"error":"not_held","message":"no"}'; continue;;
                *'"silence"'*) continue;;
                *'"close"'*) echo '{"id":'$id',"ok":true,"value":null,"us":1}'; exit 0;;
                *) value=true;;
                esac
                echo '{"id":'$id',"ok":true,"value":'$value',"us":5,"at":100}'
            done"#,
        )
    }

    async fn start(&self) -> Result<Peer, PeerError> {
        Peer::spawn(Lang::Rust, &PeerArgs::default().launcher(self.0.path().join("run"))).await
    }
}

#[tokio::test]
async fn answers_find_their_requests() {
    let script = Script::echo();
    let peer = script.start().await.unwrap();
    assert_eq!(peer.client(), "c");
    let silent = peer.start(json!({ "op": "silence" }));
    assert_eq!(
        peer.call(json!({ "op": "lock" })).await,
        Ok(Answer { value: true.into(), us: 5, at: 100 })
    );
    assert_eq!(peer.call(json!({ "op": "refuse" })).await.unwrap_err().code(), Some("not_held"));
    assert!(silent.is_pending());
    peer.kill().await;
    assert!(matches!(silent.answer().await, Err(PeerError::Gone(_))));
    assert!(matches!(peer.call(json!({ "op": "lock" })).await, Err(PeerError::Gone(_))));
}

#[tokio::test]
async fn a_paused_peer_answers_when_it_is_resumed() {
    let script = Script::echo();
    let peer = script.start().await.unwrap();
    peer.pause();
    let pending = peer.start(json!({ "op": "lock" }));
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(pending.is_pending());
    peer.resume();
    pending.granted().await;
}

#[tokio::test]
async fn a_closed_peer_ends_and_so_does_one_without_input() {
    let script = Script::echo();
    let (closed, crashed) = (script.start().await.unwrap(), script.start().await.unwrap());
    closed.close().await.unwrap();
    crashed.eof().await;
    assert!(!crashed.is_alive());
}

#[tokio::test]
async fn a_peer_that_cannot_be_built_says_why() {
    let script = Script::new("echo 'no JVM here' >&2; exit 3");
    assert_eq!(script.start().await.unwrap_err(), PeerError::Unavailable("no JVM here".into()));
}

#[tokio::test]
async fn a_peer_that_dies_leaves_its_log() {
    let script = Script::new("echo 'boom' >&2; exit 1");
    let PeerError::Gone(log) = script.start().await.unwrap_err() else { panic!() };
    assert!(log.contains("boom"), "{log}");
}

#[test]
fn a_hand_over_is_measured_from_the_start_of_the_release() {
    let answer = |at, us| Answer { value: Value::Null, us, at };
    let (unlock, lock) = (answer(1_000, 300), answer(1_100, 90_000));
    assert_eq!(lock.after_start_of(&unlock), Duration::from_micros(400));
}
