//! A master, its replicas and the sentinels that watch them.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use redis::{Connection, RedisResult, cmd};

use crate::connect::connect;
use crate::inspect::Inspector;
use crate::peer::PeerArgs;
use crate::server::{RedisServer, RedisServerBuilder};
use crate::servers::Servers;
use crate::tls::TlsFiles;
use crate::wait::{PATIENCE, blocking, eventually};

const SENTINELS: usize = 3;
const QUORUM: usize = 2;
const START_LIMIT: Duration = Duration::from_secs(60);
const REPLY_LIMIT: Duration = Duration::from_secs(1);

/// One master with replicas, and three sentinels of which two decide; gone when dropped.
///
/// Servers are counted from 0, which is no more than a name: who is master, the sentinels say.
#[derive(Debug)]
pub struct Sentinel {
    servers: Vec<RedisServer>,
    sentinels: Vec<RedisServer>,
}

/// What a [`Sentinel`] is started with.
#[derive(Debug, Clone)]
pub struct SentinelBuilder {
    replicas: usize,
    down_after: Duration,
    tilt: Duration,
    tls: Option<TlsFiles>,
    arguments: Vec<String>,
    roles_are_kept: bool,
}

impl Sentinel {
    /// What the sentinels call the master.
    pub const MASTER: &str = "harness";

    /// Starts servers and sentinels and waits until they all know each other.
    ///
    /// # Panics
    /// When they do not come up.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// The same with other terms.
    pub fn builder() -> SentinelBuilder {
        SentinelBuilder::default()
    }

    /// `127.0.0.1:port` of every sentinel.
    pub fn sentinels(&self) -> Vec<String> {
        self.sentinels.iter().map(RedisServer::address).collect()
    }

    /// `127.0.0.1:port` of every server, be it alive or not.
    pub fn addresses(&self) -> Vec<String> {
        self.servers.iter().map(RedisServer::address).collect()
    }

    /// A server, such as for [`RedisServer::pause`].
    pub fn node(&self, node: usize) -> &RedisServer {
        &self.servers[node]
    }

    /// A sentinel.
    pub fn sentinel(&self, sentinel: usize) -> &RedisServer {
        &self.sentinels[sentinel]
    }

    /// The master, as the first sentinel says that can be reached.
    ///
    /// # Panics
    /// When there is none.
    pub fn master(&self) -> usize {
        let said = self.sentinels.iter().find_map(|sentinel| self.master_by(sentinel));
        said.expect("a sentinel that knows the master")
    }

    /// Kills a server (SIGKILL).
    pub fn kill(&mut self, node: usize) {
        self.servers[node].kill();
    }

    /// Stops all sentinels where they stand (SIGSTOP).
    pub fn pause_sentinels(&self) {
        self.sentinels.iter().for_each(RedisServer::pause);
    }

    /// Lets all sentinels go on (SIGCONT).
    pub fn resume_sentinels(&self) {
        self.sentinels.iter().for_each(RedisServer::resume);
    }

    /// Makes all sentinels forget the master.
    pub fn forget_master(&self) {
        for sentinel in &self.sentinels {
            let mut remove = cmd("SENTINEL");
            remove.arg("REMOVE").arg(Self::MASTER).exec(&mut sentinel.client()).unwrap();
        }
    }

    /// Makes all sentinels watch the server on this loopback port as a master of this name, which they do not know yet.
    pub fn watch(&self, name: &str, port: u16) {
        for sentinel in &self.sentinels {
            let mut monitor = cmd("SENTINEL");
            monitor.arg("MONITOR").arg(name).arg("127.0.0.1").arg(port).arg(QUORUM);
            monitor.exec(&mut sentinel.client()).unwrap();
        }
    }

    /// Kills a sentinel (SIGKILL).
    pub fn kill_sentinel(&mut self, sentinel: usize) {
        self.sentinels[sentinel].kill();
    }

    /// Starts a server again, empty; kills it first if it still runs. The sentinels make a replica of a former master
    /// after some ten seconds: [`Self::settled`].
    pub fn restart(&mut self, node: usize) {
        self.servers[node].restart();
    }

    /// Waits until all sentinels that can be reached name another master than `lost`, and it is one; gives that one.
    pub async fn failed_over(&self, lost: usize) -> usize {
        let other = || self.agreed().filter(|&master| master != lost);
        eventually(PATIENCE, &format!("another master than {lost}"), other).await
    }

    /// Waits until all servers are linked to the master, and all sentinels know all of them.
    pub async fn settled(&self) {
        let settled = || self.check().ok().filter(|&is_well| is_well);
        eventually(PATIENCE, "replicas linked and sentinels that know them", settled).await;
    }

    fn check(&self) -> RedisResult<bool> {
        let Some(master) = self.agreed() else { return Ok(false) };
        let replicas = self.servers.len() - 1;
        let info = replication(&self.servers[master])?;
        if info.matches("state=online").count() != replicas {
            return Ok(false);
        }
        for sentinel in &self.sentinels {
            let known: HashMap<String, String> = cmd("SENTINEL")
                .arg("MASTER")
                .arg(Self::MASTER)
                .query(&mut connect(sentinel.port(), REPLY_LIMIT)?)?;
            let number = |field| known.get(field).and_then(|number: &String| number.parse().ok());
            let is_well = number("num-slaves") == Some(replicas)
                && number("num-other-sentinels") == Some(SENTINELS - 1)
                && known.get("flags").is_some_and(|flags| flags == "master");
            if !is_well {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn agreed(&self) -> Option<usize> {
        let mut said = self.sentinels.iter().filter_map(|sentinel| self.master_by(sentinel));
        let first = said.next()?;
        let is_one = || replication(&self.servers[first]).is_ok_and(|info| is_master(&info));
        (said.all(|other| other == first) && is_one()).then_some(first)
    }

    fn master_by(&self, sentinel: &RedisServer) -> Option<usize> {
        let mut connection = connect(sentinel.port(), REPLY_LIMIT).ok()?;
        let mut ask = cmd("SENTINEL");
        ask.arg("GET-MASTER-ADDR-BY-NAME").arg(Self::MASTER);
        let (_, port): (String, u16) = ask.query(&mut connection).ok()?;
        self.servers.iter().position(|server| server.port_for_servers() == port)
    }
}

impl Default for SentinelBuilder {
    /// Two replicas, and a master that is silent for so long as a busy machine makes it at times is not taken for dead.
    fn default() -> Self {
        Self {
            replicas: 2,
            down_after: Duration::from_secs(10),
            tilt: Duration::from_secs(3),
            tls: None,
            arguments: Vec::new(),
            roles_are_kept: false,
        }
    }
}

impl SentinelBuilder {
    /// How many replicas the master has. Default: 2.
    pub fn replicas(mut self, replicas: usize) -> Self {
        self.replicas = replicas;
        self
    }

    /// A server that is restarted begins in the role that it had last, as one with a configuration file does. Without this it
    /// begins in its first role: two that were restarted may each be the other's replica.
    pub fn roles_are_kept(mut self) -> Self {
        self.roles_are_kept = true;
        self
    }

    /// `down-after-milliseconds`: how long a server is silent before it is taken for dead. Default: 10 s. Where that
    /// is waited for, 1 s is about as short as it can be.
    pub fn down_after(mut self, time: Duration) -> Self {
        self.down_after = time;
        self
    }

    /// How long a sentinel does nothing after it stood still for 2 s, as when the disk is busy (TILT). Default: 3 s. Redis
    /// itself has 30 s, and Redis 6.2 cannot be told otherwise.
    pub fn tilt(mut self, time: Duration) -> Self {
        self.tilt = time;
        self
    }

    /// Servers and sentinels listen for TLS too, and speak it with each other: [`RedisServerBuilder::tls`].
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// One more argument for each server.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts servers and sentinels and waits until they all know each other.
    ///
    /// # Panics
    /// When they do not come up.
    pub fn start(self) -> Sentinel {
        let all = thread::scope(|scope| {
            let sentinels =
                (0..SENTINELS).map(|_| self.with_tls(RedisServer::builder().sentinel()));
            let sentinels: Vec<_> = sentinels.map(|one| scope.spawn(move || one.start())).collect();
            let master = self.server().start();
            let replicas = (0..self.replicas).map(|_| self.replica(&master));
            let replicas: Vec<_> = replicas.map(|one| scope.spawn(move || one.start())).collect();
            let mut servers = vec![master];
            servers.extend(replicas.into_iter().map(|one| one.join().expect("a replica")));
            let sentinels = sentinels.into_iter().map(|one| one.join().expect("a sentinel"));
            Sentinel { servers, sentinels: sentinels.collect() }
        });
        // A sentinel asks a master only now and then who its replicas are: at first they should be there.
        let linked = || {
            let info = replication(&all.servers[0]).ok()?;
            (info.matches("state=online").count() == self.replicas).then_some(())
        };
        blocking(START_LIMIT, linked).expect("replicas linked to their master");
        self.watch(&all).unwrap_or_else(|error| panic!("the sentinels refuse: {error}"));
        let known = || all.check().ok().filter(|&is_well| is_well);
        blocking(START_LIMIT, known).expect("sentinels that know each other");
        all
    }

    fn server(&self) -> RedisServerBuilder {
        // A replica is in step at once.
        let server = RedisServer::builder().arg("--repl-diskless-sync-delay").arg("0");
        let server = if self.roles_are_kept { server.keeps_its_role(None) } else { server };
        let server = self.with_tls(server);
        self.arguments.iter().fold(server, |server, argument| server.arg(argument))
    }

    fn with_tls(&self, server: RedisServerBuilder) -> RedisServerBuilder {
        match &self.tls {
            Some(files) => server.tls(files.clone()),
            None => server,
        }
    }

    fn replica(&self, master: &RedisServer) -> RedisServerBuilder {
        let port = master.port_for_servers();
        match self.roles_are_kept {
            true => self.server().keeps_its_role(Some(port)),
            false => self.server().arg("--replicaof").arg("127.0.0.1").arg(port.to_string()),
        }
    }

    fn watch(&self, all: &Sentinel) -> RedisResult<()> {
        let master = all.servers[0].port_for_servers();
        let down_after = self.down_after.as_millis().to_string();
        let failover = (3 * self.down_after).as_millis().to_string();
        let tilt = self.tilt.as_millis().to_string();
        for sentinel in &all.sentinels {
            // It writes its configuration to the disk before it answers, and the disk may be busy.
            let mut sentinel = connect(sentinel.port(), START_LIMIT)?;
            // Refused by Redis 6.2.
            let _ = cmd("SENTINEL").arg("DEBUG").arg("tilt-period").arg(&tilt).exec(&mut sentinel);
            let mut watch = cmd("SENTINEL");
            watch.arg("MONITOR").arg(Sentinel::MASTER).arg("127.0.0.1").arg(master).arg(QUORUM);
            watch.exec(&mut sentinel)?;
            let terms = [("down-after-milliseconds", &down_after), ("failover-timeout", &failover)];
            for (term, value) in terms {
                let mut set = cmd("SENTINEL");
                set.arg("SET").arg(Sentinel::MASTER).arg(term).arg(value).exec(&mut sentinel)?;
            }
        }
        Ok(())
    }
}

impl Servers for Sentinel {
    fn peer_args(&self) -> PeerArgs {
        PeerArgs::sentinel(&self.sentinels(), Self::MASTER)
    }

    /// Of the present master.
    fn inspector(&self) -> Inspector {
        self.servers[self.master()].inspector()
    }

    fn client_of(&self, _key: &str) -> Connection {
        self.servers[self.master()].client()
    }
}

fn replication(server: &RedisServer) -> RedisResult<String> {
    cmd("INFO").arg("replication").query(&mut connect(server.port(), REPLY_LIMIT)?)
}

fn is_master(info: &str) -> bool {
    info.contains("role:master")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::clean::assert_nothing_left;

    /// One for all of it: starting takes longer than all the rest.
    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn sentinels_find_another_master() {
        let started = Instant::now();
        let mut sentinel =
            Sentinel::builder().down_after(Duration::from_secs(1)).roles_are_kept().start();
        eprintln!("sentinels start in {:?}", started.elapsed());
        let lost = sentinel.master();
        let mut master = sentinel.client_of("k");
        cmd("SET").arg("k").arg("v").exec(&mut master).unwrap();
        assert_eq!(cmd("WAIT").arg(2).arg(1_000).query::<i64>(&mut master).unwrap(), 2);

        let killed = Instant::now();
        sentinel.kill(lost);
        let heir = sentinel.failed_over(lost).await;
        eprintln!("sentinels fail over in {:?}", killed.elapsed());
        assert_eq!(sentinel.master(), heir);
        assert_eq!(sentinel.inspector().query::<String>(cmd("GET").arg("k")), "v");
        sentinel.inspector().query::<()>(cmd("DEL").arg("k"));
        assert_nothing_left(&sentinel).await;

        // It is back before anybody misses it.
        sentinel.restart(heir);
        assert!(is_master(&replication(sentinel.node(heir)).unwrap()));
    }
}
