//! [`set_name`]: sends a connection its name. [`ClientName`] says which name, and whether at all.
//!
//! The name is sent before anything else: a connection for messages takes it only before its first
//! subscription. Nothing waits for the answer, and a refusal is no failure of the connection.

use std::{
    sync::Arc,
    task::{Context, Waker},
};

use super::{
    client_name::ClientName,
    connection::{Channels, Command, Connection},
};
use crate::runtime::ClientRuntime;

/// Names the connection, which was made just now. What is sent afterwards follows the name.
pub(super) fn set_name(
    connection: &Arc<dyn Connection>,
    client_name: ClientName,
    runtime: &ClientRuntime,
) {
    if !client_name.is_wanted() {
        return;
    }
    let connection = connection.clone();
    let mut sending = Box::pin(async move {
        let args = ["SETNAME".into(), client_name.name.clone()];
        let (name, channels) = ("CLIENT", Channels::Plain);
        let command = Command { name, script: None, args: &args, channels, asking: false };
        client_name.note(&connection.send(command, None).await);
    });
    // A command is sent at the first poll.
    if sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        runtime.spawn(sending);
    }
}
