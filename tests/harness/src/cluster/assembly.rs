//! Makes a cluster of six servers.

use std::thread;
use std::time::Duration;

use redis::{RedisResult, cmd};

use super::view::View;
use super::{REPLY_LIMIT, RedisCluster};
use crate::connect::connect;
use crate::server::RedisServer;
use crate::slots::SLOTS;
use crate::tls::TlsFiles;
use crate::wait::blocking;

const MASTERS: u16 = 3;
const START_LIMIT: Duration = Duration::from_secs(60);

/// What a [`RedisCluster`] is started with.
#[derive(Debug, Clone)]
pub struct RedisClusterBuilder {
    node_timeout: Duration,
    tls: Option<TlsFiles>,
    arguments: Vec<String>,
}

impl Default for RedisClusterBuilder {
    /// A node that is silent for so long as a busy machine makes it at times is not taken for dead.
    fn default() -> Self {
        Self { node_timeout: Duration::from_secs(10), tls: None, arguments: Vec::new() }
    }
}

impl RedisClusterBuilder {
    /// `cluster-node-timeout`: how long a node is silent before it is taken for dead. Default: 10 s. Where that is
    /// waited for, 1.5 s is about as short as it can be.
    pub fn node_timeout(mut self, time: Duration) -> Self {
        self.node_timeout = time;
        self
    }

    /// Each node listens for TLS too, and speaks it with the others: [`RedisServerBuilder::tls`](crate::RedisServerBuilder::tls).
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// One more argument for each node, such as `--requirepass` and then `secret`.
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Starts a cluster and waits until all of it works.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start(self) -> RedisCluster {
        let cluster = RedisCluster { nodes: self.nodes() };
        cluster.assemble().unwrap_or_else(|error| panic!("the cluster cannot be joined: {error}"));
        let mut why = String::new();
        let up = blocking(START_LIMIT, || cluster.check().map_err(|not_yet| why = not_yet).ok());
        assert!(up.is_some(), "the cluster is not up after {START_LIMIT:?}: {why}");
        cluster
    }

    fn nodes(&self) -> Vec<RedisServer> {
        let node = RedisServer::builder()
            .cluster_node()
            .arg("--cluster-node-timeout")
            .arg(self.node_timeout.as_millis().to_string())
            // A replica stays with its master, and stands up for it however long it has been alone.
            .arg("--cluster-migration-barrier")
            .arg("99")
            .arg("--cluster-replica-validity-factor")
            .arg("0")
            // And is in step at once.
            .arg("--repl-diskless-sync-delay")
            .arg("0");
        let node = self.tls.iter().fold(node, |node, files| node.tls(files.clone()));
        let node = self.arguments.iter().fold(node, |node, argument| node.arg(argument));
        thread::scope(|scope| {
            let starts: Vec<_> =
                (0..2 * MASTERS).map(|_| scope.spawn(|| node.clone().start())).collect();
            starts.into_iter().map(|start| start.join().expect("a node")).collect()
        })
    }
}

impl RedisCluster {
    /// Starts a cluster and waits until all of it works.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn start() -> Self {
        Self::builder().start()
    }

    /// A cluster with other terms.
    pub fn builder() -> RedisClusterBuilder {
        RedisClusterBuilder::default()
    }

    /// The first three keep a third of the slots each; the others become their replicas.
    fn assemble(&self) -> RedisResult<()> {
        for (i, node) in self.nodes.iter().enumerate() {
            let mut connection = connect(node.port(), REPLY_LIMIT)?;
            cmd("CLUSTER").arg("SET-CONFIG-EPOCH").arg(i + 1).exec(&mut connection)?;
            let i = u16::try_from(i).expect("a small number");
            if i < MASTERS {
                let start = |master| u32::from(SLOTS) * u32::from(master) / u32::from(MASTERS);
                let slots: Vec<_> = (start(i)..start(i + 1)).collect();
                cmd("CLUSTER").arg("ADDSLOTS").arg(slots).exec(&mut connection)?;
            }
        }
        // Each pair, so that none has to wait until it hears of another.
        for (i, node) in self.nodes.iter().enumerate() {
            let mut connection = connect(node.port(), REPLY_LIMIT)?;
            for other in &self.nodes[i + 1..] {
                let mut meet = cmd("CLUSTER");
                let port = other.port_for_servers();
                meet.arg("MEET").arg("127.0.0.1").arg(port).exec(&mut connection)?;
            }
        }
        let (masters, replicas) = self.nodes.split_at(MASTERS.into());
        for (master, replica) in masters.iter().zip(replicas) {
            blocking(START_LIMIT, || replicate(master, replica).ok());
        }
        Ok(())
    }
}

impl RedisCluster {
    /// Makes a replica a master without slots and with an id of its own, as one that has just joined; comes back when all nodes know.
    ///
    /// # Panics
    /// When it is refused.
    pub fn make_an_empty_master(&self) {
        let (node, other) = (&self.nodes[2 * usize::from(MASTERS) - 1], &self.nodes[0]);
        let join = || -> RedisResult<()> {
            let before =
                View::of(&mut node.client())?.id_of(node.port()).unwrap_or_default().to_owned();
            cmd("CLUSTER").arg("RESET").arg("HARD").exec(&mut node.client())?;
            for other in self.nodes.iter().filter(|other| other.port() != node.port()) {
                cmd("CLUSTER").arg("FORGET").arg(&before).exec(&mut other.client())?;
            }
            let mut meet = cmd("CLUSTER");
            meet.arg("MEET").arg("127.0.0.1").arg(node.port_for_servers());
            meet.exec(&mut other.client())
        };
        join().unwrap_or_else(|error| panic!("a replica cannot become a master: {error}"));
        let is_known = |known_by: &RedisServer| {
            let view = View::of(&mut known_by.client()).ok()?;
            let joined = view.on(node.port()).filter(|joined| joined.is_master())?;
            (view.members().len() == self.nodes.len() && !joined.is_doubtful).then_some(())
        };
        let known =
            || self.nodes.iter().map(is_known).collect::<Option<()>>().and(self.agreed().ok());
        blocking(START_LIMIT, known).expect("a master that all nodes know");
    }
}

/// Refused while the replica does not know its master.
fn replicate(master: &RedisServer, replica: &RedisServer) -> RedisResult<()> {
    let view = View::of(&mut connect(master.port(), REPLY_LIMIT)?)?;
    let id = view.id_of(master.port()).unwrap_or_default();
    cmd("CLUSTER").arg("REPLICATE").arg(id).exec(&mut connect(replica.port(), REPLY_LIMIT)?)
}
