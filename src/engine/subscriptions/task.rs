//! The task for the subscriptions of one client. It gives each change to the [`Worker`] of the server
//! concerned.

use std::sync::{Arc, Weak};

use tokio::time::sleep;

use super::{MOST_AT_ONCE, PROBE_INTERVAL, Subscriptions, worker::Worker};
use crate::{
    determinism::{HashMap, select},
    engine::lifecycle::Lifecycle,
    sometimes::sometimes,
    wire::Transport,
};

/// Runs the task. It ends with the engine.
pub(crate) async fn run(
    life: Weak<Lifecycle>,
    subscriptions: Arc<Subscriptions>,
    transport: Arc<dyn Transport>,
) {
    let Some(mut queue) = subscriptions.take_queue() else { return };
    let mut gaps = subscriptions.gaps.subscribe();
    let mut workers = HashMap::default();
    loop {
        let mut touched = Vec::new();
        select! {
            _ = queue.recv_many(&mut touched, MOST_AT_ONCE) => {}
            _ = gaps.changed() => {
                if !workers.is_empty() {
                    sometimes!("subscriptions: lost");
                    log!(info, "subscriptions were lost, renewing them");
                }
                workers.clear();
                touched.extend(subscriptions.channels.iter().map(|entry| entry.key().clone()));
                // A connection may have survived, with subscriptions that are no longer needed.
                touched.extend(subscriptions.subscribed.iter().map(|entry| entry.key().clone()));
            }
            // To check whether the engine still exists.
            () = sleep(PROBE_INTERVAL) => {}
        }
        if Lifecycle::has_ended(&life) {
            return;
        }
        for name in touched {
            let server = transport.server_id(&name);
            let worker = workers
                .entry(server)
                .or_insert_with(|| Worker::start(server, subscriptions.clone(), transport.clone()));
            let _ = worker.queue.send(name);
        }
    }
}
