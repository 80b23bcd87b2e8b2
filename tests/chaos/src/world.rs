//! All that takes part in a round: servers, networks, processes, and what is written down of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harness::{Lang, Proxy, RedisServer};
use judge::{Place, Policy};

use crate::aof::{Mark, Tail};
use crate::crew::Member;
use crate::journal::Journal;
use crate::monitor::Monitors;
use crate::options::Options;
use crate::stage::Stage;

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) options: Options,
    pub(crate) directory: PathBuf,
    pub(crate) stage: Stage,
    pub(crate) tail: Tail,
    pub(crate) monitors: Monitors,
    pub(crate) journal: Journal,
    pub(crate) places: Vec<Place>,
    pub(crate) members: Vec<Member>,
    /// The network between a member and a server that stands alone.
    pub(crate) proxies: Vec<Proxy>,
    /// The data of a server as they were some time ago.
    old: Option<tempfile::TempDir>,
}

impl World {
    /// Starts the servers. Nobody takes part yet.
    pub(crate) async fn start(options: Options, directory: &Path) -> Self {
        let stage = tokio::task::block_in_place(|| Stage::start(options.topology));
        let nodes = stage.nodes();
        let tail = Tail::start(nodes.iter().map(|node| node.directory().to_owned()).collect());
        let monitors = Monitors::start(nodes.iter().map(|node| node.port()));
        let mut places = Vec::new();
        for (name, kinds) in &options.names {
            let place =
                |kind: &_| Place { server: stage.label(name), name: name.clone(), kind: *kind };
            places.extend(kinds.iter().map(place));
        }
        let mut world = Self {
            directory: directory.to_owned(),
            stage,
            tail,
            monitors,
            journal: Journal::default(),
            places,
            members: Vec::new(),
            proxies: Vec::new(),
            old: None,
            options,
        };
        for number in 0..world.options.rust {
            world.hire(Lang::Rust, number).await;
        }
        for number in 0..world.options.java {
            world.hire(Lang::Java, number).await;
        }
        world
    }

    async fn hire(&mut self, lang: Lang, number: usize) {
        let options = &self.options;
        let proxy = Proxy::start(self.stage.node(0).port()).await;
        let ms = |ms: u64| ms.to_string();
        let args = self.stage.peer_args(proxy.port());
        let args = args
            .watchdog(Duration::from_millis(options.watchdog_ms))
            .fair_wait(Duration::from_millis(options.redisson_fair_wait_ms));
        let args = match (options.replicas, lang) {
            (Policy::None, _) => args.replicas("none"),
            (Policy::AtLeast(least), Lang::Rust) => args.replicas(&least.to_string()),
            _ => args.replicas("all"),
        };
        let args = match lang {
            // One thread, so that its pulse tells when none of its users could run.
            Lang::Rust => args
                .option("--threads", "1")
                .option("--own-fair-wait-ms", ms(options.fair_wait_ms))
                .option("--command-timeout-ms", ms(options.command_timeout_ms))
                .option("--retry-timeout-ms", ms(options.retry_timeout_ms)),
            _ => args,
        };
        self.proxies.push(proxy);
        self.members.push(Member::new(lang, number, args));
    }

    /// Starts a process in this place. Its first steps may meet a server that is not well.
    pub(crate) async fn start_member(&mut self, member: usize) {
        let member = &mut self.members[member];
        for _ in 0..3 {
            match member.start(&self.options, &self.places, &self.directory).await {
                Ok(()) => return,
                Err(error) => eprintln!("{} does not start: {error}", member.process()),
            }
        }
    }

    pub(crate) fn kill_server(&mut self, node: usize) {
        tokio::task::block_in_place(|| self.stage.kill(node));
    }

    pub(crate) fn restart_server(&mut self, node: usize) {
        let heard = self.monitors.heard(node);
        self.tail.mark(node, Mark::Started);
        // Where there are proxies, nobody asks for anything before a monitor listens.
        let shut: Vec<_> = self.proxies.iter().filter(|proxy| !proxy.refuses()).collect();
        shut.iter().for_each(|proxy| proxy.refuse(true));
        tokio::task::block_in_place(|| {
            self.stage.restart(node);
            self.monitors.wait_for(node, heard);
        });
        shut.iter().for_each(|proxy| proxy.refuse(false));
    }

    /// Removes the data of a server that is down.
    pub(crate) fn empty(&mut self, node: usize) {
        self.tail.catch_up(node);
        let _ = fs::remove_dir_all(data_of(self.stage.node(node)));
        self.tail.mark(node, Mark::Emptied);
    }

    /// Keeps a copy of the data of a server, to which it may come back.
    pub(crate) fn remember(&mut self, node: usize) {
        let copy = tempfile::tempdir().expect("a directory for old data");
        copy_files(&data_of(self.stage.node(node)), copy.path());
        self.old = Some(copy);
    }

    /// Brings the data back that were kept, to a server that is down. Whether there are any.
    pub(crate) fn bring_back(&mut self, node: usize) -> bool {
        let Some(copy) = self.old.take() else { return false };
        let data = data_of(self.stage.node(node));
        self.tail.catch_up(node);
        let _ = fs::remove_dir_all(&data);
        self.tail.mark(node, Mark::Replaced);
        fs::create_dir_all(&data).expect("a directory for the data");
        copy_files(copy.path(), &data);
        self.tail.catch_up(node);
        self.tail.mark(node, Mark::Live);
        true
    }
}

fn data_of(server: &RedisServer) -> PathBuf {
    server.directory().join("appendonlydir")
}

fn copy_files(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy of the data");
    }
}
