//! An owner: what a thread is to Redisson. It is a task that runs its requests one after the other.

use redisson_lock::Client;
use tokio::sync::{mpsc, oneshot};

use crate::answers::{Code, Failure, Ticket};
use crate::ops::Thread;
use crate::request::Request;

#[derive(Debug)]
pub(crate) struct Owner {
    jobs: mpsc::UnboundedSender<Job>,
    /// Acquisitions, queued or running. The task closes `dropper` when one is over.
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct Pending {
    dropper: oneshot::Sender<Code>,
    was_dropped: oneshot::Receiver<bool>,
}

#[derive(Debug)]
enum Job {
    Acquire {
        ticket: Ticket,
        request: Request,
        dropped: oneshot::Receiver<Code>,
        was_dropped: oneshot::Sender<bool>,
    },
    Perform {
        ticket: Ticket,
        request: Request,
    },
    /// Tells that all before it is done.
    Idle(oneshot::Sender<()>),
}

impl Owner {
    pub(crate) fn start(client: Client) -> Self {
        let (jobs, queue) = mpsc::unbounded_channel();
        tokio::spawn(work(client, queue));
        Self { jobs, pending: Vec::new() }
    }

    /// Takes a lock; may be dropped from now on until its end.
    pub(crate) fn acquire(&mut self, ticket: Ticket, request: Request) {
        self.pending.retain(|one| !one.dropper.is_closed());
        let (dropper, dropped) = oneshot::channel();
        let (end, was_dropped) = oneshot::channel();
        self.pending.push(Pending { dropper, was_dropped });
        self.give(Job::Acquire { ticket, request, dropped, was_dropped: end });
    }

    pub(crate) fn perform(&self, ticket: Ticket, request: Request) {
        self.give(Job::Perform { ticket, request });
    }

    /// Drops every acquisition that is queued or running: for each, once answered, whether it was dropped in time.
    pub(crate) fn drop_acquisitions(&mut self, why: Code) -> Vec<oneshot::Receiver<bool>> {
        self.pending
            .drain(..)
            .filter_map(|one| one.dropper.send(why).is_ok().then_some(one.was_dropped))
            .collect()
    }

    /// Waits until all that this owner was given before is done.
    pub(crate) async fn idle(&self) {
        let (sender, idle) = oneshot::channel();
        self.give(Job::Idle(sender));
        let _ = idle.await;
    }

    fn give(&self, job: Job) {
        self.jobs.send(job).expect("the owner's task lives as long as this");
    }
}

async fn work(client: Client, mut queue: mpsc::UnboundedReceiver<Job>) {
    let mut thread = Thread::new(client);
    while let Some(job) = queue.recv().await {
        match job {
            Job::Acquire { ticket, request, mut dropped, was_dropped } => {
                let mut in_time = false;
                let acquire = async {
                    tokio::select! {
                        biased;
                        Ok(why) = &mut dropped => {
                            in_time = true;
                            Err(Failure::new(why, "the acquisition was dropped"))
                        }
                        acquired = thread.acquire(&request) => acquired,
                    }
                };
                ticket.work(acquire).await;
                let _ = was_dropped.send(in_time);
            }
            Job::Perform { ticket, request } => ticket.work(thread.perform(&request)).await,
            Job::Idle(sender) => {
                let _ = sender.send(());
            }
        }
    }
}
