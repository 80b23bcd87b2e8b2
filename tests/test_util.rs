//! The server in the process that applications test with: clients, strangers, time, and what goes wrong.

use std::{sync::Arc, time::Duration};

use redisson_lock::{
    Asked, Client, Config, Error, Lock, Loss, MultiLock, RedisErrorKind, Replicas, RunError,
    test_util::{Refusal, TestServer},
};
use tokio::{
    sync::Mutex,
    task::JoinHandle,
    time::{Instant, sleep, timeout},
};

const SECOND: Duration = Duration::from_secs(1);

/// Starts to wait for the lock, and returns when the waiter sleeps.
async fn waiter(server: &TestServer, lock: Lock) -> JoinHandle<Duration> {
    let begun = Instant::now();
    let name = lock.name().expect("a name").to_owned();
    let waiting = tokio::spawn(async move {
        let guard = lock.lock().await.expect("the lock");
        let waited = begun.elapsed();
        guard.unlock().await.expect("a release");
        waited
    });
    while server.listeners(&name) == 0 {
        sleep(Duration::from_millis(1)).await;
    }
    // It asks once more when it is subscribed.
    sleep(Duration::from_millis(100)).await;
    waiting
}

fn kind_of(error: Error) -> RedisErrorKind {
    match error {
        Error::Redis(error) => error.kind(),
        other => panic!("{other:?} is no error of Redis"),
    }
}

/// Nothing is left when the clients are closed.
async fn end(server: &TestServer, clients: impl IntoIterator<Item = Client>) {
    for client in clients {
        client.close().await.expect("to close");
    }
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn clients_of_one_server_exclude_each_other() {
    let server = TestServer::new();
    let [a, b] = [server.client().await.unwrap(), server.client().await.unwrap()];
    let guard = a.lock("order:42").lock().await.unwrap();
    assert_eq!(server.holders("order:42"), [guard.holder()]);
    assert!(b.lock("order:42").try_lock().await.unwrap().is_none());
    assert!(b.lock("order:43").try_lock().await.unwrap().is_some());
    guard.unlock().await.unwrap();
    assert!(b.lock("order:42").try_lock().await.unwrap().is_some());
    end(&server, [a, b]).await;
}

#[tokio::test(start_paused = true)]
async fn many_tasks_of_several_clients_take_turns() {
    let server = TestServer::new();
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(server.client().await.unwrap());
    }
    let inside = Arc::new(Mutex::new(0));
    let tasks = (0..60).map(|n| {
        let lock = match n % 2 {
            0 => clients[n % 3].lock("counted"),
            _ => clients[n % 3].fair_lock("counted"),
        };
        let inside = inside.clone();
        tokio::spawn(async move {
            let guard = lock.lock().await.unwrap();
            let mut inside = inside.try_lock().expect("nobody else is inside");
            sleep(Duration::from_millis(1)).await;
            *inside += 1;
            drop(inside);
            guard.unlock().await.unwrap();
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(*inside.lock().await, 60);
    end(&server, clients).await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_of_each_kind_keeps_others_out_and_wakes_a_waiter() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let read_write = client.read_write_lock("l");
    let (read, write) = (read_write.read_lock().clone(), read_write.write_lock().clone());
    type Take = fn(&TestServer) -> redisson_lock::test_util::Stranger;
    let cases: [(&str, Take, Lock); 6] = [
        ("lock", |server| server.hold("l"), client.lock("l")),
        ("non-reentrant", |server| server.hold("l"), client.non_reentrant_lock("l")),
        ("fair", |server| server.hold_fair("l"), client.fair_lock("l")),
        ("write, read", |server| server.hold_write("l"), read.clone()),
        ("write, write", |server| server.hold_write("l"), write.clone()),
        ("read, write", |server| server.hold_read("l"), write),
    ];
    for (kind, take, lock) in cases {
        let stranger = take(&server);
        assert_eq!(server.holders("l"), [stranger.id()], "{kind}");
        assert!(lock.try_lock().await.unwrap().is_none(), "{kind}");
        let holders = match kind.contains(',') {
            true => read_write.inspect().await.unwrap().holders,
            false => lock.inspect().await.unwrap().holders,
        };
        assert!(matches!(&holders[..], [holder] if !holder.ours), "{kind}: {holders:?}");
        let waiting = waiter(&server, lock).await;
        let before = Instant::now();
        drop(stranger);
        waiting.await.unwrap();
        assert!(before.elapsed() < SECOND, "{kind}: a message wakes it, and no poll");
        assert_eq!(server.holders("l"), [""; 0], "{kind}");
    }
    let stranger = server.hold_read("l");
    assert!(read.try_lock().await.unwrap().is_some(), "readers share");
    drop(stranger);
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn holders_and_waiters_of_a_plain_lock_are_seen() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let lock = client.plain_lock("l");
    let guard = lock.lock().await.unwrap();
    assert_eq!(server.holders("l"), [guard.holder()]);
    let waiting = waiter(&server, lock).await;
    assert_eq!(server.listeners("l"), 1);
    guard.unlock().await.unwrap();
    waiting.await.unwrap();
    assert_eq!(server.holders("l"), [""; 0]);
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_stranger_holds_until_it_is_dropped_and_a_crashed_one_for_its_lease() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let lock = client.lock("l");
    let stranger = server.hold("l");
    sleep(3600 * SECOND).await;
    assert!(lock.try_lock().await.unwrap().is_none());
    let begun = Instant::now();
    stranger.crash();
    lock.lock().await.unwrap().unlock().await.unwrap();
    let waited = begun.elapsed();
    assert!(waited > 19 * SECOND && waited < 35 * SECOND, "{waited:?}");
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "a stranger cannot take \"l\"")]
async fn a_stranger_takes_no_held_lock() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let _guard = client.lock("l").lock().await.unwrap();
    let _stranger = server.hold("l");
}

#[tokio::test(start_paused = true)]
async fn a_strangers_hold_that_is_taken_away_does_not_come_back() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let stranger = server.hold("l");
    assert!(server.take_away("l"));
    assert!(!server.take_away("l"));
    sleep(60 * SECOND).await;
    let guard = client.lock("l").try_lock().await.unwrap().expect("it is free");
    drop(stranger);
    guard.unlock().await.expect("it is still held");
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_lock_is_taken_away_is_told_at_its_next_renewal() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    for lock in [client.lock("l"), client.read_write_lock("l").read_lock().clone()] {
        let guard = lock.lock().await.unwrap();
        let begun = Instant::now();
        assert!(server.take_away("l"));
        let stranger = server.hold("l");
        let work = async {
            sleep(3600 * SECOND).await;
            Ok::<_, Error>(())
        };
        let lost = guard.run(work).await;
        assert!(matches!(lost, Err(RunError::Lost { .. })), "{lost:?}");
        assert!(begun.elapsed() <= 11 * SECOND, "{:?}", begun.elapsed());
        drop(stranger);
    }
    let guard = client.lock("l").lock().await.unwrap();
    server.take_away("l");
    assert_eq!(guard.lost().await, Loss::Removed);
    drop(guard);
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_stalled_server_runs_later_what_it_was_sent() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let begun = Instant::now();
    server.stall();
    let error = client.lock("l").try_lock().await.unwrap_err();
    assert_eq!(kind_of(error), RedisErrorKind::Timeout);
    assert!(begun.elapsed() >= 3 * SECOND, "{:?}", begun.elapsed());
    assert_eq!(server.keys(), [""; 0]);
    let lock = client.lock("l");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap().unlock().await });
    sleep(SECOND).await;
    assert!(!waiting.is_finished());
    server.resume();
    waiting.await.unwrap().unwrap();
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_hold_ends_before_its_lease_when_the_server_stays_silent() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let guard = client.lock("l").lock().await.unwrap();
    let begun = Instant::now();
    server.stall();
    assert_eq!(guard.lost().await, Loss::Expired);
    let lasted = begun.elapsed();
    assert!(lasted > 15 * SECOND && lasted < 30 * SECOND, "{lasted:?}");
    server.resume();
    drop(guard);
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_stopped_server_refuses_connections_and_comes_back_with_its_data() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let guard = client.lock("held").lock().await.unwrap();
    server.stop();
    let error = client.lock("l").try_lock().await.unwrap_err();
    assert_eq!(kind_of(error), RedisErrorKind::Unreachable);
    let error = server.client().await.unwrap_err();
    assert_eq!(kind_of(error), RedisErrorKind::Unreachable);
    assert_eq!(server.holders("held"), [guard.holder()]);
    server.start();
    assert!(guard.is_held());
    guard.unlock().await.unwrap();
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_under_way_when_the_server_stops_is_not_answered() {
    let server = TestServer::new();
    let config = Config::default().retry_timeout(Duration::from_millis(10));
    let client = server.client_with(config).await.unwrap();
    server.stall();
    let lock = client.lock("l");
    let trying = tokio::spawn(async move { lock.try_lock().await });
    sleep(SECOND).await;
    server.stop();
    let error = trying.await.unwrap().unwrap_err();
    assert_eq!(kind_of(error), RedisErrorKind::Disconnected);
    server.start();
    // `close` waits no longer than that short retry timeout.
    sleep(60 * SECOND).await;
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_subscribed_again_after_a_stop_and_after_a_long_stall() {
    type Outage = fn(&TestServer, bool);
    let outages: [Outage; 2] = [
        |server, begins| if begins { server.stop() } else { server.start() },
        |server, begins| if begins { server.stall() } else { server.resume() },
    ];
    for outage in outages {
        let server = TestServer::new();
        let client = server.client().await.unwrap();
        let stranger = server.hold("l");
        let waiting = waiter(&server, client.lock("l")).await;
        outage(&server, true);
        sleep(5 * SECOND).await;
        outage(&server, false);
        sleep(10 * SECOND).await;
        assert_eq!(server.listeners("l"), 1);
        let begun = Instant::now();
        drop(stranger);
        waiting.await.unwrap();
        assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
        end(&server, [client]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_comes_back_empty_has_lost_the_holds() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let guard = client.lock("l").lock().await.unwrap();
    server.restart_empty();
    assert_eq!(server.keys(), [""; 0]);
    assert_eq!(guard.lost().await, Loss::Removed);
    assert!(client.lock("l").try_lock().await.unwrap().is_some());
    drop(guard);
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_may_connect_lazily() {
    let server = TestServer::new();
    server.stop();
    let client = server.client_with(Config::default().lazy_connect(true)).await.unwrap();
    let lock = client.lock("l");
    let waiting = tokio::spawn(async move { lock.lock().await.unwrap().unlock().await });
    sleep(SECOND).await;
    server.start();
    waiting.await.unwrap().unwrap();
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn requests_whose_replies_are_lost_count_once() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    for lock in [client.lock("l"), client.fair_lock("l")] {
        for lost in 1..4 {
            server.lose_replies(lost);
            let guard = lock.try_lock().await.unwrap().expect("it is free");
            assert_eq!(server.holders("l"), [guard.holder()]);
            server.lose_replies(1);
            // Whether the first copy freed it is not known.
            let _ = guard.unlock().await;
            assert_eq!(server.holders("l"), [""; 0]);
        }
    }
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_waiter_whose_message_is_lost_asks_by_itself() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let stranger = server.hold("l");
    let waiting = waiter(&server, client.lock("l")).await;
    server.lose_messages(1);
    let begun = Instant::now();
    drop(stranger);
    sleep(Duration::from_millis(50)).await;
    assert!(!waiting.is_finished(), "the message is lost");
    waiting.await.unwrap();
    assert!(begun.elapsed() < 4 * SECOND, "{:?}", begun.elapsed());
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_is_told_by_the_kind_of_the_error() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let lock = client.lock("l");
    for (why, kind) in [
        (Refusal::OutOfMemory, RedisErrorKind::OutOfMemory),
        (Refusal::CannotSave, RedisErrorKind::CannotSave),
        (Refusal::NoReplicas, RedisErrorKind::NoReplicas),
        (Refusal::ReadOnly, RedisErrorKind::ReadOnly),
        (Refusal::MasterDown, RedisErrorKind::NoMaster),
        (Refusal::Loading, RedisErrorKind::Loading),
        (Refusal::Busy, RedisErrorKind::Busy),
    ] {
        server.refuse(why);
        let begun = Instant::now();
        let error = lock.try_lock().await.unwrap_err();
        assert_eq!(kind_of(error), kind);
        assert!(begun.elapsed() > 2 * SECOND, "{why:?}: it goes on trying");
        server.accept();
        let begun = Instant::now();
        server.fail_next(why);
        let guard = lock.try_lock().await.unwrap().expect("it is free");
        assert!(begun.elapsed() < SECOND && !begun.elapsed().is_zero(), "{why:?}: one more try");
        guard.unlock().await.unwrap();
    }
    server.refuse(Refusal::OutOfMemory);
    let stranger = server.hold("l");
    drop(stranger);
    assert_eq!(server.holders("l"), [""; 0], "no fault concerns a stranger");
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_concerns_no_request_holds_no_other_back() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let guard = client.lock("l").lock().await.unwrap();
    // A release needs no memory.
    server.fail_next(Refusal::OutOfMemory);
    server.fail_next(Refusal::ReadOnly);
    let begun = Instant::now();
    guard.unlock().await.unwrap();
    assert!(!begun.elapsed().is_zero(), "it was sent once");
    let begun = Instant::now();
    client.lock("l").try_lock().await.unwrap().expect("it is free").unlock().await.unwrap();
    assert!(!begun.elapsed().is_zero(), "it was sent once");
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn all_replies_and_messages_can_be_lost_and_once_more() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    for _ in 0..2 {
        server.lose_replies(u32::MAX);
        server.lose_messages(u32::MAX);
        let error = client.lock("l").try_lock().await.unwrap_err();
        assert!(matches!(error, Error::Redis(_)), "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_named_lock_is_taken_away() {
    let server = TestServer::new();
    let _reader = server.hold_read("a:{x}");
    let keys = server.keys();
    assert!(!server.take_away("a"));
    assert_eq!(server.keys(), keys);
    assert!(server.take_away("a:{x}"));
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_the_server_can_be_set_ahead() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let lock = client.lock("l");
    let guard = lock.lock().lease(60 * SECOND).await.unwrap();
    server.advance(59 * SECOND);
    assert_eq!(server.holders("l"), [guard.holder()]);
    server.advance(2 * SECOND);
    assert_eq!(server.holders("l"), [""; 0]);
    assert!(guard.is_held(), "its own clock has not changed");
    let next = server.client().await.unwrap();
    next.lock("l").try_lock().await.unwrap().expect("it is free").unlock().await.unwrap();
    assert!(guard.unlock().await.is_err());
    // It knows the time of the server from an answer.
    lock.try_lock().await.unwrap().expect("it is free").unlock().await.unwrap();
    end(&server, [client, next]).await;
}

#[tokio::test(start_paused = true)]
async fn locks_of_several_servers_are_one() {
    let servers: Vec<_> = (0..3).map(|_| TestServer::new()).collect();
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(server.client().await.unwrap());
    }
    let majority = || MultiLock::majority(clients.iter().map(|client| client.lock("l")));
    servers[0].stop();
    let guard = majority().try_lock().wait(20 * SECOND).await.unwrap().expect("two of three");
    assert!(majority().try_lock().await.unwrap().is_none());
    guard.unlock().await.unwrap();
    servers[0].start();
    let all = MultiLock::all(clients.iter().map(|client| client.lock("l")));
    let stranger = servers[2].hold("l");
    assert!(all.try_lock().await.unwrap().is_none());
    drop(stranger);
    all.lock().await.unwrap().unlock().await.unwrap();
    for (server, client) in servers.iter().zip(clients) {
        end(server, [client]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn there_are_no_replicas() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let error = client.lock("l").replicas(Replicas::AtLeast(1)).try_lock().await.unwrap_err();
    assert!(matches!(error, Error::NotReplicated { .. }), "{error:?}");
    // What was not replicated is released in the background.
    let guard = client.lock("l").replicas(Replicas::All).lock().await.unwrap();
    guard.unlock().await.unwrap();
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_prefix_is_part_of_the_name() {
    let server = TestServer::new();
    let client = server.client_with(Config::default().prefix("shop:")).await.unwrap();
    let stranger = server.hold("shop:order:42");
    assert!(client.lock("order:42").try_lock().await.unwrap().is_none());
    drop(stranger);
    let error = server.client_with(Config::default().watchdog(Duration::ZERO)).await.unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_dropped_leaves_nothing() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let stranger = server.hold("l");
    let waiting = waiter(&server, client.lock("l")).await;
    waiting.abort();
    drop(client);
    let gone = async {
        while server.listeners("l") > 0 {
            sleep(SECOND).await;
        }
    };
    timeout(60 * SECOND, gone).await.expect("no subscription is left");
    drop(stranger);
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test]
async fn real_time_passes_for_a_server_whose_clock_is_not_paused() {
    let server = TestServer::new();
    let config = Config::default().watchdog(Duration::from_millis(900));
    let client = server.client_with(config).await.unwrap();
    let guard = client.lock("l").lock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(server.holders("l"), [guard.holder()], "it is renewed");
    server.take_away("l");
    timeout(10 * SECOND, guard.lost()).await.expect("to be told");
    drop(guard);
    end(&server, [client]).await;
}

#[test]
fn threads_use_it_with_a_blocking_client() {
    let server = TestServer::new();
    let client = server.blocking_client(Config::default()).unwrap();
    let lock = client.lock("l");
    let stranger = server.hold("l");
    assert!(lock.try_lock().run().unwrap().is_none());
    let waiting = std::thread::spawn(move || lock.lock().run().unwrap().unlock().unwrap());
    while server.listeners("l") == 0 {
        std::thread::yield_now();
    }
    drop(stranger);
    waiting.join().unwrap();
    client.close().unwrap();
    assert_eq!(server.keys(), [""; 0]);
}

/// As by other processes, which use other libraries.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_programs_use_it_through_a_port() {
    let server = TestServer::new();
    let port = server.listen().unwrap();
    let near = server.client().await.unwrap();
    let far = Client::connect(Config::from_url(port.url()).unwrap()).await.unwrap();
    let guard = far.lock("l").lock().await.unwrap();
    assert_eq!(server.holders("l"), [guard.holder()]);
    let lock = near.lock("l");
    assert!(lock.try_lock().await.unwrap().is_none());
    let waiting = waiter(&server, lock).await;
    guard.unlock().await.unwrap();
    timeout(10 * SECOND, waiting).await.unwrap().unwrap();

    let mut other = redis::Client::open(port.url()).unwrap().get_connection().unwrap();
    redis::cmd("SET").arg("mine").arg("1").exec(&mut other).unwrap();
    assert_eq!(server.keys(), ["mine"]);
    let missing = redis::cmd("SADD").arg("set").arg("1").exec(&mut other).unwrap_err();
    assert!(missing.to_string().contains("the server in process has no command sadd"), "{missing}");
    let script = "return redis.call('sadd', KEYS[1], '1')";
    let missing = redis::cmd("EVAL").arg(script).arg(1).arg("set").exec(&mut other).unwrap_err();
    assert!(missing.to_string().contains("no command sadd"), "{missing}");
    assert_eq!(redis::cmd("DEL").arg("mine").query(&mut other), Ok(1));

    server.stop();
    redis::cmd("PING").exec(&mut other).unwrap_err();
    server.start();
    far.lock("l").lock().await.unwrap().unlock().await.unwrap();
    // What the stop has cut off may still have to be undone.
    far.close().await.unwrap();
    drop(port);
    end(&server, [near]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_answers_as_redis_does() {
    let server = TestServer::new();
    let port = server.listen().unwrap();
    let connect = || redis::Client::open(port.url()).unwrap().get_connection().unwrap();
    let mut other = connect();
    let mut send = |line: &str| {
        let mut words = line.split(' ');
        let mut command = redis::cmd(words.next().unwrap());
        command.arg(words.collect::<Vec<_>>()).query::<redis::Value>(&mut other)
    };
    let keys = |answer: redis::Value| {
        let (_, keys): (u64, Vec<String>) = redis::from_redis_value(answer).unwrap();
        keys
    };
    send("SET order:1 a").unwrap();
    send("HSET order:2 field a").unwrap();
    send("HSET user:1 field a").unwrap();
    assert_eq!(keys(send("SCAN 0 MATCH order:* COUNT 10").unwrap()), ["order:1", "order:2"]);
    assert_eq!(keys(send("SCAN 0 TYPE hash MATCH order:*").unwrap()), ["order:2"]);
    assert_eq!(keys(send("SCAN 0").unwrap()).len(), 3);
    send("SCAN x").unwrap_err();
    send("SCAN 0 MATCH").unwrap_err();
    send("CLIENT NONSENSE").unwrap_err();
    send("CLIENT SETNAME me").unwrap();

    send("MULTI").unwrap();
    send("SET order:3 a").unwrap();
    send("NONSENSE").unwrap_err();
    let aborted = send("EXEC").unwrap_err();
    assert!(aborted.to_string().contains("Transaction discarded"), "{aborted}");
    assert_eq!(send("EXISTS order:3"), Ok(redis::Value::Int(0)));
    send("EXEC").unwrap_err();
    send("MULTI").unwrap();
    send("SET order:3 a").unwrap();
    send("CLIENT ID").unwrap();
    send("EXEC").unwrap();
    assert_eq!(send("EXISTS order:3"), Ok(redis::Value::Int(1)));

    send("MULTI").unwrap();
    send("EVAL return{} 0").unwrap();
    send("SET after a").unwrap();
    server.lose_replies(1);
    send("EXEC").unwrap_err();
    assert!(server.keys().contains(&"after".to_owned()), "{:?}", server.keys());

    let mut listens = connect();
    redis::cmd("SUBSCRIBE").arg("channel").query::<redis::Value>(&mut listens).unwrap();
    let refused = redis::cmd("GET").arg("text").exec(&mut listens).unwrap_err();
    assert!(refused.to_string().contains("in this context"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_all_refusals() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    for _ in 0..1000 {
        server.fail_next(Refusal::OutOfMemory);
    }
    server.refuse(Refusal::ReadOnly);
    server.stop();
    server.start();
    let begun = Instant::now();
    client.lock("l").try_lock().await.unwrap().expect("it is free").unlock().await.unwrap();
    assert!(begun.elapsed() < SECOND, "{:?}", begun.elapsed());
    end(&server, [client]).await;
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_the_server_does_not_overflow() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let guard = client.lock("l").lock().await.unwrap();
    for far in [Duration::MAX, Duration::from_micros(u64::MAX), Duration::MAX] {
        server.advance(far);
        assert_eq!(server.keys(), [""; 0]);
    }
    assert!(guard.unlock().await.is_err());
    let next = server.client().await.unwrap();
    next.lock("l").try_lock().await.unwrap().expect("it is free").unlock().await.unwrap();
    end(&server, [client, next]).await;
}

/// A client that asks, and what the holder's guard hears.
#[tokio::test(start_paused = true)]
async fn a_holder_hears_the_question_for_its_own_hold_only() {
    let server = TestServer::new();
    let [holder, other] = [server.client().await.unwrap(), server.client().await.unwrap()];
    let (lock, theirs) = (holder.lock("order:42"), other.lock("order:42"));
    assert_eq!(theirs.ask_to_release().await.unwrap(), Asked::Free);
    let mut me = holder.owner();
    for _ in 0..3 {
        let guard = lock.lock().by(&mut me).await.unwrap();
        assert!(!guard.is_asked_to_release());
        let heard = timeout(SECOND, guard.asked_to_release());
        assert!(heard.await.is_err(), "an earlier hold of the same owner was asked");
        let asked = theirs.ask_to_release().await.unwrap();
        assert!(matches!(asked, Asked::Sent { holders: 1, listening: 1, .. }), "{asked:?}");
        timeout(SECOND, guard.asked_to_release()).await.unwrap();
        assert!(guard.is_asked_to_release());
        // It stays asked, and nothing was taken from it.
        guard.asked_to_release().await;
        guard.check().await.unwrap();
        let waiting = tokio::spawn(theirs.lock().into_future());
        guard.unlock().await.unwrap();
        timeout(SECOND, waiting).await.unwrap().unwrap().unwrap().unlock().await.unwrap();
    }
    holder.close().await.unwrap();
    other.close().await.unwrap();
    assert_eq!(server.keys(), ["redisson_lock_asked:{order:42}"]);
    sleep(601 * SECOND).await;
    assert_eq!(server.keys(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_came_before_the_holder_listens_is_heard() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    type Make = fn(&Client) -> Lock;
    let kinds: [Make; 9] = [
        |client| client.lock("l"),
        |client| client.fair_lock("l"),
        |client| client.non_reentrant_lock("l"),
        |client| client.non_reentrant_fair_lock("l"),
        |client| client.fenced_lock("l").into(),
        |client| client.spin_lock("l"),
        |client| client.plain_lock("l"),
        |client| client.read_write_lock("l").read_lock().clone(),
        |client| client.read_write_lock("l").write_lock().clone(),
    ];
    for make in kinds {
        let lock = make(&client);
        let guard = lock.lock().await.unwrap();
        let asked = lock.ask_to_release().await.unwrap();
        assert!(matches!(asked, Asked::Sent { holders: 1, listening: 0, .. }), "{asked:?}");
        assert!(!asked.is_heard());
        sleep(300 * SECOND).await;
        timeout(SECOND, guard.asked_to_release()).await.unwrap();
        let asked = lock.ask_to_release().await.unwrap();
        assert!(!asked.is_heard(), "it knows already, and does not listen any more: {asked:?}");
        guard.unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn all_readers_are_asked_and_the_writer_by_itself() {
    let server = TestServer::new();
    let [a, b] = [server.client().await.unwrap(), server.client().await.unwrap()];
    let (sides, theirs) = (a.read_write_lock("catalog"), b.read_write_lock("catalog"));
    let readers = [sides.read().await.unwrap(), theirs.read().await.unwrap()];
    let heard = async || {
        for reader in &readers {
            timeout(SECOND, reader.asked_to_release()).await.unwrap();
        }
    };
    assert!(readers.iter().all(|reader| !reader.is_asked_to_release()));
    sleep(SECOND).await;
    assert_eq!(sides.write_lock().ask_to_release().await.unwrap(), Asked::Free);
    sleep(20 * SECOND).await;
    assert!(readers.iter().all(|reader| !reader.is_asked_to_release()));
    let asked = theirs.ask_to_release().await.unwrap();
    assert!(matches!(asked, Asked::Sent { holders: 2, listening: 2, .. }), "{asked:?}");
    heard().await;
    for reader in readers {
        reader.unlock().await.unwrap();
    }
    let mut me = a.owner();
    let writer = sides.write().by(&mut me).await.unwrap();
    let reader = sides.read().by(&mut me).await.unwrap();
    let _ = (writer.is_asked_to_release(), reader.is_asked_to_release());
    sleep(SECOND).await;
    let asked = theirs.write_lock().ask_to_release().await.unwrap();
    assert!(matches!(asked, Asked::Sent { holders: 1, listening: 1, .. }), "{asked:?}");
    timeout(SECOND, writer.asked_to_release()).await.unwrap();
    sleep(20 * SECOND).await;
    assert!(!reader.is_asked_to_release());
    theirs.read_lock().ask_to_release().await.unwrap();
    timeout(SECOND, reader.asked_to_release()).await.unwrap();
    // A lock of another kind has this name.
    let wrong = b.lock("catalog").ask_to_release().await;
    assert!(matches!(wrong, Err(Error::WrongKind { .. })), "{wrong:?}");
}

/// A hold that is handed off keeps its id. Who has it next was not asked.
#[tokio::test(start_paused = true)]
async fn a_question_to_a_hold_is_not_heard_by_whom_it_is_handed_to() {
    const MOMENT: Duration = Duration::from_millis(4);
    let server = TestServer::new();
    let [client, other] = [server.client().await.unwrap(), server.client().await.unwrap()];
    let lock = client.lock("l");
    // The hold goes on to the next caller, unless its holder listens.
    for listens in [false, true] {
        let first = lock.lock().await.unwrap();
        assert!(!(listens && first.is_asked_to_release()));
        sleep(MOMENT).await;
        let asked = other.lock("l").ask_to_release().await.unwrap();
        assert_eq!(asked.is_heard(), listens);
        sleep(MOMENT).await;
        let next = tokio::spawn(lock.lock().into_future());
        sleep(MOMENT).await;
        let id = first.holder().to_owned();
        first.unlock().await.unwrap();
        let next = next.await.unwrap().unwrap();
        assert_eq!(next.holder() == id, !listens, "listens: {listens}");
        assert!(timeout(20 * SECOND, next.asked_to_release()).await.is_err());
        assert!(other.lock("l").ask_to_release().await.unwrap().is_heard());
        timeout(SECOND, next.asked_to_release()).await.unwrap();
        next.unlock().await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_to_all_guards_of_an_owner_and_to_a_guard_of_several_locks() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let lock = client.lock("l");
    let mut me = client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    let inner = lock.lock().by(&mut me).await.unwrap();
    lock.ask_to_release().await.unwrap();
    timeout(SECOND, inner.asked_to_release()).await.unwrap();
    timeout(SECOND, outer.asked_to_release()).await.unwrap();
    inner.unlock().await.unwrap();
    assert!(outer.is_asked_to_release());
    outer.unlock().await.unwrap();

    let several = MultiLock::all([lock.clone(), client.lock("m")]).lock().await.unwrap();
    assert!(timeout(SECOND, several.asked_to_release()).await.is_err());
    assert!(client.lock("m").ask_to_release().await.unwrap().is_heard());
    timeout(SECOND, several.asked_to_release()).await.unwrap();
    several.unlock().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_listen_sends_nothing_for_it_and_a_lost_hold_is_not_asked() {
    let server = TestServer::new();
    let client = server.client().await.unwrap();
    let other = server.client().await.unwrap();
    let guard = client.lock("l").lock().await.unwrap();
    let mut asked = Box::pin(guard.asked_to_release());
    sleep(SECOND).await;
    assert!(!other.lock("l").ask_to_release().await.unwrap().is_heard());
    timeout(SECOND, &mut asked).await.unwrap();
    drop(asked);
    guard.unlock().await.unwrap();
    let guard = client.lock("l").lock().await.unwrap();
    let mut asked = Box::pin(guard.asked_to_release());
    assert!(timeout(SECOND, &mut asked).await.is_err());
    server.take_away("l");
    guard.lost().await;
    let next = other.lock("l").lock().await.unwrap();
    assert!(!other.lock("l").ask_to_release().await.unwrap().is_heard());
    assert!(timeout(60 * SECOND, asked).await.is_err());
    drop(guard);
    next.unlock().await.unwrap();
    sleep(700 * SECOND).await;
    end(&server, [client, other]).await;
}

/// What makes up for a message that is lost, and for a question that came while the server was away.
#[tokio::test(start_paused = true)]
async fn a_question_that_is_missed_is_heard_in_the_end() {
    let server = TestServer::new();
    let [client, other] = [server.client().await.unwrap(), server.client().await.unwrap()];
    for lost in [true, false] {
        let guard = client.lock("l").lock().await.unwrap();
        assert!(timeout(SECOND, guard.asked_to_release()).await.is_err());
        if lost {
            server.lose_messages(1);
        }
        let begun = Instant::now();
        other.lock("l").ask_to_release().await.unwrap();
        timeout(11 * SECOND, guard.asked_to_release()).await.unwrap();
        assert_eq!(begun.elapsed() > SECOND, lost, "{:?}", begun.elapsed());
        guard.unlock().await.unwrap();
    }
}
