//! A real server whose clock the test sets.

use std::thread::sleep;
use std::time::Duration;

use harness::{RedisServer, ServerClock};
use redis_in_process::Reply;
use tempfile::TempDir;

use crate::connection::Connection;

/// The server, and its clock.
pub(crate) struct RealServer {
    redis: RedisServer,
    clock: ServerClock,
}

impl RealServer {
    /// A server whose time of day stands still unless it is set, and which deletes what has expired only when it is touched.
    pub(crate) fn start() -> Self {
        let clock = ServerClock::standing();
        let redis = RedisServer::builder()
            .unix_socket()
            .clock(&clock)
            .arg("--enable-debug-command")
            .arg("yes")
            .arg("--enable-protected-configs")
            .arg("yes")
            .start();
        let server = Self { redis, clock };
        let mut connection = server.connect();
        connection.is_ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        server.let_a_save_fail(&mut connection);
        server
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::to(&self.redis)
    }

    pub(crate) fn set_clock(&self, micros: u64) {
        self.clock.set(micros);
    }

    /// After this the server refuses writes whenever it is told to mind that.
    fn let_a_save_fail(&self, connection: &mut Connection) {
        let gone = TempDir::new().expect("a directory");
        connection.is_ok(&["CONFIG", "SET", "dir", gone.path().to_str().expect("a path")]);
        connection.is_ok(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
        // Never by itself.
        connection.is_ok(&["CONFIG", "SET", "save", "2000000000 2000000000"]);
        drop(gone);
        connection.call(&["BGSAVE"]);
        loop {
            let Reply::Bulk(info) = connection.call(&["INFO", "persistence"]) else {
                panic!("INFO is a text");
            };
            if String::from_utf8_lossy(&info).contains("rdb_last_bgsave_status:err") {
                return;
            }
            sleep(Duration::from_millis(10));
        }
    }
}
