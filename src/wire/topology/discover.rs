//! Asks a cluster's nodes, or the sentinels, who serves what.

use std::{
    collections::HashMap,
    ops::RangeInclusive,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use fred::{
    error::{Error as FredError, ErrorKind},
    types::Value,
};
use futures::{
    FutureExt,
    stream::{FuturesUnordered, Stream, StreamExt},
};
use tokio::time::timeout;

use super::slots::{ALL_SLOTS, Claim, View, merge, read_nodes};
use crate::{
    error::Error,
    runtime::ClientRuntime,
    wire::{
        answers::{opaque, timed_out},
        connection::{Broken, Session, quit_all},
        deployment::{Address, Deployment, Servers},
        login,
    },
};

/// How long one of those who are asked may take. Others are asked at the same time.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long the rest may take when most have answered.
const AND_MORE: Duration = Duration::from_millis(20);

/// So many are asked of a cluster: enough that some of them are not cut off from the others.
const ASKED: usize = 5;

/// Who serves which slots, in order.
pub(in crate::wire) type ServerMap = Vec<(RangeInclusive<u16>, Address)>;

/// How the servers of a lock are found.
pub(in crate::wire) struct Discovery {
    runtime: ClientRuntime,
    deployment: Deployment,
    kind: Kind,
    /// Who may be asked, the ones that answered last first, each with a connection once it has one.
    sources: Vec<(Address, Option<Arc<Session>>)>,
    /// Who may be asked whatever others say.
    configured: Vec<Address>,
    /// Who has answered when most had done so long before: to be asked over the same connection the next time.
    late: Late,
}

type Late = Arc<Mutex<Vec<(Address, Arc<Session>)>>>;

#[derive(Clone)]
enum Kind {
    Cluster,
    Sentinel { service: String },
}

impl Discovery {
    /// For a deployment that does not name the server itself: a cluster, or sentinels.
    pub(in crate::wire) fn new(deployment: &Deployment, runtime: &ClientRuntime) -> Self {
        let kind = match &deployment.servers {
            Servers::Sentinels(_, service, _) => Kind::Sentinel { service: service.clone() },
            _ => Kind::Cluster,
        };
        let configured = deployment.hosts().to_vec();
        let sources = configured.iter().map(|address| (address.clone(), None)).collect();
        let (runtime, deployment, late) = (runtime.clone(), deployment.clone(), Late::default());
        Self { runtime, deployment, kind, sources, configured, late }
    }

    pub(in crate::wire) fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster)
    }

    /// How often to ask, when nothing calls for it.
    pub(in crate::wire) fn interval(&self) -> Duration {
        match self.kind {
            Kind::Cluster => Duration::from_secs(5),
            // An old master that was told to step down is not told by those who write to it.
            Kind::Sentinel { .. } => Duration::from_secs(1),
        }
    }

    /// What the configuration for each of the servers is made of.
    pub(in crate::wire) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Asks. An error when nobody answers.
    pub(in crate::wire) async fn ask(&mut self) -> Result<ServerMap, FredError> {
        let asked = match self.kind {
            Kind::Cluster => self.sources.len().min(ASKED),
            Kind::Sentinel { .. } => self.sources.len(),
        };
        let mut map = self.ask_first(asked).await;
        if map.is_err() && asked < self.sources.len() {
            // None of those: the others, once.
            self.sources.rotate_left(asked);
            map = self.ask_first(self.sources.len()).await;
        }
        map
    }

    async fn ask_first(&mut self, count: usize) -> Result<ServerMap, FredError> {
        for (address, session) in take(&self.late) {
            let mut sources = self.sources.iter_mut();
            if let Some((_, unknown @ None)) = sources.find(|(known, _)| *known == address) {
                *unknown = Some(session);
            }
        }
        let asked: Vec<_> = self.sources[..count].iter().map(|(at, _)| at.clone()).collect();
        let mut asking: FuturesUnordered<_> = self
            .sources
            .drain(..count)
            .map(|(address, session)| {
                let (runtime, deployment, kind) =
                    (self.runtime.clone(), self.deployment.clone(), self.kind.clone());
                async move {
                    let asking = ask_one(&runtime, &deployment, &kind, &address, session);
                    let answer = timeout(PATIENCE, asking).await;
                    (address, answer.unwrap_or_else(|_| Err(timed_out())))
                }
            })
            .collect();
        let mut silent: Vec<Address> = asked;
        let (mut views, mut good) = (Vec::new(), Vec::new());
        let mut last = timed_out();
        let enough = count / 2 + 1;
        loop {
            // The word of most will do, but what the others have to say at once is heard, too.
            let patience = if views.len() >= enough { AND_MORE } else { PATIENCE };
            let Ok(Some((address, answer))) = timeout(patience, asking.next()).await else { break };
            silent.retain(|other| *other != address);
            match answer {
                Ok((view, session)) => {
                    views.push(view);
                    good.push((address, Some(session)));
                }
                Err(error) => {
                    last = error;
                    silent.push(address);
                }
            }
        }
        if !asking.is_empty() {
            self.runtime.spawn(hear_out(asking, self.late.clone()).boxed());
        }
        if !views.is_empty() {
            silent.retain(|address| is_known(address, &self.configured, &views));
        }
        self.sources.splice(..0, good);
        self.sources.extend(silent.into_iter().map(|address| (address, None)));
        for address in views.iter().flat_map(|view| &view.nodes) {
            if !self.sources.iter().any(|(known, _)| address.is_called(known)) {
                self.sources.push((address.clone(), None));
            }
        }
        let map = agree(views)?;
        if map.is_empty() { Err(last) } else { Ok(map) }
    }

    /// Whether the cluster has sharded channels: then Redisson publishes there.
    pub(in crate::wire) async fn has_sharded_channels(&self) -> Result<bool, Error> {
        let known = self.sources.iter().find_map(|(_, session)| session.as_ref());
        let session = known.expect("one of them has answered");
        match command(session, "PUBSUB", &["SHARDNUMSUB"]).await {
            Ok(_) => Ok(true),
            Err(error) if error.details().starts_with("NOPERM") => Err(Error::Config(format!(
                "whether to use sharded channels is found out by PUBSUB SHARDNUMSUB, which is not \
                 allowed here: allow it, or say Config::sharded_pubsub ({})",
                error.details()
            ))),
            Err(error) if is_refusal(&error) => Ok(false),
            Err(error) => Err(Error::Redis(opaque(&error))),
        }
    }

    pub(in crate::wire) async fn quit(&mut self) {
        let late = take(&self.late).into_iter().map(|(_, session)| session);
        quit_all(self.sources.drain(..).filter_map(|(_, session)| session).chain(late)).await;
    }
}

/// Those who take longer than most have connections that are worth keeping.
async fn hear_out<V>(
    mut asking: impl Stream<Item = (Address, Result<(V, Arc<Session>), FredError>)> + Unpin,
    late: Late,
) {
    while let Some((address, answer)) = asking.next().await {
        if let Ok((_, session)) = answer {
            late.lock().unwrap_or_else(PoisonError::into_inner).push((address, session));
        }
    }
}

fn take(late: &Late) -> Vec<(Address, Arc<Session>)> {
    std::mem::take(&mut *late.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether there is reason to ask it again, though it does not answer.
fn is_known(address: &Address, configured: &[Address], views: &[View]) -> bool {
    let named = views.iter().flat_map(|view| &view.nodes);
    configured.contains(address) || named.into_iter().any(|other| other.is_called(address))
}

async fn ask_one(
    runtime: &ClientRuntime,
    deployment: &Deployment,
    kind: &Kind,
    address: &Address,
    known: Option<Arc<Session>>,
) -> Result<(View, Arc<Session>), FredError> {
    // Whoever does not answer is asked over a new connection the next time.
    let session = match known {
        Some(session) => session,
        None => {
            let endpoint = match kind {
                Kind::Cluster => deployment.endpoint(address),
                Kind::Sentinel { .. } => deployment.sentinel(address),
            };
            login::connect(runtime, &endpoint, PATIENCE, 32, Broken::Reconnects).await?
        }
    };
    let view = match kind {
        Kind::Cluster => {
            let text: String = command(&session, "CLUSTER", &["NODES"]).await?.convert()?;
            read_nodes(&text, address, deployment.uses_tls)
        }
        Kind::Sentinel { service } => {
            let master = command(&session, "SENTINEL", &["MASTER", service]).await?;
            let others = command(&session, "SENTINEL", &["SENTINELS", service]).await?;
            read_master(master, others)?
        }
    };
    Ok((view, session))
}

async fn command(session: &Session, name: &'static str, args: &[&str]) -> Result<Value, FredError> {
    session.command(name, args.iter().map(|arg| Value::from(*arg)).collect()).await
}

/// What they say, taken together. An error when no more is known than who is about to be replaced.
fn agree(views: Vec<View>) -> Result<ServerMap, FredError> {
    let leaving: Vec<_> = views.iter().filter_map(|view| view.leaving.clone()).collect();
    let map = merge(views.into_iter().flat_map(|view| view.claims).collect());
    let is_leaving = map.iter().any(|(_, address)| leaving.contains(address));
    if is_leaving || (map.is_empty() && !leaving.is_empty()) {
        return Err(FredError::new(ErrorKind::Sentinel, "another master is being chosen"));
    }
    Ok(map)
}

/// What a sentinel says of the master, and of the other sentinels.
fn read_master(master: Value, others: Value) -> Result<View, FredError> {
    let master: HashMap<String, String> = master.convert()?;
    let address = |fields: &HashMap<String, String>| {
        let port = fields.get("port")?.parse().ok()?;
        Some(Address::new(fields.get("ip")?, port))
    };
    let epoch = master.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    let (Some(epoch), Some(at)) = (epoch, address(&master)) else {
        return Err(FredError::new(ErrorKind::Sentinel, "no master is known"));
    };
    let others: Vec<HashMap<String, String>> = others.convert()?;
    let nodes = others.iter().filter_map(address).collect();
    // Until all replicas follow the new one, this is the old one; the epoch may be new already.
    let is_leaving = |flags: &String| flags.split(',').any(|flag| flag == "failover_in_progress");
    if master.get("flags").is_some_and(is_leaving) {
        return Ok(View { claims: Vec::new(), nodes, leaving: Some(at) });
    }
    let claim = Claim { epoch, slots: ALL_SLOTS, address: at };
    Ok(View { claims: vec![claim], nodes, leaving: None })
}

/// The server has answered, and does not know the command.
fn is_refusal(error: &FredError) -> bool {
    !matches!(error.kind(), ErrorKind::IO | ErrorKind::Timeout | ErrorKind::Canceled)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: u16 = 1;
    const NEW: u16 = 2;

    /// As a sentinel puts it.
    fn says(port: u16, epoch: u64, flags: &str) -> View {
        let fields = [
            ("ip", "h".to_owned()),
            ("port", port.to_string()),
            ("flags", flags.to_owned()),
            ("config-epoch", epoch.to_string()),
        ];
        let fields = fields.map(|(field, value)| [Value::from(field), Value::from(value)]);
        let master = Value::Array(fields.into_iter().flatten().collect());
        read_master(master, Value::Array(Vec::new())).unwrap()
    }

    fn is(port: u16) -> ServerMap {
        vec![(ALL_SLOTS, Address::new("h", port))]
    }

    #[test]
    fn a_master_is_not_trusted_while_another_is_put_in_its_place() {
        let replacing = "s_down,o_down,master,failover_in_progress";
        assert_eq!(agree(vec![says(OLD, 3, "s_down,master"), says(OLD, 3, "master")]), Ok(is(OLD)));
        agree(vec![says(OLD, 3, "master"), says(OLD, 3, replacing)]).unwrap_err();
        agree(vec![says(OLD, 4, replacing)]).unwrap_err();
        // Whose replicas do not all follow the new one yet knows the new epoch, and names the old one.
        let views = vec![says(NEW, 4, "master"), says(OLD, 4, replacing), says(OLD, 3, "master")];
        assert_eq!(agree(views), Ok(is(NEW)));
    }
}
