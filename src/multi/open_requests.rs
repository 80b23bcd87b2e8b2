//! [`OpenRequests`]: the servers of a majority that were asked, and have not answered yet. It gives each
//! answer to [`majority`](super::majority), which acts on it.

use std::sync::Arc;

use futures::{
    FutureExt,
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use tokio::time::Instant;

use super::request::MultiRequest;
use crate::{
    engine::Engine,
    error::Error,
    lock::Lock,
    locking::{request::Bounds, share::Share},
};

pub(super) type Answer = Result<Option<Share>, Error>;

/// The requests of one try that are not answered yet.
pub(super) struct OpenRequests {
    request: MultiRequest,
    /// By when they are to be answered.
    end: Instant,
    answers: FuturesUnordered<BoxFuture<'static, (usize, Lock, Answer)>>,
    /// The engines whose servers have not answered, in the order in which they were asked.
    silent: Vec<Option<Arc<Engine>>>,
}

impl OpenRequests {
    pub(super) fn new(request: MultiRequest, end: Instant) -> Self {
        Self { request, end, answers: FuturesUnordered::new(), silent: Vec::new() }
    }

    /// Asks the servers whose circuit breaker is closed if they are a majority, and else all. Returns
    /// those that were left out.
    pub(super) fn ask_responsive(&mut self, locks: &[Lock]) -> Vec<Lock> {
        let is_silent =
            |lock: &&Lock| lock.state().is_ok_and(|state| state.target.engine.breaker.is_open());
        let (mut left_out, mut asked): (Vec<&Lock>, Vec<&Lock>) = locks.iter().partition(is_silent);
        if asked.len() <= locks.len() / 2 {
            asked.append(&mut left_out);
        }
        asked.into_iter().cloned().for_each(|lock| self.ask(lock));
        left_out.into_iter().cloned().collect()
    }

    pub(super) fn ask(&mut self, lock: Lock) {
        let (i, request, glance) = (self.silent.len(), self.request, Bounds::answer_by(self.end));
        self.silent.push(lock.state().ok().map(|state| state.target.engine.clone()));
        let asked = lock.clone();
        let answer = async move {
            let runtime = asked.state()?.target.engine.life.runtime.clone();
            runtime.run(|| request.acquire(&asked, glance)).await
        };
        self.answers.push(answer.map(move |answer| (i, lock, answer)).boxed());
    }

    pub(super) async fn next(&mut self) -> Option<(Lock, Answer)> {
        let (i, lock, answer) = self.answers.next().await?;
        if let Some(engine) = self.silent[i].take() {
            match answer {
                Err(Error::Redis(_)) => engine.breaker.open(),
                _ => engine.breaker.close(),
            }
        }
        Some((lock, answer))
    }

    /// How many were asked.
    pub(super) fn asked(&self) -> usize {
        self.silent.len()
    }

    /// How many are not answered of those that were asked after so many.
    pub(super) fn open_from(&self, asked: usize) -> usize {
        self.silent[asked..].iter().flatten().count()
    }

    /// How many are not answered.
    pub(super) fn open(&self) -> usize {
        self.answers.len()
    }

    pub(super) fn open_breakers(&self) {
        for engine in self.silent.iter().flatten() {
            engine.breaker.open();
        }
    }
}
