//! [`Named`]: sends one connection its name, and again when its driver has reconnected it. [`Naming`] says
//! which name, and whether at all.
//!
//! The name is sent before anything else: a connection for messages takes it only before its first
//! subscription. Nothing waits for the answer, and a refusal is no failure of the connection.

use std::{
    sync::{Arc, OnceLock, Weak},
    task::{Context, Waker},
};

use super::{
    connection::{Channels, Command, Connection, Heard, Listener},
    naming::Naming,
};
use crate::runtime::ClientRuntime;

/// A connection that has a name, or is to get one.
#[derive(Clone)]
pub(super) struct Named {
    naming: Naming,
    runtime: ClientRuntime,
    connection: Arc<OnceLock<Weak<dyn Connection>>>,
}

impl Named {
    pub(super) fn new(naming: Naming, runtime: ClientRuntime) -> Self {
        Self { naming, runtime, connection: Arc::default() }
    }

    /// Names the connection, which was made just now.
    pub(super) fn connected(&self, connection: &Arc<dyn Connection>) {
        self.send(connection);
        let _ = self.connection.set(Arc::downgrade(connection));
    }

    /// A listener that names the connection when it is made again, and then tells `next`.
    pub(super) fn before(&self, mut next: Option<Listener>) -> Listener {
        let named = self.clone();
        Box::new(move |heard| {
            if matches!(heard, Heard::Reconnected)
                && let Some(connection) = named.connection.get().and_then(Weak::upgrade)
            {
                named.send(&connection);
            }
            if let Some(next) = &mut next {
                next(heard);
            }
        })
    }

    /// Sends the name. What is sent afterwards follows it.
    fn send(&self, connection: &Arc<dyn Connection>) {
        if !self.naming.is_wanted() {
            return;
        }
        let (connection, naming) = (connection.clone(), self.naming.clone());
        let mut sending = Box::pin(async move {
            let args = ["SETNAME".into(), naming.name.clone()];
            let (name, channels) = ("CLIENT", Channels::Plain);
            let command = Command { name, script: None, args: &args, channels, asking: false };
            naming.note(&connection.send(command, None).await);
        });
        // A command is sent at the first poll.
        if sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.runtime.spawn(sending);
        }
    }
}
