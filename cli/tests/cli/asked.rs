//! `ask`, and `run --release-when-asked`.

use harness::{PATIENCE, eventually, redis::cmd};
use nix::sys::signal::Signal;
use serde_json::Value as Json;

use crate::stage::{LOCK, Running, Stage, all_ended, cli, code, err, members, out};

async fn listening(stage: &Stage, name: &str) {
    let (redis, channel) = (stage.redis(), format!("redisson_lock_asked:{{{name}}}"));
    eventually(PATIENCE, "a listener", || (redis.subscribers(&channel) == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_may_be_asked_ends_and_frees_its_lock() {
    let stage = Stage::new();
    let nobody = stage.done(&["ask", LOCK]);
    assert_eq!((code(&nobody), &*out(&nobody)), (1, ""), "{nobody:?}");
    assert!(err(&nobody).contains("nobody holds"), "{nobody:?}");
    for (n, kind) in ["lock", "fair", "read", "write", "fenced", "spin", "plain"].iter().enumerate()
    {
        let (script, file) = stage.family(kind, false);
        let line = ["run", "--release-when-asked", "--kind", kind, kind, "--", "sh", "-c", &script];
        let mut run = Running::start(stage.cli(&line));
        let group = members(&file).await;
        listening(&stage, kind).await;
        assert!(!run.has_ended());
        if n % 2 == 0 {
            let asked = stage.done(&["ask", kind]);
            let told = "asked the holder; 1 client listens\n";
            assert_eq!((code(&asked), &*out(&asked)), (0, told), "{asked:?}");
        } else {
            let asked = stage.done(&["--json", "ask", kind]);
            let told: Json = serde_json::from_str(&out(&asked)).unwrap();
            assert_eq!((&told["holders"], &told["listening"]), (&1.into(), &1.into()));
        }
        all_ended(&group).await;
        let ended = run.end().await;
        assert_eq!(code(&ended), 143, "{ended:?}");
        assert!(err(&ended).contains("asked for the lock"), "{ended:?}");
        assert!(!stage.redis().exists(kind), "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_command_works_on_and_a_key_that_is_no_lock_is_told() {
    let stage = Stage::new();
    let (script, file) = stage.family("holder", false);
    let mut run = Running::start(stage.cli(&["run", LOCK, "--", "sh", "-c", &script]));
    members(&file).await;
    let asked = stage.done(&["ask", LOCK]);
    let told = "asked the holder; no client listens now\n";
    assert_eq!((code(&asked), &*out(&asked)), (0, told), "{asked:?}");
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert!(!run.has_ended());
    // The question is no lock.
    let listed = out(&stage.done(&["--json", "ls"]));
    assert!(listed.contains(LOCK) && !listed.contains("redisson_lock_asked"), "{listed}");
    assert!(stage.redis().exists(&format!("redisson_lock_asked:{{{LOCK}}}")));
    run.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(code(&run.end().await), 143);
    stage.redis().query::<()>(cmd("SET").arg("text").arg("of others"));
    stage.redis().query::<()>(cmd("HSET").arg("hash").arg("of").arg("others"));
    for name in ["text", "hash"] {
        let wrong = stage.done(&["ask", name]);
        assert_eq!((code(&wrong), err(&wrong).lines().count()), (65, 1), "{wrong:?}");
        assert!(!stage.redis().exists(&format!("redisson_lock_asked:{{{name}}}")));
    }
}

/// Else nobody would know why the command works on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_cannot_be_asked_says_so() {
    let stage = Stage::new();
    let unread = "questions to the holder cannot be read (lock order:42): ";
    for (user, right, json, told) in [
        ("reader", "-zscore", None, [unread, "can't run this command"]),
        ("listener", "-subscribe", Some("--json"), ["could not subscribe", "no permissions"]),
    ] {
        let rules = ["on", ">pw", "~*", "&*", "+@all", right];
        stage.redis().query::<()>(cmd("ACL").arg("SETUSER").arg(user).arg(&rules));
        let url = stage.server.url().replace("redis://", &format!("redis://{user}:pw@"));
        let (script, file) = stage.family(user, false);
        let line = ["run", "--release-when-asked", LOCK, "--", "sh", "-c", &script];
        let run = Running::start(cli(&url, &[json.as_slice(), &line].concat()));
        members(&file).await;
        // It asks again after 3 s, and says nothing more.
        tokio::time::sleep(std::time::Duration::from_secs(4)).await;
        run.signal(Signal::SIGTERM);
        let ended = run.end().await;
        assert_eq!(code(&ended), 143, "{ended:?}");
        let said = err(&ended);
        assert_eq!(said.lines().count(), 1, "{ended:?}");
        let said = match json {
            Some(_) => serde_json::from_str::<Json>(&said).unwrap()["message"].to_string(),
            None => said.strip_prefix("redisson-lock: ").unwrap().to_owned(),
        };
        assert!(told.iter().all(|part| said.contains(part)), "{said}");
    }
}
