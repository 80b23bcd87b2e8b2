//! What `ls`, `watch` and `doctor` say where a server cannot be reached.

use std::{
    fs,
    process::{Child, Command},
    time::Duration,
};

use harness::{PATIENCE, RedisCluster, RedisServer, Servers, eventually, redis::cmd};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use crate::stage::{LOCK, cli, code, err, json as read, out};

const ID: &str = "6f1c0a3e-8f0e-4a53-9e6f-0d2a3c4b5d6e:17";

/// A `watch --json` that runs, and what it has written so far.
struct Watching {
    child: Child,
    folder: TempDir,
}

impl Watching {
    fn start(mut command: Command) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| fs::File::create(folder.path().join(name)).unwrap();
        command.stdout(file("out")).stderr(file("err"));
        Self { child: command.spawn().unwrap(), folder }
    }

    fn lines(&self, name: &str) -> Vec<String> {
        let text = fs::read_to_string(self.folder.path().join(name)).unwrap();
        // The last one may be written in part.
        text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
    }

    /// Waits until its last look is such a one.
    async fn sees(&self, is_it: impl Fn(&Json) -> bool) {
        let last = || serde_json::from_str(self.lines("out").last()?).ok().filter(&is_it);
        eventually(PATIENCE, "a look", last).await;
    }

    /// What it has said on stderr that contains this.
    fn said(&self, words: &str) -> Vec<String> {
        self.lines("err").into_iter().filter(|line| line.contains(words)).collect()
    }

    /// Waits for its end.
    async fn code(&mut self) -> Option<i32> {
        let ended = || self.child.try_wait().unwrap();
        eventually(PATIENCE, "the end of watch", ended).await.code()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A cluster with some locks, of which one master can be killed.
struct Stage {
    cluster: RedisCluster,
    url: String,
    /// The address of that master.
    gone: String,
    /// The names of all locks.
    all: Vec<&'static str>,
    /// Those of the other masters.
    rest: Vec<&'static str>,
}

impl Stage {
    async fn new() -> Self {
        let builder = RedisCluster::builder().arg("--cluster-require-full-coverage").arg("no");
        let cluster = tokio::task::spawn_blocking(|| builder.start()).await.unwrap();
        let all = vec!["a", "b", "c", "d", "e", "f", "g", "h"];
        for name in &all {
            cmd("HSET").arg(name).arg(ID).arg(1).exec(&mut cluster.client_of(name)).unwrap();
        }
        let gone = cluster.master_of("a");
        let rest: Vec<_> =
            all.iter().copied().filter(|name| cluster.master_of(name) != gone).collect();
        let url = format!("redis-cluster://{}", cluster.addresses()[cluster.master_of(rest[0])]);
        Self { url, gone: cluster.addresses()[gone].clone(), all, rest, cluster }
    }

    /// Kills the master and its replica: nobody takes its place.
    fn kill(&mut self) {
        let (master, replica) = (self.cluster.master_of("a"), self.cluster.replica_of("a"));
        self.cluster.kill(replica);
        self.cluster.kill(master);
    }

    fn sees_the_rest(&self, look: &Json) -> bool {
        look["unreachable"] == json!([self.gone]) && names(&look["locks"]) == self.rest
    }
}

fn names(locks: &Json) -> Vec<&str> {
    locks.as_array().unwrap().iter().map(|lock| lock["name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_without_the_locks_of_a_master_is_told_to_be_incomplete() {
    let mut stage = Stage::new().await;
    stage.kill();
    let ls = cli(&stage.url, &["--json", "ls"]).output().unwrap();
    assert_eq!((code(&ls), names(&read(&ls).into())), (69, stage.rest.clone()), "{ls:?}");
    let told = err(&ls).lines().last().unwrap().to_owned();
    assert!(told.contains("the list is incomplete") && told.contains(&stage.gone), "{ls:?}");
    let last = cli(&stage.url, &["--json", "watch", "--count", "1"]).output().unwrap();
    assert!(code(&last) == 69 && stage.sees_the_rest(&read(&last)[0]), "{last:?}");
    let last = cli(&stage.url, &["watch", "--count", "1"]).output().unwrap();
    assert!(code(&last) == 69 && out(&last).contains(&stage.gone), "{last:?}");
}

/// It has a connection, which breaks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_shows_the_locks_of_the_other_masters() {
    let mut stage = Stage::new().await;
    let watch = Watching::start(cli(&stage.url, &["--json", "watch", "--interval", "100ms"]));
    watch.sees(|look| names(&look["locks"]) == stage.all).await;
    stage.kill();
    watch.sees(|look| stage.sees_the_rest(look)).await;
    let says = || watch.said("the list is incomplete").into_iter().next();
    eventually(PATIENCE, "words", says).await;
    // Further looks lack the same.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(watch.said("the list is incomplete").len(), 1, "{:?}", watch.said(""));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_calls_a_master_bad_that_it_cannot_reach() {
    let mut stage = Stage::new().await;
    stage.kill();
    let doctor = cli(&stage.url, &["--json", "doctor"]).output().unwrap();
    let found = read(&doctor);
    let bad = found.iter().find(|it| it["server"] == *stage.gone && it["verdict"] == "bad");
    assert!(code(&doctor) == 1 && bad.is_some(), "{doctor:?}");
    let grants = |it: &&Json| it["advice"].as_str().unwrap().contains("grant");
    assert_eq!(found.iter().find(grants), None, "no right is missing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_goes_on_when_the_server_is_back() {
    let mut server = RedisServer::start();
    let watch = Watching::start(cli(&server.url(), &["--json", "watch", "--interval", "100ms"]));
    for name in [LOCK, "order:43"] {
        cmd("HSET").arg(name).arg(ID).arg(1).exec(&mut server.client()).unwrap();
        watch.sees(|look| names(&look["locks"]) == [name]).await;
        let said = watch.said("look failed").len();
        server.kill();
        let says = || (watch.said("look failed").len() > said).then_some(());
        eventually(PATIENCE, "words", says).await;
        // Further looks fail.
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(watch.said("look failed").len(), said + 1, "{:?}", watch.said(""));
        server.restart();
    }
    watch.sees(|look| names(&look["locks"]).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watch_fails_if_its_last_look_does() {
    let mut server = RedisServer::start();
    let line = ["--json", "watch", "--interval", "2s", "--count", "2"];
    let mut watch = Watching::start(cli(&server.url(), &line));
    watch.sees(|_| true).await;
    server.kill();
    assert_eq!(watch.code().await, Some(69));
    assert_eq!(watch.said("look failed").len(), 1, "{:?}", watch.said(""));
}
