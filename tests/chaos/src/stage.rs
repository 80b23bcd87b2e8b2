//! The servers of a run, in each topology.

use std::fs;
use std::path::Path;

use harness::redis::{Connection, RedisResult, cmd};
use harness::{PeerArgs, RedisCluster, RedisServer, Sentinel, Servers, slot};
use std::time::Duration;

use crate::options::Topology;

/// How long a server is silent before another takes its place.
const DOWN_AFTER: Duration = Duration::from_millis(1_500);

/// What every server is started with: its append-only file is the witness, so it is never rewritten, and always text.
const ARGUMENTS: [&str; 14] = [
    "--appendonly",
    "yes",
    "--appendfsync",
    "no",
    "--aof-use-rdb-preamble",
    "no",
    "--auto-aof-rewrite-percentage",
    "0",
    "--enable-debug-command",
    "local",
    "--busy-reply-threshold",
    "200",
    "--repl-diskless-sync-delay",
    "0",
];

#[derive(Debug)]
pub(crate) enum Stage {
    /// The first one is the master.
    Plain(Vec<RedisServer>),
    Sentinel(Sentinel),
    Cluster(RedisCluster),
}

impl Stage {
    pub(crate) fn start(topology: Topology) -> Self {
        match topology {
            Topology::Single => Self::Plain(vec![server().start()]),
            Topology::Replicated => {
                let master = server().start();
                let port = master.port().to_string();
                let replica = || server().arg("--replicaof").arg("127.0.0.1").arg(&port).start();
                Self::Plain(vec![replica(), replica()].into_iter().fold(
                    vec![master],
                    |mut all, one| {
                        all.push(one);
                        all
                    },
                ))
            }
            Topology::Sentinel => {
                let builder = Sentinel::builder().down_after(DOWN_AFTER).roles_are_kept();
                Self::Sentinel(ARGUMENTS.iter().fold(builder, |it, word| it.arg(*word)).start())
            }
            Topology::Cluster => {
                let builder = RedisCluster::builder().node_timeout(DOWN_AFTER);
                Self::Cluster(ARGUMENTS.iter().fold(builder, |it, word| it.arg(*word)).start())
            }
        }
    }

    pub(crate) fn nodes(&self) -> Vec<&RedisServer> {
        match self {
            Self::Plain(servers) => servers.iter().collect(),
            Self::Sentinel(all) => (0..all.addresses().len()).map(|node| all.node(node)).collect(),
            Self::Cluster(all) => (0..all.addresses().len()).map(|node| all.node(node)).collect(),
        }
    }

    pub(crate) fn node(&self, node: usize) -> &RedisServer {
        self.nodes()[node]
    }

    pub(crate) fn kill(&mut self, node: usize) {
        match self {
            Self::Plain(servers) => servers[node].kill(),
            Self::Sentinel(all) => all.kill(node),
            Self::Cluster(all) => all.kill(node),
        }
    }

    /// Starts a server again that was killed, with the data that its directory has.
    pub(crate) fn restart(&mut self, node: usize) {
        match self {
            Self::Plain(servers) => servers[node].restart(),
            Self::Sentinel(all) => all.restart(node),
            Self::Cluster(all) => all.restart(node),
        }
    }

    /// The servers that have taken writes last.
    pub(crate) fn masters(&self) -> Vec<usize> {
        match self {
            Self::Plain(_) => vec![0],
            Self::Sentinel(all) => vec![all.master()],
            Self::Cluster(all) => all.masters(),
        }
    }

    /// What the history calls the servers that keep this lock one after another.
    pub(crate) fn label(&self, lock: &str) -> String {
        match self {
            Self::Plain(_) | Self::Sentinel(_) => String::new(),
            // Slots do not move, and the masters began with a third each.
            Self::Cluster(_) => format!("shard{}", u32::from(slot(lock)) * 3 / 16_384),
        }
    }

    /// How a peer finds them; a single server by this port.
    pub(crate) fn peer_args(&self, port: u16) -> PeerArgs {
        match self {
            Self::Plain(_) => PeerArgs::redis(format!("redis://127.0.0.1:{port}")),
            Self::Sentinel(all) => all.peer_args(),
            Self::Cluster(all) => all.peer_args(),
        }
    }

    pub(crate) fn servers(&self) -> &dyn Servers {
        match self {
            Self::Plain(servers) => &servers[0],
            Self::Sentinel(all) => all,
            Self::Cluster(all) => all,
        }
    }

    /// Tells a server something, if it can be reached.
    pub(crate) fn tell<const N: usize>(&self, node: usize, words: [&str; N]) -> RedisResult<()> {
        let mut command = cmd(words[0]);
        command.arg(&words[1..]);
        command.exec(&mut self.connection(node)?)
    }

    /// Another server takes the place of this master, as an operator would have it. `locks`: names of locks.
    pub(crate) fn fail_over(&self, node: usize, locks: &[String]) -> RedisResult<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Sentinel(all) => cmd("SENTINEL")
                .arg("FAILOVER")
                .arg(Sentinel::MASTER)
                .exec(&mut all.sentinel(0).client()),
            Self::Cluster(all) => match locks.iter().find(|lock| all.master_of(lock) == node) {
                Some(lock) => self.tell(all.replica_of(lock), ["CLUSTER", "FAILOVER"]),
                None => Ok(()),
            },
        }
    }

    /// Waits until all servers are there, and know each other. Whether they do in time.
    pub(crate) async fn settled(&self, limit: Duration) -> bool {
        let settled = async {
            match self {
                Self::Plain(_) => {}
                Self::Sentinel(all) => all.settled().await,
                Self::Cluster(all) => all.settled().await,
            }
        };
        tokio::time::timeout(limit, settled).await.is_ok()
    }

    /// A connection that gives up.
    pub(crate) fn connection(&self, node: usize) -> RedisResult<Connection> {
        let client = harness::redis::Client::open(self.node(node).url())?;
        let limit = Duration::from_secs(1);
        let connection = client.get_connection_with_timeout(limit)?;
        connection.set_read_timeout(Some(limit))?;
        Ok(connection)
    }

    /// Keeps the logs and the append-only files of all servers.
    pub(crate) fn keep(&self, directory: &Path) -> std::io::Result<()> {
        for node in self.nodes() {
            let to = directory.join(format!("server-{}", node.port()));
            fs::create_dir_all(&to)?;
            for part in ["", "appendonlydir"] {
                let Ok(entries) = fs::read_dir(node.directory().join(part)) else { continue };
                for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
                    fs::copy(entry.path(), to.join(entry.file_name()))?;
                }
            }
        }
        Ok(())
    }
}

fn server() -> harness::RedisServerBuilder {
    ARGUMENTS.iter().fold(RedisServer::builder(), |builder, word| builder.arg(*word))
}
