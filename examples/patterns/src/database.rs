//! [`Database`]: SQLite from async code. All processes have the same file open. It is in WAL mode: readers see the last
//! commit and do not wait, writers wait for each other, and a commit is on the disk when it returns.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use crate::error::Result;

/// What a service gives its database at a time, in each process.
const CONNECTIONS: usize = 8;

/// How long a writer waits for another.
const BUSY: Duration = Duration::from_secs(60);

/// A pool of connections. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Database(Arc<Pool>);

#[derive(Debug)]
struct Pool {
    idle: Mutex<Vec<Connection>>,
    free: Semaphore,
}

/// One connection, for code that is not async.
///
/// # Errors
/// Those of SQLite.
pub fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY)?;
    Ok(connection)
}

/// Makes the file, with these tables and rows.
///
/// # Errors
/// Those of SQLite.
pub fn create(path: &Path, sql: &str) -> rusqlite::Result<()> {
    let connection = connect(path)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch(sql)
}

impl Database {
    /// Opens the file.
    ///
    /// # Errors
    /// Those of SQLite.
    pub fn open(path: &Path) -> Result<Self> {
        let idle = (0..CONNECTIONS).map(|_| connect(path)).collect::<rusqlite::Result<_>>()?;
        Ok(Self(Arc::new(Pool { idle: Mutex::new(idle), free: Semaphore::new(CONNECTIONS) })))
    }

    /// Runs this with a connection, on a thread that may block.
    ///
    /// # Errors
    /// Those of SQLite.
    ///
    /// # Cancel safety
    /// What has begun goes on when this is dropped.
    pub async fn run<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T> {
        let pool = self.0.clone();
        let turn = self.0.free.acquire().await?;
        turn.forget(); // given back by the thread
        let answer = tokio::task::spawn_blocking(move || {
            let connection = pool.idle().pop().expect("as many as there are turns");
            let answer = ask(&connection);
            pool.idle().push(connection);
            pool.free.add_permits(1);
            answer
        });
        Ok(answer.await??)
    }
}

impl Pool {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
