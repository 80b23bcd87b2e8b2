//! Bare fred: the same scripts and the same wake-up, and nothing else.

use std::time::Instant;

use fred::{
    clients::Client as Fred,
    interfaces::{ClientLike, EventInterface, PubsubInterface},
    types::{
        Builder, ClusterHash, CustomCommand, Value,
        config::{Config as FredConfig, TcpConfig},
    },
};
use serde_json::{Value as Json, json};

use super::{
    job::{Job, LEASE, Request},
    lock_client::LockClient,
};

const ACQUIRE: &str = include_str!("../../../../lua/reentrant/acquire.lua");
const RELEASE: &str = include_str!("../../../../lua/reentrant/release.lua");

/// A holder as the scripts know it.
const HOLDER: &str = "01234567-89ab-cdef-0123-456789abcdef:1";

/// The two scripts, over one connection.
pub(super) struct Bare {
    fred: Fred,
    acquire: String,
    release: String,
}

/// The two commands of one lock, arguments prepared.
pub(super) struct Pair {
    fred: Fred,
    acquire: Vec<Value>,
    release: Vec<Value>,
}

/// Holders that say they are done, and waiters that then take the lock.
pub(super) struct Wakeups {
    bare: Bare,
    subscriber: Fred,
    /// How a holder says it: by the script that frees the lock, or by PUBLISH alone.
    by_script: bool,
}

impl LockClient for Bare {
    type Lock = Pair;

    async fn connect(url: &str) -> Self {
        let fred = connection(url).await;
        let load = async |script: &str| {
            let command = CustomCommand::new_static("SCRIPT", ClusterHash::FirstKey, false);
            fred.custom(command, vec!["LOAD", script]).await.expect("a loaded script")
        };
        Self { acquire: load(ACQUIRE).await, release: load(RELEASE).await, fred }
    }

    fn lock(&self, name: &str) -> Pair {
        let text = |text: &str| Value::from(text.to_owned());
        let lease: i64 = LEASE.as_millis().try_into().expect("a lease");
        let acquire = [
            text(&self.acquire),
            1.into(),
            text(name),
            text(HOLDER),
            lease.into(),
            i64::MAX.into(),
        ];
        let release = [
            text(&self.release),
            1.into(),
            text(name),
            text(HOLDER),
            0.into(),
            text(&channel(name)),
            text("publish"),
        ];
        Pair { fred: self.fred.clone(), acquire: acquire.into(), release: release.into() }
    }

    async fn turn(lock: &Pair) -> Result<Instant, String> {
        lock.run(&lock.acquire).await?;
        let granted = Instant::now();
        lock.run(&lock.release).await?;
        Ok(granted)
    }
}

impl Pair {
    async fn run(&self, arguments: &[Value]) -> Result<Value, String> {
        let command = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
        let answer = self.fred.custom(command, arguments.to_vec()).await;
        answer.map_err(|error| error.to_string())
    }
}

impl Wakeups {
    pub(super) async fn connect(url: &str, by_script: bool) -> Self {
        Self { bare: Bare::connect(url).await, subscriber: connection(url).await, by_script }
    }

    async fn take(&self, name: &str) {
        let mut messages = self.subscriber.message_rx();
        self.subscriber.subscribe(channel(name)).await.expect("a subscription");
        messages.recv().await.expect("a message");
        let lock = self.bare.lock(name);
        let answer = lock.run(&lock.acquire).await.expect("an answer");
        assert!(answer.is_null(), "somebody else holds it");
    }

    async fn give_back(&self, name: &str) {
        self.subscriber.unsubscribe(channel(name)).await.expect("the end of the subscription");
        let lock = self.bare.lock(name);
        lock.run(&lock.release).await.expect("an answer");
    }
}

impl Job for Wakeups {
    async fn perform(&self, request: Request) -> Json {
        let name = &request.name;
        match (request.owner.as_str(), request.op.as_str()) {
            ("holder", "lock") if self.by_script => {
                let lock = self.bare.lock(name);
                lock.run(&lock.acquire).await.expect("an answer");
            }
            ("holder", "unlock") if self.by_script => {
                let lock = self.bare.lock(name);
                lock.run(&lock.release).await.expect("an answer");
            }
            ("holder", "lock") => {}
            ("holder", "unlock") => {
                let told: i64 = self.bare.fred.publish(channel(name), "0").await.expect("a count");
                assert_eq!(told, 1, "waiters");
            }
            ("waiter", "lock") => self.take(name).await,
            ("waiter", "unlock") => self.give_back(name).await,
            _ => panic!("{request:?}"),
        }
        json!(true)
    }
}

fn channel(name: &str) -> String {
    harness::lock_channel(name)
}

async fn connection(url: &str) -> Fred {
    let fred = Builder::from_config(FredConfig::from_url(url).expect("a URL"))
        .with_connection_config(|connection| {
            connection.tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
        })
        .build()
        .expect("a client");
    fred.init().await.expect("a connection");
    fred
}
