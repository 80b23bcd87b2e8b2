//! [`NameSetter`]: sends one connection its name, and again when its driver has reconnected it.
//! [`ClientName`] says which name, and whether at all.
//!
//! The name is sent before anything else: a connection for messages takes it only before its first
//! subscription. Nothing waits for the answer, and a refusal is no failure of the connection.

use std::{
    sync::{Arc, OnceLock, Weak},
    task::{Context, Waker},
};

use super::{
    client_name::ClientName,
    connection::{Channels, Command, Connection, Heard, Listener},
};
use crate::runtime::ClientRuntime;

/// Sets the name of one connection.
#[derive(Clone)]
pub(super) struct NameSetter {
    client_name: ClientName,
    runtime: ClientRuntime,
    connection: Arc<OnceLock<Weak<dyn Connection>>>,
}

impl NameSetter {
    pub(super) fn new(client_name: ClientName, runtime: ClientRuntime) -> Self {
        Self { client_name, runtime, connection: Arc::default() }
    }

    /// Names the connection, which was made just now.
    pub(super) fn connected(&self, connection: &Arc<dyn Connection>) {
        self.send(connection);
        let _ = self.connection.set(Arc::downgrade(connection));
    }

    /// A listener that names the connection when it is made again, and then tells `next`.
    pub(super) fn before(&self, mut next: Option<Listener>) -> Listener {
        let setter = self.clone();
        Box::new(move |heard| {
            if matches!(heard, Heard::Reconnected)
                && let Some(connection) = setter.connection.get().and_then(Weak::upgrade)
            {
                setter.send(&connection);
            }
            if let Some(next) = &mut next {
                next(heard);
            }
        })
    }

    /// Sends the name. What is sent afterwards follows it.
    fn send(&self, connection: &Arc<dyn Connection>) {
        if !self.client_name.is_wanted() {
            return;
        }
        let (connection, client_name) = (connection.clone(), self.client_name.clone());
        let mut sending = Box::pin(async move {
            let args = ["SETNAME".into(), client_name.name.clone()];
            let (name, channels) = ("CLIENT", Channels::Plain);
            let command = Command { name, script: None, args: &args, channels, asking: false };
            client_name.note(&connection.send(command, None).await);
        });
        // A command is sent at the first poll.
        if sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.runtime.spawn(sending);
        }
    }
}
