//! A real server whose clock the test sets.

use std::env;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use harness::RedisServer;
use redis_in_process::Reply;
use tempfile::TempDir;

use crate::connection::Connection;

/// The server, and the file that says what its clock shows.
pub(crate) struct RealServer {
    redis: RedisServer,
    clock: File,
    _directory: TempDir,
}

impl RealServer {
    /// A server whose time of day stands still unless it is set, and which deletes what has expired only when it is touched.
    pub(crate) fn start() -> Self {
        let directory = TempDir::new().expect("a directory");
        let (library, file) = (directory.path().join("clock.so"), directory.path().join("clock"));
        compile(&library);
        let clock = OpenOptions::new().create_new(true).write(true).open(&file).expect("a file");
        clock.write_all_at(&1_i64.to_ne_bytes(), 0).expect("a time");
        let redis = RedisServer::builder()
            .unix_socket()
            .env("LD_PRELOAD", library)
            .env("SET_CLOCK", file)
            .arg("--enable-debug-command")
            .arg("yes")
            .arg("--enable-protected-configs")
            .arg("yes")
            .start();
        let server = Self { redis, clock, _directory: directory };
        let mut connection = server.connect();
        connection.is_ok(&["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
        server.let_a_save_fail(&mut connection);
        server
    }

    pub(crate) fn connect(&self) -> Connection {
        Connection::to(&self.redis)
    }

    pub(crate) fn set_clock(&self, micros: u64) {
        self.clock.write_all_at(&micros.to_ne_bytes(), 0).expect("a time");
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

fn compile(library: &Path) {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".into());
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/like_redis/clock.c");
    let mut command = Command::new(&compiler);
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(library).arg(source);
    let done = command.status().unwrap_or_else(|error| panic!("`{compiler}`: {error}"));
    assert!(done.success(), "`{compiler}` does not compile the clock");
}
