//! The answers of the service, beside a Redisson that takes the same lock.

use std::time::{Duration, Instant};

use harness::{
    Lang, Peer, PeerError, RedisServer, Servers, assert_nothing_left, eventually, skip_or_panic,
};
use http_service::{Service, WAIT};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::oneshot,
    task::JoinHandle,
};

/// A service that listens.
struct Running {
    address: std::net::SocketAddr,
    service: Service,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

impl Running {
    async fn start(redis: &RedisServer, work: Duration) -> Self {
        let service = Service::connect(&redis.url(), work).await.expect("a connection");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let router = service.router();
        let serving = tokio::spawn(async move {
            let serve = axum::serve(listener, router);
            serve.with_graceful_shutdown(async { drop(stopped.await) }).await.expect("to serve");
        });
        Self { address, service, stop, serving }
    }

    /// Pays this order: the status and the body of the answer.
    async fn pay(&self, order: &str) -> (u16, String) {
        pay(self.address, order).await
    }

    async fn end(self) {
        drop(self.stop);
        self.serving.await.expect("to serve");
        self.service.client.close().await.expect("to close");
    }
}

async fn pay(address: std::net::SocketAddr, order: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).await.expect("a connection");
    let request = format!(
        "POST /orders/{order}/pay HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.expect("to write");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let status = answer.split(' ').nth(1).expect("a status").parse().expect("a number");
    let body = answer.split_once("\r\n\r\n").expect("a body").1.to_owned();
    (status, body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_paid_by_one_caller_at_a_time() {
    let redis = RedisServer::start();
    let running = Running::start(&redis, Duration::from_millis(20)).await;
    let calls = (0..8).map(|_| tokio::spawn(pay(running.address, "7")));
    let mut bodies = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        let (status, body) = call.await.expect("a call");
        assert_eq!(status, 200, "{body}");
        bodies.push(body);
    }
    bodies.sort();
    let expected = (1..=8).map(|n| format!(r#"{{"order":"7","payments":{n}}}"#));
    assert_eq!(bodies, expected.collect::<Vec<_>>());
    running.end().await;
    assert_nothing_left(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_a_redisson_works_on_is_a_conflict() {
    let redis = RedisServer::start();
    let java = match Peer::spawn(Lang::Java, &redis.peer_args()).await {
        Ok(java) => java,
        Err(PeerError::Unavailable(why)) => return skip_or_panic("a conflict", &why),
        Err(error) => panic!("{error}"),
    };
    let running = Running::start(&redis, Duration::ZERO).await;
    let party = java.party("clerk", "lock", "order:42");
    party.lock().await;
    let begun = Instant::now();
    assert_eq!(running.pay("42").await.0, 409);
    assert!(begun.elapsed() >= WAIT);
    assert_eq!(running.pay("43").await.0, 200, "another order");
    party.unlock().await;
    assert_eq!(running.pay("42").await.0, 200);
    running.end().await;
    assert_nothing_left(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_is_away_is_an_answer_and_comes_back() {
    let mut redis = RedisServer::start();
    let running = Running::start(&redis, Duration::ZERO).await;
    redis.kill();
    assert_eq!(running.pay("1").await, (503, "try again later".into()));
    redis.restart();
    let mut paid = 0;
    for _ in 0..20 {
        paid = running.pay("1").await.0;
        if paid == 200 {
            break;
        }
    }
    assert_eq!(paid, 200);
    running.end().await;
    assert_nothing_left(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_answers_what_has_begun_and_leaves_nothing() {
    let redis = RedisServer::start();
    let running = Running::start(&redis, Duration::from_millis(700)).await;
    let inspector = redis.inspector();
    let call = tokio::spawn(pay(running.address, "9"));
    eventually(harness::PATIENCE, "a payment", || inspector.exists("order:9").then_some(())).await;
    running.end().await;
    assert_eq!(call.await.expect("a call").0, 200);
    assert_nothing_left(&redis).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_that_goes_away_gives_the_order_back() {
    let redis = RedisServer::start();
    let running = Running::start(&redis, Duration::from_secs(600)).await;
    let inspector = redis.inspector();
    let call = tokio::spawn(pay(running.address, "3"));
    eventually(harness::PATIENCE, "a payment", || inspector.exists("order:3").then_some(())).await;
    call.abort();
    eventually(harness::PATIENCE, "a release", || (!inspector.exists("order:3")).then_some(()))
        .await;
    running.end().await;
    assert_nothing_left(&redis).await;
}
