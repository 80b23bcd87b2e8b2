//! A connection for the counters beside the locks.

use std::time::Duration;

use redis::RedisError;
use redis::aio::{ConnectionManager, ConnectionManagerConfig};

const ANSWER_LIMIT: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub(crate) struct Connection(pub(crate) ConnectionManager);

impl Connection {
    pub(crate) async fn open(url: &str) -> Result<Self, RedisError> {
        let limits = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(ANSWER_LIMIT))
            .set_response_timeout(Some(ANSWER_LIMIT));
        let client = redis::Client::open(url)?;
        Ok(Self(ConnectionManager::new_with_config(client, limits).await?))
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connection")
    }
}
