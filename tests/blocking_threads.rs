//! Each client has one thread, which ends with its last handle.
//!
//! A program of its own, because it counts its threads.
#![cfg(target_os = "linux")]

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use harness::{PATIENCE, RedisServer};
use redisson_lock::{Config, blocking::Client};

const CLIENTS: usize = 12;

/// How many threads of clients this process has.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.filter(|name| name.trim() == "redisson-lock").count()
}

fn down_to(count: usize) {
    let begun = Instant::now();
    while threads() != count {
        assert!(begun.elapsed() < PATIENCE, "{} threads, not {count}", threads());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_client_has_one_thread_that_ends_after_its_last_handle() {
    let server = RedisServer::start();
    let config = || Config::from_url(server.url()).unwrap().command_timeout(PATIENCE);
    let clients: Vec<_> = (0..CLIENTS).map(|_| Client::connect(config()).unwrap()).collect();
    assert_eq!(threads(), CLIENTS);

    // Whatever is left of a client keeps its thread.
    let mut clients = clients.into_iter();
    let mut next = || clients.next().unwrap();
    let lock = next().lock("a");
    let guard = next().lock("b").lock().run().unwrap();
    let copy = next().clone();
    let side = next().read_write_lock("c").read_lock().clone();
    let closed = next();
    closed.close().unwrap();
    thread::sleep(Duration::from_millis(200));
    assert_eq!(threads(), CLIENTS);
    guard.check().unwrap();
    drop(guard);
    down_to(CLIENTS - 1);
    drop((lock, copy, side));
    down_to(CLIENTS - 4);
    drop(closed);
    down_to(CLIENTS - 5);
    drop(clients);
    down_to(0);

    // Nor does a client that cannot connect leave one.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    Client::connect(Config::from_url(format!("redis://{port}")).unwrap()).unwrap_err();
    down_to(0);
}
