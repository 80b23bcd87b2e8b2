//! [`Discovery`]: asks the nodes of a cluster, or the sentinels, which server serves which slots.

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use futures::{
    FutureExt,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::{Instant, timeout};

use super::{
    addresses::Addresses,
    cluster_identity::ClusterIdentity,
    failover_epoch::{FailoverEpoch, is_undecided},
    identity::Identity,
    late_sources::LateSources,
    recent_claims::RecentClaims,
    sentinel_identity::{Answers, SentinelIdentity},
    sharding::has_sharded_channels,
    slots::{Server, View, merge},
    source::{Kind, ask_one, in_time},
};
use crate::{
    error::Error,
    runtime::ClientRuntime,
    wire::{
        answers::Failure,
        connection::{ConnectionSettings, Driver},
        deployment::{Address, Deployment, Servers},
        session::{QUIT_TIMEOUT, Session, quit_all},
    },
};

/// How long a source may take once another has answered. Before that, a source has the longer of this and
/// the command timeout, connecting included. All are asked at the same time.
const ASK_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the remaining sources may take when most have answered.
const REST_TIMEOUT: Duration = Duration::from_millis(20);

/// How many nodes of a cluster are asked, beside one that changes: enough that some are not cut off from the others.
/// These are those that have answered before.
const ASKED: usize = 5;

/// To how many nodes of a cluster connections are kept for that.
const CONNECTED: usize = 2 * ASKED;

/// The servers of the locks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::wire) struct ServerMap {
    /// Which master serves which slots, in order.
    pub(in crate::wire) slots: Vec<(RangeInclusive<u16>, Server)>,
    /// All nodes of a cluster, also those without slots, at each address by which others name them.
    pub(in crate::wire) nodes: Vec<Server>,
    /// The last epoch of the claims. A slot that goes to another server and comes back has mostly raised it: a server
    /// that imports a slot gets the next one, unless it has the last.
    pub(in crate::wire) epoch: u64,
}

/// Finds the servers of the locks.
pub(in crate::wire) struct Discovery {
    driver: Arc<dyn Driver>,
    runtime: ClientRuntime,
    deployment: Deployment,
    kind: Kind,
    /// The sources that may be asked, the last to answer first. Each has a connection once it has one.
    sources: Vec<(Address, Option<Arc<Session>>)>,
    /// The sources that may always be asked.
    configured: Vec<Address>,
    /// How long each source may take.
    patience: Duration,
    command_timeout: Duration,
    /// Sources that answered long after most. That is kept for the next time.
    late_sources: LateSources,
    identity: Identity,
    failover_epoch: FailoverEpoch,
    /// Of a cluster.
    recent_claims: RecentClaims,
    addresses: Addresses,
}

impl Discovery {
    /// For a deployment that does not name the server itself: a cluster, or sentinels.
    pub(in crate::wire) fn new(deployment: &Deployment, settings: &ConnectionSettings) -> Self {
        let kind = match &deployment.servers {
            Servers::Sentinels(_, service, _) => Kind::Sentinel { service: service.clone() },
            _ => Kind::Cluster(settings.client_name.clone()),
        };
        let identity = match kind {
            Kind::Cluster(_) => Identity::Cluster(ClusterIdentity::default()),
            Kind::Sentinel { .. } => Identity::Sentinels(SentinelIdentity::default()),
        };
        let configured = deployment.hosts().to_vec();
        let sources = configured.iter().map(|address| (address.clone(), None)).collect();
        let ConnectionSettings { driver, runtime, command_timeout, .. } = settings.clone();
        Self {
            driver,
            runtime,
            deployment: deployment.clone(),
            kind,
            sources,
            configured,
            patience: next_patience(None, command_timeout),
            command_timeout,
            late_sources: LateSources::default(),
            identity,
            failover_epoch: FailoverEpoch::default(),
            recent_claims: RecentClaims::default(),
            addresses: Addresses::default(),
        }
    }

    pub(in crate::wire) fn is_cluster(&self) -> bool {
        matches!(self.kind, Kind::Cluster(_))
    }

    /// How often to ask without a cause.
    pub(in crate::wire) fn interval(&self) -> Duration {
        match self.kind {
            Kind::Cluster(_) => Duration::from_secs(5),
            // Clients that write to an old master do not notice its demotion.
            Kind::Sentinel { .. } => Duration::from_secs(1),
        }
    }

    /// The configuration that each server's endpoint is made from.
    pub(in crate::wire) fn deployment(&self) -> &Deployment {
        &self.deployment
    }

    /// Asks. Fails when no source answers.
    pub(in crate::wire) async fn ask(&mut self) -> Result<ServerMap, Failure> {
        let all = self.sources.len();
        if !self.is_cluster() || self.identity.is_a_guess() || all <= ASKED {
            return self.ask_first(all, all).await;
        }
        // Those that always answer in time may all be cut off from the rest.
        self.sources.swap(ASKED, fastrand::usize(ASKED..all));
        let mut map = self.ask_first(ASKED + 1, ASKED).await;
        self.sources.iter_mut().skip(CONNECTED).for_each(|(_, session)| *session = None);
        if map.is_err() && all > ASKED + 1 {
            // If none of those answered, the others are asked, once.
            let all = self.sources.len();
            self.sources.rotate_left(all.min(ASKED + 1));
            map = self.ask_first(all, all).await;
        }
        map
    }

    /// Asks the first sources. It is enough when most of `needed` have answered.
    async fn ask_first(&mut self, count: usize, needed: usize) -> Result<ServerMap, Failure> {
        let mut late = Vec::new();
        for (address, view, session) in self.late_sources.take() {
            let mut sources = self.sources.iter_mut();
            if let Some((_, unknown @ None)) = sources.find(|(known, _)| *known == address) {
                *unknown = Some(session);
            }
            late.push((address, view));
        }
        let began = Instant::now();
        let patience =
            std::mem::replace(&mut self.patience, next_patience(None, self.command_timeout));
        let mut silent: Vec<_> = self.sources[..count].iter().map(|(at, _)| at.clone()).collect();
        // The addresses stay: this may be dropped.
        let mut asking: FuturesUnordered<_> = self.sources[..count]
            .iter_mut()
            .map(|(address, session)| {
                let (address, session) = (address.clone(), session.take());
                let (driver, runtime) = (self.driver.clone(), self.runtime.clone());
                let (deployment, kind) = (self.deployment.clone(), self.kind.clone());
                async move {
                    let asking =
                        ask_one(&driver, &runtime, &deployment, &kind, &address, session, patience);
                    let answer = in_time(patience, asking).await;
                    (address, answer)
                }
            })
            .collect();
        let (mut views, mut good) = (Vec::new(), Vec::new());
        let (mut heard, mut awaited) = (false, 0);
        let mut last = Failure::timed_out();
        let are_sentinels = !self.is_cluster();
        let enough = self.identity.count(needed, self.configured.len()) / 2 + 1;
        loop {
            // The answer of most is enough, but quick answers of others count too. Nodes of another cluster do not count.
            let is_few = awaited < enough;
            let timeout_of_rest = match heard {
                false => patience,
                true if is_few || are_sentinels && is_undecided(&views, enough) => ASK_TIMEOUT,
                true => REST_TIMEOUT,
            };
            let waits_since = Instant::now();
            let next = timeout(timeout_of_rest, asking.next()).await;
            // What few have said may be outdated if this process was stopped meanwhile.
            let limit = ASK_TIMEOUT / 2 + if is_few { timeout_of_rest } else { patience };
            let is_unread = is_few && matches!(next, Ok(Some((_, None))));
            if is_unread || waits_since.elapsed() > limit {
                return Err(Failure::timed_out());
            }
            let Ok(Some((address, answer))) = next else { break };
            silent.retain(|other| *other != address);
            match answer.unwrap_or_else(|| Err(Failure::timed_out())) {
                Ok((view, session)) => {
                    if self.identity.may_be_ours(&view) && !std::mem::replace(&mut heard, true) {
                        self.patience = next_patience(Some(began.elapsed()), self.command_timeout);
                    }
                    // A sentinel may have several addresses.
                    let is_known =
                        |other: &View| are_sentinels && view.own.is_some() && other.own == view.own;
                    let counts = if self.identity.is_unsure() {
                        self.configured.contains(&address)
                    } else {
                        !views.iter().any(is_known)
                    };
                    awaited += usize::from(counts && self.identity.is_awaited(&view));
                    views.push(view);
                    good.push((address, Some(session)));
                }
                Err(error) => {
                    // An answer says more than none.
                    if last.is_of_connection() || !error.is_of_connection() {
                        last = error;
                    }
                    silent.push(address);
                }
            }
        }
        if !asking.is_empty() {
            self.runtime.spawn(self.late_sources.clone().hear_out(asking).boxed());
        }
        if !are_sentinels {
            silent.iter().for_each(|address| self.addresses.note(address, None));
            for (view, (address, _)) in views.iter().zip(&good) {
                self.addresses.note(address, view.own.as_ref());
            }
        }
        if heard && !are_sentinels {
            // Those of nodes that have answered again are outdated.
            late.retain(|(address, _)| !good.iter().any(|(known, _)| known == address));
            views.extend(late.into_iter().map(|(_, view)| view));
        }
        let ours = self.leave_out_strangers(&mut views, &mut good);
        if !views.is_empty() {
            let is_a_guess = self.identity.is_a_guess();
            silent.retain(|at| is_a_guess || is_known(at, &self.configured, &views));
        }
        self.sources.splice(..count, good);
        self.sources.extend(silent.into_iter().map(|address| (address, None)));
        for Server { address, .. } in views.iter().flat_map(|view| &view.nodes) {
            if !self.sources.iter().any(|(known, _)| address.is_called(known)) {
                self.sources.push((address.clone(), None));
            }
        }
        ours?;
        let nodes = self.decide(&mut views, count)?;
        let map = agree(views, nodes)?;
        if map.slots.is_empty() { Err(last) } else { Ok(map) }
    }

    /// Leaves the claims with the last epochs, among them those that were reported shortly before. Returns the nodes of
    /// a cluster, and gives those that claim slots one address each.
    fn decide(&mut self, views: &mut Vec<View>, count: usize) -> Result<Vec<Server>, Failure> {
        let now = Instant::now();
        let Identity::Sentinels(sentinels) = &mut self.identity else {
            self.recent_claims.decide(views, now);
            self.addresses.retain(|address| self.sources.iter().any(|(known, _)| known == address));
            self.addresses.give_one_to_each(views, now);
            return Ok(self.addresses.named_by_others(views));
        };
        if sentinels.is_replaced() {
            self.failover_epoch = FailoverEpoch::default();
        }
        let there_are = sentinels.count(self.configured.len()).unwrap_or(count);
        self.failover_epoch.check(views, there_are / 2 + 1, now)?;
        if let Some(claim) = views.iter().flat_map(|view| &view.claims).next() {
            sentinels.uses(&claim.master.address);
        }
        Ok(Vec::new())
    }

    /// Drops the answers of nodes of another cluster, and of the sentinels of another deployment.
    /// Configured addresses among them stay sources, and are asked over new connections. The views of sources come
    /// first, in the same order. Late ones follow.
    fn leave_out_strangers(
        &mut self,
        views: &mut Vec<View>,
        sources: &mut Vec<(Address, Option<Arc<Session>>)>,
    ) -> Result<(), Failure> {
        let is_configured = |(address, _): &(Address, _)| self.configured.contains(address);
        let are_configured: Vec<_> = sources.iter().map(is_configured).collect();
        let most = self.configured.len() / 2 + 1;
        let answers = Answers { views, are_configured: &are_configured, most };
        let ours = self.identity.ours(answers, Instant::now());
        if ours.is_err() && !self.is_cluster() {
            // They may be those of before, set up anew.
            views.clear();
            return ours.map(drop);
        }
        let are_ours = ours.as_deref().unwrap_or_default();
        let mut each = are_ours.iter();
        views.retain(|_| each.next() == Some(&true));
        let mut each = are_ours.iter();
        sources.retain_mut(|(address, session)| {
            let is_ours = each.next() == Some(&true);
            session.take_if(|_| !is_ours);
            is_ours || self.configured.contains(address)
        });
        ours.map(drop)
    }

    /// Asks whether the cluster has sharded channels. Redisson then publishes there.
    pub(in crate::wire) async fn has_sharded_channels(&self) -> Result<bool, Error> {
        let known = self.sources.iter().find_map(|(_, session)| session.as_ref());
        has_sharded_channels(known.ok_or_else(Error::timed_out)?).await
    }

    pub(in crate::wire) async fn quit(&mut self) {
        let late = self.late_sources.take().into_iter().map(|(_, _, session)| session);
        let known = self.sources.drain(..).filter_map(|(_, session)| session);
        quit_all(known.chain(late), QUIT_TIMEOUT).await;
    }
}

/// How long each source may take, after the first that answered took so long.
fn next_patience(took: Option<Duration>, command_timeout: Duration) -> Duration {
    let most = command_timeout.max(ASK_TIMEOUT);
    took.map_or(most, |took| (4 * took).clamp(ASK_TIMEOUT, most))
}

/// Whether there is a reason to ask it again, although it does not answer.
fn is_known(address: &Address, configured: &[Address], views: &[View]) -> bool {
    let named = views.iter().flat_map(|view| &view.nodes);
    configured.contains(address) || named.into_iter().any(|other| other.address.is_called(address))
}

/// Merges the answers. Fails when they only name a master that is about to be replaced.
fn agree(views: Vec<View>, nodes: Vec<Server>) -> Result<ServerMap, Failure> {
    let leaving: Vec<_> = views.iter().filter_map(|view| view.leaving.clone()).collect();
    let claims: Vec<_> = views.into_iter().flat_map(|view| view.claims).collect();
    let epoch = claims.iter().map(|claim| claim.epoch).max().unwrap_or_default();
    let slots = merge(claims);
    let is_leaving = slots.iter().any(|(_, master)| leaving.contains(&master.address));
    if is_leaving || (slots.is_empty() && !leaving.is_empty()) {
        return Err(Failure::no_master("another master is being chosen"));
    }
    Ok(ServerMap { slots, nodes, epoch })
}

#[cfg(test)]
mod tests;
