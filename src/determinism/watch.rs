//! `tokio::sync::watch`, whose receivers are woken in the order in which they began to wait. Tokio
//! wakes them in a random order.

use std::{pin::pin, sync::Arc};

use futures::FutureExt;
use tokio::{
    sync::{
        Notify,
        watch::{self, Ref, error::RecvError},
    },
    task::unconstrained,
};

#[derive(Debug)]
pub(crate) struct Sender<T> {
    /// `None` while it is dropped.
    values: Option<watch::Sender<T>>,
    changed: Arc<Notify>,
}

#[derive(Clone, Debug)]
pub(crate) struct Receiver<T> {
    values: watch::Receiver<T>,
    changed: Arc<Notify>,
}

impl<T> Sender<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { values: Some(watch::Sender::new(value)), changed: Arc::default() }
    }

    fn values(&self) -> &watch::Sender<T> {
        self.values.as_ref().expect("not dropped yet")
    }

    pub(crate) fn subscribe(&self) -> Receiver<T> {
        Receiver { values: self.values().subscribe(), changed: self.changed.clone() }
    }

    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        self.values().borrow()
    }

    pub(crate) fn send_replace(&self, value: T) -> T {
        let before = self.values().send_replace(value);
        self.changed.notify_waiters();
        before
    }

    pub(crate) fn send_modify(&self, modify: impl FnOnce(&mut T)) {
        self.values().send_modify(modify);
        self.changed.notify_waiters();
    }

    pub(crate) fn send_if_modified(&self, modify: impl FnOnce(&mut T) -> bool) -> bool {
        let modified = self.values().send_if_modified(modify);
        if modified {
            self.changed.notify_waiters();
        }
        modified
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.values = None;
        self.changed.notify_waiters();
    }
}

impl<T> Receiver<T> {
    pub(crate) async fn changed(&mut self) -> Result<(), RecvError> {
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            if let Some(done) = unconstrained(self.values.changed()).now_or_never() {
                return done;
            }
            changed.await;
        }
    }

    pub(crate) async fn wait_for(&mut self, is_it: impl Fn(&T) -> bool) -> Result<(), RecvError> {
        while !is_it(&self.values.borrow_and_update()) {
            self.changed().await?;
        }
        Ok(())
    }

    pub(crate) fn borrow(&self) -> Ref<'_, T> {
        self.values.borrow()
    }

    pub(crate) fn has_changed(&self) -> Result<bool, RecvError> {
        self.values.has_changed()
    }

    pub(crate) fn mark_unchanged(&mut self) {
        self.values.mark_unchanged();
    }
}
