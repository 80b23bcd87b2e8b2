//! [`Network`]: a driver whose connections lead to the sentinels of a [`Truth`].

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use tokio::time::sleep;

use super::sentinels::{Sentinel, Truth, host};
use crate::wire::{
    answers::{Answer, Failure},
    connection::{Command, Connected, Connecting, Connection, Done, Driver, Options},
    deployment::{Address, Endpoint, Place},
    script::{Arg, Reply},
};

/// The host of all sentinels.
const SENTINELS: &str = "s";

/// The address of the sentinel at that place.
pub(super) fn address(place: usize) -> Address {
    Address::new(SENTINELS, 1 + place as u16)
}

#[derive(Clone)]
pub(super) struct Network(Arc<Mutex<Truth>>);

impl Network {
    pub(super) fn new(truth: Truth) -> Self {
        Self(Arc::new(Mutex::new(truth)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Truth> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver for Network {
    fn connect(&self, endpoint: Endpoint, options: Options) -> Connecting {
        let Place::Tcp(Address { port, .. }) = endpoint.place else { panic!("a port") };
        let (place, patience) = (usize::from(port) - 1, options.command_timeout);
        let line = Line { network: self.clone(), place, id: '?', patience };
        async move {
            let id = line.reach().await?;
            let task = tokio::spawn(std::future::pending::<()>());
            Ok(Connected {
                connection: Box::new(Line { id, ..line }),
                task: task.abort_handle(),
                end: task.map(drop).boxed(),
            })
        }
        .boxed()
    }
}

/// A connection to the sentinel that had the address then.
struct Line {
    network: Network,
    place: usize,
    id: char,
    patience: Duration,
}

impl Line {
    /// Waits until a message is there and its answer is back. Returns who answers.
    async fn reach(&self) -> Result<char, Failure> {
        let of_it = || {
            let one = &self.network.lock().sentinels[self.place];
            (one.is_silent, one.delay, one.id)
        };
        let (is_silent, delay, _) = of_it();
        sleep(if is_silent { self.patience } else { delay }).await;
        match of_it() {
            (false, _, id) if !is_silent => Ok(id),
            _ => Err(Failure::timed_out()),
        }
    }

    async fn ask(&self, what: &[u8]) -> Answer {
        if self.reach().await? != self.id {
            return Err(Failure::gone());
        }
        let mut truth = self.network.lock();
        let one = truth.sentinels[self.place].clone();
        Ok(match what {
            b"MYID" => text(one.id),
            b"MASTER" => {
                let answer = of_its_master(&one);
                truth.heard.push((self.place, one));
                answer
            }
            b"GET-MASTER-ADDR-BY-NAME" => {
                let port = one.heir.unwrap_or(one.master);
                Reply::Array(vec![text(host(one.of)), text(port)])
            }
            _ => {
                let other = |id| {
                    let port = address(truth.places[id]).port;
                    map(&[("runid", &id), ("ip", &SENTINELS), ("port", &port)])
                };
                Reply::Array(one.peers.iter().map(other).collect())
            }
        })
    }
}

impl Connection for Line {
    fn send<'a>(&'a self, command: Command<'_>, _: Option<Duration>) -> BoxFuture<'a, Answer> {
        let Some(Arg::Bytes(what)) = command.args.first().cloned() else { panic!("SENTINEL") };
        async move { self.ask(&what).await }.boxed()
    }

    fn subscribe(&self, _: Vec<String>, _: bool) -> Done<'_> {
        unreachable!("nobody subscribes")
    }

    fn unsubscribe(&self, _: Vec<String>, _: bool) -> Done<'_> {
        unreachable!("nobody subscribes")
    }

    fn quit(&self) -> BoxFuture<'_, ()> {
        async {}.boxed()
    }
}

/// The leader of a failover tells its peers the new master, and whoever asks for the address alone. To others it still
/// names the old one.
fn of_its_master(one: &Sentinel) -> Reply {
    let flags = if one.heir.is_some() { "master,failover_in_progress" } else { "master" };
    let (ip, port, epoch) = (host(one.of), one.master, one.epoch);
    map(&[("ip", &ip), ("port", &port), ("flags", &flags), ("config-epoch", &epoch)])
}

fn map(fields: &[(&str, &dyn ToString)]) -> Reply {
    let fields = fields.iter().flat_map(|(name, value)| [text(name), text(value.to_string())]);
    Reply::Array(fields.collect())
}

fn text(text: impl ToString) -> Reply {
    Reply::Bytes(text.to_string().into())
}
