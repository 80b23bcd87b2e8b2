//! One source: a node of a cluster or a sentinel, asked which server serves which slots.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use super::{
    sentinels::{name_the_same, read_master},
    slots::{View, read_nodes},
};
use crate::{
    runtime::ClientRuntime,
    wire::{
        answers::{Answer, Failure, FailureKind},
        client_name::ClientName,
        connection::{Driver, Options},
        deployment::{Address, Deployment},
        script::{Arg, Reply},
        session::Session,
    },
};

/// What a source is.
#[derive(Clone)]
pub(super) enum Kind {
    /// With the name of the connections.
    Cluster(Option<ClientName>),
    Sentinel {
        service: String,
    },
}

/// The answer of a source in this time, or the error that there is none. `None`: there is one, and it was read later.
///
/// That one is not used: a process that was stopped meanwhile finds it in the socket when it goes on, and the master that
/// it names may have been replaced, and be back with nothing.
pub(super) async fn in_time<T>(
    patience: Duration,
    asking: impl Future<Output = Result<T, Failure>>,
) -> Option<Result<T, Failure>> {
    let began = Instant::now();
    match timeout(patience, asking).await {
        Ok(answer) if answer.is_err() || began.elapsed() <= patience => Some(answer),
        Ok(_) => None,
        Err(_) => Some(Err(Failure::timed_out())),
    }
}

/// Asks one source, over the connection that is known, or a new one whose commands may each take so long.
pub(super) async fn ask_one(
    driver: &Arc<dyn Driver>,
    runtime: &ClientRuntime,
    deployment: &Deployment,
    kind: &Kind,
    address: &Address,
    known: Option<Arc<Session>>,
    patience: Duration,
) -> Result<(View, Arc<Session>), Failure> {
    // A source that does not answer is asked over a new connection the next time.
    let session = match known {
        Some(session) if !session.is_gone() => session,
        _ => {
            let (endpoint, client_name) = match kind {
                Kind::Cluster(client_name) => (deployment.endpoint(address), client_name.clone()),
                Kind::Sentinel { .. } => (deployment.sentinel(address), None),
            };
            let options = Options::plain(patience);
            Session::connect(driver, runtime, &endpoint, options, client_name).await?
        }
    };
    let view = match kind {
        Kind::Cluster(_) => {
            let nodes = command(&session, "CLUSTER", &["NODES"]).await;
            let nodes = session.unless_a_sentinel(nodes).await?.as_text();
            read_nodes(&nodes.unwrap_or_default(), address, deployment.uses_tls)
        }
        Kind::Sentinel { service } => {
            // Some are older than Redis 6.2, or their user may not ask this.
            let own = unless_refused(command(&session, "SENTINEL", &["MYID"]));
            let (of_master, of_others) = (["MASTER", service], ["SENTINELS", service]);
            let of_address = ["GET-MASTER-ADDR-BY-NAME", service];
            // All at once, or the one that leads a failover would answer later than those that do not know of it. In
            // this order: the epoch is new if the heir is. If it names another master by then, a second failover has begun.
            let (before, heir, master, others, own) = tokio::try_join!(
                command(&session, "SENTINEL", &of_master),
                unless_refused(command(&session, "SENTINEL", &of_address)),
                command(&session, "SENTINEL", &of_master),
                command(&session, "SENTINEL", &of_others),
                own
            )?;
            let heir = heir.filter(|_| name_the_same(&before, &master));
            read_master(&master, heir.as_ref(), &others, own.as_ref())?
        }
    };
    Ok((view.map(|address| deployment.nat.reach(address)), session))
}

/// Sends a command to a source.
pub(super) async fn command(session: &Session, name: &'static str, args: &[&str]) -> Answer {
    let args: Vec<_> =
        args.iter().map(|arg| Arg::Bytes(Bytes::copy_from_slice(arg.as_bytes()))).collect();
    session.command(name, &args).await
}

/// `None`: the server has answered, but does not know the command, or its user may not send it.
async fn unless_refused(answer: impl Future<Output = Answer>) -> Result<Option<Reply>, Failure> {
    match answer.await {
        Ok(reply) => Ok(Some(reply)),
        Err(error) if is_refusal(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether the server has answered, but does not know the command.
pub(super) fn is_refusal(error: &Failure) -> bool {
    matches!(error.kind, FailureKind::Refused | FailureKind::Redirected)
}
