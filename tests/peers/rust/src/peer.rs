//! Gives each request to its owner, and ends everything in order.

use std::collections::HashMap;
use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use redisson_lock::Client;
use serde_json::Value;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::answers::{Code, Failure, Ticket};
use crate::counter::Counters;
use crate::looping::{self, Plan};
use crate::ops;
use crate::owner::Owner;
use crate::request::{Op, Request, missing};
use crate::traffic::{self, Mood, Moods};

/// At close, queued requests get this long before the acquisitions among them are dropped.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
const CLOSE_LIMIT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Peer {
    client: Client,
    counters: Arc<Counters>,
    owners: HashMap<String, Owner>,
    /// Requests of no owner.
    others: JoinSet<()>,
    closing: Arc<AtomicBool>,
    moods: Arc<Moods>,
}

impl Peer {
    pub(crate) fn new(client: Client, counters: Counters) -> Self {
        Self {
            client,
            counters: Arc::new(counters),
            owners: HashMap::new(),
            others: JoinSet::new(),
            closing: Arc::default(),
            moods: Arc::default(),
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Begins what the line asks for. Within a runtime.
    pub(crate) fn serve(&mut self, line: &str) {
        let start = Instant::now();
        let (id, request) = Request::parse(line);
        let ticket = Ticket::new(id);
        match request {
            _ if self.is_closing() => {
                let failure = Failure::new(Code::Closed, "the peer is closing");
                ticket.answer(start, Err(failure));
            }
            Ok(request) => self.dispatch(ticket, request),
            Err(failure) => ticket.answer(start, Err(failure)),
        }
    }

    fn dispatch(&mut self, ticket: Ticket, request: Request) {
        while self.others.try_join_next().is_some() {}
        match (request.op, request.owner.clone()) {
            (Op::Loop, _) => self.run_loop(ticket, &request),
            (Op::Traffic, _) => self.run_traffic(ticket, request),
            (Op::Calm, _) => self.change(ticket, Mood::Calm),
            (Op::Rest, _) => self.change(ticket, Mood::Rest),
            (Op::Close, _) => self.close(ticket),
            (op, Some(name)) => {
                let client = &self.client;
                let owner = self.owners.entry(name).or_insert_with(|| Owner::start(client.clone()));
                match op {
                    Op::Lock | Op::TryLock => owner.acquire(ticket, request),
                    Op::Cancel => cancel(ticket, owner),
                    _ => owner.perform(ticket, request),
                }
            }
            (_, None) => {
                let client = self.client.clone();
                self.others.spawn(ticket.work(async move { ops::ask(&client, &request).await }));
            }
        }
    }

    fn run_loop(&mut self, ticket: Ticket, request: &Request) {
        let start = Instant::now();
        match Plan::of(request, &self.client) {
            Ok(plan) => {
                let (counters, stop) = (self.counters.clone(), self.closing.clone());
                self.others.spawn(ticket.work(looping::run(plan, counters, stop)));
            }
            Err(failure) => ticket.answer(start, Err(failure)),
        }
    }

    fn run_traffic(&mut self, ticket: Ticket, request: Request) {
        let (client, moods) = (self.client.clone(), self.moods.clone());
        self.others.spawn(ticket.work(async move {
            let plan = request.plan.ok_or_else(|| missing("plan"))?;
            traffic::run(plan, client, moods).await
        }));
    }

    fn change(&self, ticket: Ticket, mood: Mood) {
        self.moods.set(mood);
        ticket.answer(Instant::now(), Ok(Value::Null));
    }

    /// Finishes what is queued, closes the client, answers and ends the process. What is still held then is left as it
    /// is, as by Redisson.
    fn close(&mut self, ticket: Ticket) {
        self.closing.store(true, Ordering::Relaxed);
        let client = self.client.clone();
        let mut owners = std::mem::take(&mut self.owners);
        let mut others = std::mem::take(&mut self.others);
        tokio::spawn(async move {
            let close = async {
                let _ = timeout(CLOSE_GRACE, finished(&owners, &mut others)).await;
                for owner in owners.values_mut() {
                    owner.drop_acquisitions(Code::Closed);
                }
                let _ = timeout(CLOSE_LIMIT, finished(&owners, &mut JoinSet::new())).await;
                let closed = client.close().await;
                // Loops that were waiting for a lock have been told by now.
                let _ = timeout(CLOSE_GRACE, finished(&HashMap::new(), &mut others)).await;
                closed?;
                Ok(Value::Null)
            };
            ticket.work(close).await;
            exit(0);
        });
    }
}

/// Answered after the acquisitions it drops, when it is known whether the lock was granted first.
fn cancel(ticket: Ticket, owner: &mut Owner) {
    let dropped = owner.drop_acquisitions(Code::Cancelled);
    tokio::spawn(ticket.work(async move {
        let mut any = false;
        for was_dropped in dropped {
            any |= was_dropped.await.unwrap_or(false);
        }
        Ok(any.into())
    }));
}

async fn finished(owners: &HashMap<String, Owner>, others: &mut JoinSet<()>) {
    for owner in owners.values() {
        owner.idle().await;
    }
    while others.join_next().await.is_some() {}
}
