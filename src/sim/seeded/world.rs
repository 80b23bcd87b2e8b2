//! [`World`]: the servers, the clients and what was found.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use futures::future::join_all;
use judge::{Call, Policy};

use super::{
    cluster::ToCluster,
    link::Link,
    options::{Fault, Options},
    recorder::Recorder,
    server::SimServer,
    trace::Trace,
    transport::ToServer,
};
use crate::{
    Client, Error, Replicas,
    config::Config,
    engine::{Engine, Subscriptions},
    owner::Identity,
    runtime::ClientRuntime,
    wire::Transport,
};

pub(super) struct World {
    pub(super) options: Options,
    pub(super) trace: Arc<Trace>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) servers: Vec<Arc<SimServer>>,
    pub(super) clients: Vec<SimClient>,
    healed: AtomicBool,
    log: Mutex<Log>,
    /// Keys and channels that should be gone, by server.
    pub(super) left: Mutex<Vec<(String, String)>>,
}

/// What a run leaves.
#[derive(Default)]
pub(super) struct Log {
    pub(super) findings: Vec<String>,
    pub(super) longest_wait: Duration,
    lost_state: bool,
    troubled: bool,
    leaves_places: bool,
}

/// A process: one client of each server, or of the cluster.
pub(super) struct SimClient {
    pub(super) by_server: Vec<Client>,
    pub(super) links: Vec<Arc<Link>>,
    gone: AtomicBool,
}

impl World {
    pub(super) fn new(options: Options, rng: &mut Rng, traced: bool) -> Arc<Self> {
        let trace = Arc::new(Trace::new(traced));
        let recorder = Recorder::new(trace.clone());
        let servers: Vec<_> =
            (0..options.servers).map(|name| SimServer::new(name, trace.clone())).collect();
        let clients: Vec<_> = (0..options.clients)
            .map(|name| SimClient::new(name, &options, &servers, rng))
            .collect();
        for (name, client) in clients.iter().enumerate() {
            let ids = client.by_server.iter().map(|client| client.id().to_owned());
            recorder.start(name, ids, policy(options.replicas[name]));
        }
        Arc::new(Self {
            options,
            trace,
            recorder,
            servers,
            clients,
            healed: AtomicBool::new(false),
            log: Mutex::default(),
            left: Mutex::default(),
        })
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn find(&self, what: String) {
        self.trace.note(format_args!("FOUND {what}"));
        self.log().findings.push(what);
    }

    pub(super) fn waited(&self, time: Duration) {
        let mut log = self.log();
        log.longest_wait = log.longest_wait.max(time);
    }

    // ---- What was done to it

    pub(super) fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    pub(super) fn set_healed(&self, healed: bool) {
        self.healed.store(healed, Ordering::Relaxed);
    }

    /// Whether nothing has happened so far that can cost a hold that is renewed.
    pub(super) fn is_calm(&self) -> bool {
        !self.log().troubled
    }

    /// Something has.
    pub(super) fn trouble(&self) {
        self.log().troubled = true;
    }

    /// A server may have lost what it has granted.
    pub(super) fn take_state(&self) {
        self.log().lost_state = true;
    }

    pub(super) fn has_lost_state(&self) -> bool {
        self.log().lost_state
    }

    /// A client could not give everything back when it was closed.
    pub(super) fn leave_places(&self) {
        self.log().leaves_places = true;
    }

    /// Whether a client is gone that may have left its places in lines.
    pub(super) fn has_left_places(&self) -> bool {
        self.log().leaves_places
    }

    pub(super) fn is_gone(&self, client: usize) -> bool {
        self.clients[client].gone.load(Ordering::Relaxed)
    }

    pub(super) fn set_gone(&self, client: usize) {
        self.clients[client].gone.store(true, Ordering::Relaxed);
    }

    /// Closes all clients of a process.
    pub(super) async fn close(&self, client: usize) -> Result<(), Error> {
        let asked = self.recorder.invoke(client, Call::Close);
        let closing = self.clients[client].by_server.iter().map(Client::close);
        let done: Result<Vec<()>, _> = join_all(closing).await.into_iter().collect();
        self.trace.note(format_args!("closed {done:?}"));
        let done = done.map(drop);
        asked.done(&done);
        done
    }

    /// Those that were neither killed nor closed.
    pub(super) fn living(&self) -> impl Iterator<Item = (usize, &SimClient)> {
        self.clients.iter().enumerate().filter(|(name, _)| !self.is_gone(*name))
    }
}

fn policy(replicas: Replicas) -> Policy {
    match replicas {
        Replicas::None => Policy::None,
        Replicas::AtLeast(least) => Policy::AtLeast(least),
        // A server has one replica here.
        Replicas::All | Replicas::OneOfAll => Policy::All,
    }
}

impl SimClient {
    fn new(name: usize, options: &Options, servers: &[Arc<SimServer>], rng: &mut Rng) -> Self {
        let follows = options.faults.contains(&Fault::FailOver);
        let engine = |server: &str, transport: Arc<dyn Transport>, subscriptions| {
            let config = Config::from_url(format!("redis://{server}:1"))
                .unwrap()
                .watchdog(options.watchdog)
                .command_timeout(options.command_timeout)
                .retry_timeout(options.retry_timeout)
                .fair_wait(options.fair_wait)
                .replicas(options.replicas[name])
                .replica_timeout(options.command_timeout / 2)
                .reuse_holds(options.reuse_holds);
            let (_, settings) = config.into_settings().unwrap();
            let runtime = ClientRuntime::current();
            Client::on(Engine::start(Identity::new(), settings, transport, subscriptions, runtime))
        };
        let mut link = |server: &Arc<SimServer>, subscriptions: &Arc<Subscriptions>| {
            let (name, timeout) = (format!("c{name}"), options.command_timeout);
            Link::new(name, server, subscriptions.clone(), timeout, follows, rng.fork())
        };
        let (mut by_server, mut links) = (Vec::new(), Vec::new());
        if options.cluster {
            let subscriptions = Subscriptions::new();
            links.extend(servers.iter().map(|server| link(server, &subscriptions)));
            let transport = Arc::new(ToCluster::new(&links));
            by_server.push(engine("cluster", transport, subscriptions));
        } else {
            for server in servers {
                let subscriptions = Subscriptions::new();
                let link = link(server, &subscriptions);
                let transport = Arc::new(ToServer(link.clone()));
                by_server.push(engine(&format!("s{}", server.name), transport, subscriptions));
                links.push(link);
            }
        }
        Self { by_server, links, gone: AtomicBool::new(false) }
    }
}
