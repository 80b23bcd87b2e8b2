//! One source: a node of a cluster or a sentinel, asked which server serves which slots.

use std::sync::Arc;

use bytes::Bytes;

use super::{
    sentinels::read_master,
    slots::{View, read_nodes},
};
use crate::{
    runtime::ClientRuntime,
    wire::{
        answers::{Answer, Failure, FailureKind},
        client_name::ClientName,
        connection::{Driver, Options},
        deployment::{Address, Deployment},
        script::Arg,
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

/// Asks one source, over the connection that is known, or a new one.
pub(super) async fn ask_one(
    driver: &Arc<dyn Driver>,
    runtime: &ClientRuntime,
    deployment: &Deployment,
    kind: &Kind,
    address: &Address,
    known: Option<Arc<Session>>,
    options: Options,
) -> Result<(View, Arc<Session>), Failure> {
    // A source that does not answer is asked over a new connection the next time.
    let session = match known {
        Some(session) if !session.is_gone() => session,
        _ => {
            let (endpoint, client_name) = match kind {
                Kind::Cluster(client_name) => (deployment.endpoint(address), client_name.clone()),
                Kind::Sentinel { .. } => (deployment.sentinel(address), None),
            };
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
            let own = async {
                match command(&session, "SENTINEL", &["MYID"]).await {
                    Ok(own) => Ok(Some(own)),
                    // It is older than Redis 6.2, or its user may not ask this.
                    Err(error) if is_refusal(&error) => Ok(None),
                    Err(error) => Err(error),
                }
            };
            let (of_master, of_others) = (["MASTER", service], ["SENTINELS", service]);
            let (master, others, own) = tokio::try_join!(
                command(&session, "SENTINEL", &of_master),
                command(&session, "SENTINEL", &of_others),
                own
            )?;
            read_master(&master, &others, own.as_ref())?
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

/// Whether the server has answered, but does not know the command.
pub(super) fn is_refusal(error: &Failure) -> bool {
    matches!(error.kind, FailureKind::Refused | FailureKind::Redirected)
}
