//! Traffic by a seed, with a history of all that its users saw, for a judge.

mod holding;
mod plan;
mod pulse;
mod recorder;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use judge::{Answer, Call, What};
use redisson_lock::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::answers::Failure;
pub(crate) use plan::{Mood, Moods};
use plan::{Plan, code};
use recorder::Recorder;
use worker::Worker;

/// How long a user may take to come to rest.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs until the mood is [`Mood::Rest`], then closes the client.
pub(crate) async fn run(plan: Value, client: Client, moods: Arc<Moods>) -> Result<Value, Failure> {
    let plan: Plan = serde_json::from_value(plan).map_err(Failure::invalid)?;
    let recorder = Recorder::new(plan.process.clone(), &plan.file).map_err(Failure::invalid)?;
    let (recorder, plan) = (Arc::new(recorder), Arc::new(plan));
    let client_id = Some(client.id().to_owned());
    recorder.note(What::Start { client: client_id, redisson: false, policy: plan.policy });
    let sign = plan.file.with_extension("alive");
    let pulse = tokio::spawn({
        let recorder = recorder.clone();
        async move { pulse::watch(recorder, &sign).await.expect("a file for signs of life") }
    });
    let mut workers = JoinSet::new();
    for number in 0..plan.workers {
        let worker =
            Worker::new(number, plan.clone(), client.clone(), recorder.clone(), moods.clone());
        workers.spawn(worker.run());
    }
    // Whoever waits for a lock that nobody gives back is told so by the close.
    tokio::select! {
        () = all(&mut workers) => {}
        () = patience(&moods) => {}
    }
    let closed = recorder.operation(Call::Close, async {
        match client.close().await {
            Ok(()) => Answer::Done,
            Err(error) => Answer::Error { code: code(&error) },
        }
    });
    closed.await;
    all(&mut workers).await;
    pulse.abort();
    Ok(json!({ "operations": recorder.operations() }))
}

async fn all(workers: &mut JoinSet<()>) {
    while workers.join_next().await.is_some() {}
}

/// For those who are to come to rest.
async fn patience(moods: &Moods) {
    while moods.get() != Mood::Rest {
        sleep(Duration::from_millis(100)).await;
    }
    sleep(PATIENCE).await;
}
