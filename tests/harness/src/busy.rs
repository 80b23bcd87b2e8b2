//! [`EndlessScript`]: a script of somebody else, for which a server serves nobody.

use std::{
    fmt,
    thread::{JoinHandle, sleep, spawn},
    time::Duration,
};

use redis::{Connection, RedisResult, cmd};

use crate::RedisServer;

/// A script that runs until it is [killed](EndlessScript::kill). Meanwhile the server answers BUSY.
pub struct EndlessScript {
    other: Connection,
    runs: JoinHandle<()>,
}

impl fmt::Debug for EndlessScript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndlessScript")
    }
}

impl EndlessScript {
    /// Begins one, and waits until the server answers BUSY. Sets `lua-time-limit`.
    pub fn begin(server: &RedisServer) -> Self {
        let (mut one, mut other) = (server.client(), server.client());
        cmd("CONFIG").arg("SET").arg("lua-time-limit").arg(100).exec(&mut other).unwrap();
        // It is answered when it was killed.
        let runs = spawn(move || {
            let run: RedisResult<()> = cmd("EVAL").arg("while true do end").arg(0).query(&mut one);
            run.expect_err("it has no end");
        });
        // Before the limit the server answers nothing, and kills nothing.
        sleep(Duration::from_millis(150));
        Self { other, runs }
    }

    /// Ends it.
    pub fn kill(mut self) {
        cmd("SCRIPT").arg("KILL").exec(&mut self.other).unwrap();
        self.runs.join().unwrap();
    }
}
