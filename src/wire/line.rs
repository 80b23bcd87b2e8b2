//! A connection of a node, which may be gone for good when it breaks.
//!
//! A master that was killed, replaced, and started again takes itself for a master until the sentinels get to
//! it: empty, and used by nobody else. So behind sentinels nothing is sent over a connection that was made
//! again without having asked them.

use std::{future::Future, sync::Arc};

use fred::{
    clients::Client,
    error::{Error as FredError, ErrorKind},
    interfaces::ClientLike,
    types::Value,
};
use futures::{FutureExt, future::Either};
use tokio::sync::{Notify, watch};

use super::{
    FredConfig,
    connection::{self, Broken, RawAnswer, custom},
    node::Terms,
};
use crate::{error::Error, runtime::ClientRuntime};

#[derive(Clone)]
pub(super) struct Line {
    runtime: ClientRuntime,
    client: Client,
    /// `None`: fred connects again.
    end: Option<Arc<End>>,
}

/// Of a connection that breaks but once.
struct End {
    has_come: watch::Sender<bool>,
    doubt: Arc<Notify>,
}

impl End {
    fn comes(&self) {
        if !self.has_come.send_replace(true) {
            self.doubt.notify_one();
        }
    }
}

/// An answer, or that there will be none: fred lets those wait for ever who ask when the connection is gone.
async fn until<T>(
    end: Arc<End>,
    answer: impl Future<Output = Result<T, FredError>>,
) -> Result<T, FredError> {
    let mut has_come = end.has_come.subscribe();
    if *has_come.borrow() {
        let text = "Failed to route command: the connection is gone";
        return Err(FredError::new(ErrorKind::Routing, text));
    }
    tokio::select! {
        biased;
        answer = answer => answer,
        _ = has_come.wait_for(|has_come| *has_come) => {
            Err(FredError::new(ErrorKind::IO, "the connection is gone"))
        }
    }
}

impl Line {
    /// Not yet connected.
    pub(super) fn new(config: &FredConfig, terms: &Terms, events: usize) -> Result<Self, Error> {
        let client = connection::client(config, terms.command_timeout, events, terms.broken)?;
        let end = match terms.broken {
            Broken::Reconnects => None,
            Broken::IsGone => Some(Arc::new(End {
                has_come: watch::Sender::new(false),
                doubt: terms.doubt.clone(),
            })),
        };
        Ok(Self { runtime: terms.runtime.clone(), client, end })
    }

    pub(super) async fn connect(&self) -> Result<(), FredError> {
        let running = connection::init(&self.runtime, self.client.clone()).await?;
        if let Some(end) = self.end.clone() {
            self.runtime.spawn(async move {
                let _ = running.await;
                end.comes();
            });
        }
        Ok(())
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether nothing can be sent over it any more.
    pub(super) fn is_gone(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end.has_come.borrow())
    }

    /// What its server answers.
    pub(super) fn ask<'a, T: Send + 'a>(
        &self,
        answer: impl Future<Output = Result<T, FredError>> + Send + 'a,
    ) -> impl Future<Output = Result<T, FredError>> + Send + 'a {
        match self.end.clone() {
            None => Either::Left(answer),
            Some(end) => Either::Right(until(end, answer).boxed()),
        }
    }

    pub(super) async fn command(&self, name: &'static str, args: Vec<Value>) -> RawAnswer {
        self.ask(self.client.custom(custom(name), args)).await
    }

    /// Nobody answers: ends it, and connects again if that is its way.
    pub(super) async fn give_up(&self) {
        let client = self.client.clone();
        match &self.end {
            None => {
                let _ = client.force_reconnection().await;
            }
            Some(_) if self.is_gone() => {}
            Some(end) => {
                end.comes();
                // It may be busy with writing what nobody takes.
                self.runtime.spawn(async move { client.force_reconnection().await });
            }
        }
    }
}
