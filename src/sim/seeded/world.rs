//! [`World`]: the servers, the clients and what was found.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use fastrand::Rng;
use tokio::time::Instant;

use super::{
    beliefs::{Asked, Belief, Beliefs, Mode, Taken},
    link::Link,
    options::{Fault, Options},
    server::SimServer,
    trace::Trace,
    transport::ToServer,
};
use crate::{
    Client,
    config::Config,
    engine::{Engine, Subscriptions},
};

pub(super) struct World {
    pub(super) options: Options,
    pub(super) trace: Arc<Trace>,
    pub(super) servers: Vec<Arc<SimServer>>,
    pub(super) clients: Vec<SimClient>,
    beliefs: Arc<Beliefs>,
    owners: AtomicU64,
    healed: AtomicBool,
    pub(super) log: Mutex<Log>,
}

/// What a run leaves.
#[derive(Default)]
pub(super) struct Log {
    pub(super) findings: Vec<String>,
    pub(super) operations: usize,
    pub(super) longest_wait: Duration,
    taken: Vec<Taken>,
    blocked: Vec<(Instant, Duration)>,
}

/// A process: one client of each server.
pub(super) struct SimClient {
    pub(super) by_server: Vec<Client>,
    pub(super) links: Vec<Arc<Link>>,
    pub(super) gone: AtomicBool,
}

impl World {
    pub(super) fn new(options: Options, rng: &mut Rng) -> Arc<Self> {
        let trace = Arc::new(Trace::new());
        let servers: Vec<_> =
            (0..options.servers).map(|name| SimServer::new(name, trace.clone())).collect();
        let clients = (0..options.clients)
            .map(|name| SimClient::new(name, &options, &servers, rng))
            .collect();
        Arc::new(Self {
            options,
            trace,
            servers,
            clients,
            beliefs: Arc::default(),
            owners: AtomicU64::new(1),
            healed: AtomicBool::new(false),
            log: Mutex::default(),
        })
    }

    pub(super) fn find(&self, what: String) {
        self.trace.note(format_args!("FOUND {what}"));
        self.log.lock().unwrap().findings.push(what);
    }

    pub(super) fn count_operation(&self) {
        self.log.lock().unwrap().operations += 1;
    }

    pub(super) fn waited(&self, time: Duration) {
        let mut log = self.log.lock().unwrap();
        log.longest_wait = log.longest_wait.max(time);
    }

    pub(super) fn asked(&self) -> Asked {
        Asked { at: Instant::now() }
    }

    pub(super) fn next_owner(&self) -> u64 {
        self.owners.fetch_add(1, Ordering::Relaxed)
    }

    // ---- What was done to it

    pub(super) fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    pub(super) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    /// Whether nothing has happened that can cost a hold that is renewed.
    pub(super) fn is_calm(&self) -> bool {
        self.options.faults.iter().all(|fault| fault.is_harmless()) && !self.options.force
    }

    /// A server may have lost what it has granted.
    pub(super) fn take_state(&self, server: usize) {
        self.log.lock().unwrap().taken.push(Taken { server, at: Instant::now() });
    }

    pub(super) fn has_lost_state(&self) -> bool {
        !self.log.lock().unwrap().taken.is_empty()
    }

    pub(super) fn block(&self, lasts: Duration) {
        self.log.lock().unwrap().blocked.push((Instant::now(), lasts));
    }

    pub(super) fn was_blocked(&self) -> bool {
        !self.log.lock().unwrap().blocked.is_empty()
    }

    /// For how long nobody was polled since.
    pub(super) fn blocked_since(&self, begun: Instant) -> Duration {
        let log = self.log.lock().unwrap();
        log.blocked
            .iter()
            .filter(|(at, lasts)| *at + *lasts >= begun)
            .map(|(_, lasts)| *lasts)
            .sum()
    }

    // ---- Beliefs

    pub(super) fn believe(
        &self,
        locks: Vec<String>,
        owner: u64,
        mode: Mode,
        lease: Option<Duration>,
        _asked: &Asked,
    ) -> Belief {
        let (taken, blocked) = {
            let log = self.log.lock().unwrap();
            (log.taken.clone(), log.blocked.iter().map(|(_, lasts)| *lasts).sum::<Duration>())
        };
        let lease = lease.unwrap_or(self.options.watchdog).max(self.options.watchdog);
        let slack = self.options.command_timeout + Duration::from_millis(500) + blocked;
        let find = |what| self.find(what);
        self.beliefs.begin(locks, owner, mode, lease, &taken, slack, find)
    }

    pub(super) fn see_token(&self, lock: &str, asked: &Asked, token: u64) {
        if let Some(before) = self.beliefs.see_token(lock, asked, token)
            && !self.has_lost_state()
        {
            self.find(format!("token: {token} of {lock} after {before}"));
        }
    }
}

impl SimClient {
    fn new(name: usize, options: &Options, servers: &[Arc<SimServer>], rng: &mut Rng) -> Self {
        let follows = options.faults.contains(&Fault::FailOver);
        let (mut by_server, mut links) = (Vec::new(), Vec::new());
        for server in servers {
            let config = Config::from_url(format!("redis://s{}:1", server.name))
                .unwrap()
                .watchdog(options.watchdog)
                .command_timeout(options.command_timeout)
                .retry_timeout(options.retry_timeout)
                .fair_wait(options.fair_wait)
                .pass_on(options.pass_on);
            let (_, settings) = config.into_settings().unwrap();
            let subscriptions = Subscriptions::new();
            let link = Link::new(
                format!("c{name}"),
                server,
                subscriptions.clone(),
                options.command_timeout,
                follows,
                rng.fork(),
            );
            let transport = Arc::new(ToServer(link.clone()));
            let runtime = link.runtime.clone();
            by_server.push(Client::on(Engine::start(settings, transport, subscriptions, runtime)));
            links.push(link);
        }
        Self { by_server, links, gone: AtomicBool::new(false) }
    }
}
