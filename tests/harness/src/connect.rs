//! Connections of an independent client to a server on a loopback port.

use std::time::Duration;

use redis::{Connection, RedisResult};

/// A connection that gives up on an answer.
pub(crate) fn connect(port: u16, limit: Duration) -> RedisResult<Connection> {
    let connection = client(port).get_connection_with_timeout(limit)?;
    connection.set_read_timeout(Some(limit))?;
    Ok(connection)
}

/// The client of a server on this port; it is not connected yet.
pub(crate) fn client(port: u16) -> redis::Client {
    redis::Client::open(format!("redis://127.0.0.1:{port}")).expect("a URL")
}
