use std::io::{self, ErrorKind, Write};
use std::net::TcpStream;
use std::time::Instant;

use redis::{Connection, RedisResult, cmd};

use super::*;
use crate::RedisServer;

/// A server, a proxy in front of it, and a look behind the proxy.
struct Stage {
    server: RedisServer,
    proxy: Proxy,
}

impl Stage {
    async fn new() -> Self {
        let server = RedisServer::start();
        let proxy = Proxy::start(server.port()).await;
        Self { server, proxy }
    }

    fn connect(&self) -> Connection {
        let connection = redis::Client::open(self.proxy.url()).unwrap().get_connection().unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        connection
    }

    fn connect_raw(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.proxy.port())).unwrap()
    }

    fn count(&self, key: &str) -> i64 {
        cmd("GET").arg(key).query::<Option<i64>>(&mut self.server.client()).unwrap().unwrap_or(0)
    }
}

/// Writes until nothing more is taken.
fn fill(socket: &mut TcpStream) -> io::Result<()> {
    let piece = cmd("ECHO").arg("x".repeat(1 << 16)).get_packed_command();
    loop {
        socket.write_all(&piece)?;
    }
}

fn incr(connection: &mut Connection, key: &str) -> RedisResult<i64> {
    cmd("INCR").arg(key).query(connection)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_honest_proxy_changes_nothing() {
    let stage = Stage::new().await;
    let mut client = stage.connect();
    assert_eq!(incr(&mut client, "k").unwrap(), 1);
    let big = "x".repeat(300_000);
    let echoed: String = cmd("ECHO").arg(&big).query(&mut client).unwrap();
    assert_eq!(echoed, big);
    assert_eq!(stage.proxy.connections(), 1);
    drop(client);
    stage.proxy.connected(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_lost_reply_is_of_a_request_carried_out() {
    let stage = Stage::new().await;
    let lost = stage.proxy.lose_next_reply(["INCR", "order"]);
    let mut client = stage.connect();
    assert_eq!(incr(&mut client, "other").unwrap(), 1);
    incr(&mut client, "order").unwrap_err();
    lost.reached(1).await;
    assert_eq!(stage.count("order"), 1);
    assert_eq!(incr(&mut stage.connect(), "order").unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_lost_reply_in_a_pipeline_spares_those_before_it() {
    let stage = Stage::new().await;
    stage.proxy.lose_next_reply("order");
    let mut client = stage.connect();
    let pipeline =
        ["a", "order", "b"].map(|key| cmd("INCR").arg(key).get_packed_command()).concat();
    client.send_packed_command(&pipeline).unwrap();
    assert_eq!(client.recv_response().unwrap(), redis::Value::Int(1));
    client.recv_response().unwrap_err();
    assert_eq!(["a", "order", "b"].map(|key| stage.count(key)), [1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reply_that_is_replaced_is_of_a_request_carried_out() {
    let stage = Stage::new().await;
    let replaced = stage.proxy.answer_next("order", "-BUSY as the test wants");
    let mut client = stage.connect();
    assert_eq!(incr(&mut client, "other").unwrap(), 1);
    assert_eq!(incr(&mut client, "order").unwrap_err().code(), Some("BUSY"));
    assert_eq!(replaced.count(), 1);
    assert_eq!(incr(&mut client, "order").unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn lost_requests_never_arrive_and_are_counted() {
    let stage = Stage::new().await;
    let lost = stage.proxy.lose_requests("order", 2);
    for _ in 0..2 {
        incr(&mut stage.connect(), "order").unwrap_err();
    }
    lost.reached(2).await;
    assert_eq!(incr(&mut stage.connect(), "order").unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_held_request_arrives_after_its_client_has_gone() {
    let stage = Stage::new().await;
    let mut client = stage.connect();
    stage.proxy.hold_requests_with("late");
    client.send_packed_command(&cmd("INCR").arg("late").get_packed_command()).unwrap();
    crate::eventually(PATIENCE, "the request to be held", || {
        (stage.proxy.held() == 1).then_some(())
    })
    .await;
    drop(client);
    stage.proxy.connected(0).await;
    assert_eq!(incr(&mut stage.connect(), "prompt").unwrap(), 1);
    assert_eq!(stage.count("late"), 0);
    stage.proxy.release_held();
    crate::eventually(PATIENCE, "the late request", || (stage.count("late") == 1).then_some(()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn connections_are_cut_all_or_by_what_they_have_sent() {
    let stage = Stage::new().await;
    let (mut commands, mut listener) = (stage.connect(), stage.connect());
    incr(&mut commands, "k").unwrap();
    listener.as_pubsub().subscribe("news").unwrap();
    assert_eq!(stage.proxy.cut_matching("SUBSCRIBE"), 1);
    incr(&mut commands, "k").unwrap();
    listener.recv_response().unwrap_err();
    assert_eq!(stage.proxy.cut_all(), 1);
    incr(&mut commands, "k").unwrap_err();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn refused_connections_are_closed_at_once() {
    let stage = Stage::new().await;
    stage.proxy.refuse(true);
    let refused = redis::Client::open(stage.proxy.url()).unwrap().get_connection();
    assert!(refused.is_err());
    stage.proxy.refuse(false);
    incr(&mut stage.connect(), "k").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_blackhole_swallows_and_keeps_open() {
    let stage = Stage::new().await;
    let (mut client, mut idle) = (stage.connect(), stage.connect());
    stage.proxy.blackhole(true);
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let silence = incr(&mut client, "k").unwrap_err();
    assert!(silence.is_timeout(), "{silence}");
    stage.proxy.blackhole(false);
    assert_eq!(stage.count("k"), 0);
    assert_eq!(incr(&mut idle, "k").unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_not_read_fills_the_buffers_and_is_not_lost() {
    let stage = Stage::new().await;
    let mut client = stage.connect();
    stage.proxy.stop_reading(true);
    let mut new = stage.connect_raw();
    new.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
    let full = fill(&mut new).unwrap_err();
    assert!(matches!(full.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{full}");
    drop(new);
    client.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(incr(&mut client, "k").unwrap_err().is_timeout());
    assert_eq!(stage.count("k"), 0);
    stage.proxy.stop_reading(false);
    crate::eventually(PATIENCE, "what was not read", || (stage.count("k") == 1).then_some(()))
        .await;

    stage.proxy.stop_reading_open();
    assert_eq!(incr(&mut stage.connect(), "new").unwrap(), 1);
    let mut late = cmd("INCR");
    late.arg("late");
    client.send_packed_command(&late.get_packed_command()).unwrap();
    assert_eq!(stage.count("late"), 0);
    stage.proxy.heal();
    crate::eventually(PATIENCE, "the late one", || (stage.count("late") == 1).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn new_connections_may_lead_elsewhere() {
    let (stage, other) = (Stage::new().await, RedisServer::start());
    let mut old = stage.connect();
    incr(&mut old, "k").unwrap();
    stage.proxy.lead_to(other.port());
    assert_eq!(incr(&mut stage.connect(), "k").unwrap(), 1);
    assert_eq!(incr(&mut old, "k").unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn delayed_replies_take_their_time() {
    let stage = Stage::new().await;
    let mut client = stage.connect();
    stage.proxy.delay_replies(Duration::from_millis(150));
    let started = Instant::now();
    assert_eq!(incr(&mut client, "k").unwrap(), 1);
    assert!(started.elapsed() >= Duration::from_millis(150));
    stage.proxy.heal();
}
