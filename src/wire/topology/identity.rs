//! [`Identity`]: which servers belong to the deployment that was asked before: either a [`ClusterIdentity`] or a
//! [`SentinelIdentity`].

use tokio::time::Instant;

use super::{
    cluster_identity::ClusterIdentity,
    sentinel_identity::{Answers, SentinelIdentity},
    slots::View,
};
use crate::wire::answers::Failure;

/// Which nodes of a cluster, or which sentinels, were asked before.
pub(super) enum Identity {
    Cluster(ClusterIdentity),
    Sentinels(SentinelIdentity),
}

impl Identity {
    /// Whether they were believed in place of others, which may come back.
    pub(super) fn is_a_guess(&self) -> bool {
        match self {
            Self::Cluster(cluster) => cluster.is_a_guess(),
            Self::Sentinels(sentinels) => sentinels.is_a_guess(),
        }
    }

    /// Whether most of the configured addresses have yet to answer as these have. Then only those count.
    pub(super) fn is_unsure(&self) -> bool {
        match self {
            Self::Cluster(_) => false,
            Self::Sentinels(sentinels) => sentinels.is_unsure(),
        }
    }

    /// Of how many most have to answer, of those that are asked.
    pub(super) fn count(&self, asked: usize, configured: usize) -> usize {
        match self {
            Self::Cluster(_) => asked,
            Self::Sentinels(sentinels) if sentinels.is_unsure() => configured,
            Self::Sentinels(sentinels) => sentinels.count(configured).unwrap_or(asked),
        }
    }

    /// Whether the view may be one of them, as far as it can be told without the others.
    pub(super) fn may_be_ours(&self, view: &View) -> bool {
        match self {
            Self::Cluster(cluster) => cluster.may_be_ours(view),
            Self::Sentinels(sentinels) => sentinels.may_be_ours(view),
        }
    }

    /// Whether the view may be one of those that come first.
    pub(super) fn is_awaited(&self, view: &View) -> bool {
        match self {
            Self::Cluster(cluster) => cluster.is_awaited(view),
            Self::Sentinels(sentinels) => sentinels.is_awaited(view),
        }
    }

    /// Which of these are of them. Fails when only others have answered.
    pub(super) fn ours(
        &mut self,
        answers: Answers<'_>,
        now: Instant,
    ) -> Result<Vec<bool>, Failure> {
        match self {
            Self::Cluster(cluster) => cluster.ours(answers.views, now),
            Self::Sentinels(sentinels) => sentinels.ours(answers, now),
        }
    }
}
