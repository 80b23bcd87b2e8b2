//! Connecting to servers, and addresses without one.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{PATIENCE, RedisServer, assert_nothing_left, eventually};
use redisson_lock::{Client, Config, Error, RedisErrorKind};

use crate::stage::{LOCK, SOON, Stage, assert_redis_error, gets_it, soon, waiter, within};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_listens_connecting_fails_at_once() {
    // The port is ours, and closed.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let begun = Instant::now();
    assert_redis_error(connect(format!("redis://127.0.0.1:{port}")).await);
    assert_redis_error(connect("redis+unix:///no/such/socket").await);
    println!("nobody there: {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_nobody_answers_connecting_fails_in_time_and_leaves_no_connection() {
    let stage = Stage::new().await;
    let before = stage.connections();
    stage.proxy.blackhole(true);
    let config = stage.config().command_timeout(Duration::from_millis(500));
    let begun = Instant::now();
    assert_redis_error(soon("to be refused", Client::connect(config)).await);
    println!("nobody answers: {:?}", begun.elapsed());
    stage.connections_down_to(before).await;
    stage.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_password_is_told_and_leaves_no_connection() {
    let stage = Stage::new().await;
    stage
        .redis()
        .query::<()>(cmd("ACL").arg(&["SETUSER", "service", "on", ">secret", "~*", "&*", "+@all"]));
    let before = stage.connections();
    let port = stage.server.port();
    assert_redis_error(connect(format!("redis://service:wrong@127.0.0.1:{port}")).await);
    assert_redis_error(connect(format!("redis://nobody:secret@127.0.0.1:{port}")).await);
    stage.connections_down_to(before).await;
    let client = connect(format!("redis://service:secret@127.0.0.1:{port}")).await.unwrap();
    client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
    stage.end([client]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_without_a_password_is_logged_in() {
    let stage = Stage::new().await;
    for (user, password) in [("open", "nopass"), ("service", ">secret")] {
        let user = ["SETUSER", user, "on", password, "~*", "&*", "+@all"];
        stage.redis().query::<()>(cmd("ACL").arg(&user));
    }
    let before = stage.connections();
    let port = stage.server.port();
    // Not as the default user instead, who needs no password here.
    assert_redis_error(connect(format!("redis://service@127.0.0.1:{port}")).await);
    stage.connections_down_to(before).await;
    let beside = Config::from_url(format!("redis://127.0.0.1:{port}")).unwrap().username("open");
    let urls = ["open@", "open:@", "open:whatever@"]
        .map(|user| Config::from_url(format!("redis://{user}127.0.0.1:{port}")).unwrap());
    for config in urls.into_iter().chain([beside]) {
        let client = Client::connect(config).await.unwrap();
        let list: String = stage.redis().query(cmd("CLIENT").arg("LIST"));
        assert_eq!(list.matches("user=open").count(), 2, "{list}");
        client.lock(LOCK).lock().await.unwrap().unlock().await.unwrap();
        client.close().await.unwrap();
        stage.connections_down_to(before).await;
    }
    stage.end([]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_wants_a_password_gets_it() {
    let server = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let port = server.port();
    assert_redis_error(connect(server.url()).await);
    assert_redis_error(connect(format!("redis://:wrong@127.0.0.1:{port}")).await);
    let client = connect(format!("redis://:secret@127.0.0.1:{port}")).await.unwrap();
    let guard = client.lock(LOCK).lock().await.unwrap();
    guard.check().await.unwrap();
    guard.unlock().await.unwrap();
    assert!(!client.lock(LOCK).is_locked().await.unwrap());
    client.close().await.unwrap();
}

/// Each connection that is made anew reads it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_replaced_in_its_file_needs_no_restart() {
    let server = RedisServer::start();
    let redis = server.inspector();
    let set_password = |password: &str| {
        let user = &mut cmd("ACL");
        user.arg("SETUSER").arg("app").arg("on").arg("resetpass").arg(format!(">{password}"));
        let () = redis.query(user.arg("~*").arg("&*").arg("+@all"));
    };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("password");
    set_password("first");
    std::fs::write(&path, "first\n").unwrap();
    // The file counts, not the password of the URL.
    let url = format!("redis://app:wrong@127.0.0.1:{}", server.port());
    let config = Config::from_url(url).unwrap().password_file(&path);
    let client = Client::connect(config).await.unwrap();
    let guard = client.lock(LOCK).lock().await.unwrap();
    for next in ["second", "third"] {
        set_password(next);
        std::fs::write(&path, next).unwrap();
        // One for commands and one for messages, which connect again each by itself.
        let connections = || {
            let list: String = redis.query(cmd("CLIENT").arg("LIST"));
            (list.matches(" user=app ").count() == 2).then_some(())
        };
        eventually(PATIENCE, "two connections", connections).await;
        let _: u32 = redis.query(cmd("CLIENT").arg("KILL").arg("USER").arg("app"));
        let taken = async { client.lock("new").lock().await?.unlock().await };
        // A driver that logs in with the old one is replaced after three timeouts of 3 s.
        within(Duration::from_secs(6), "to get through", taken).await.unwrap();
        guard.check().await.unwrap();
        let both = || {
            let list: String = redis.query(cmd("CLIENT").arg("LIST"));
            (list.matches("user=app").count() == 2).then_some(())
        };
        eventually(PATIENCE, "both connections", both).await;
    }
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_may_be_there_before_its_server() {
    let mut stage = Stage::new().await;
    stage.server.kill();
    let config = stage.config().lazy_connect(true).retry_timeout(Duration::from_millis(500));
    let begun = Instant::now();
    let (client, never) = (
        Client::connect(config.clone()).await.unwrap(),
        Client::connect(config.clone()).await.unwrap(),
    );
    assert!(begun.elapsed() < SOON, "it waits for no server");
    let refused = client.lock(LOCK).try_lock().await;
    let why = format!("{}", refused.unwrap_err());
    assert!(why.contains("there is no connection yet: "), "{why}");
    never.close().await.unwrap();

    let patient = Client::connect(config.retry_timeout(PATIENCE)).await.unwrap();
    let (lock, other) = (patient.lock(LOCK), client.lock(LOCK));
    let waiting = tokio::spawn(async move { lock.lock().await });
    stage.restart_server();
    let guard = within(PATIENCE, "the lock", waiting).await.unwrap().unwrap();
    // Messages come, too.
    let next = tokio::spawn(async move { other.lock().await });
    stage.listening(LOCK, 1).await;
    guard.unlock().await.unwrap();
    let (guard, _) = gets_it(next).await;
    guard.unlock().await.unwrap();
    stage.end([client, patient]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_server_can_mend_is_told_by_connect_though_it_is_lazy() {
    let server = RedisServer::builder().arg("--requirepass").arg("secret").start();
    let config = Config::from_url(server.url()).unwrap().lazy_connect(true);
    let short = Client::connect(config.clone().watchdog(Duration::ZERO)).await;
    assert!(matches!(short, Err(Error::Config(_))), "{short:?}");
    let client = Client::connect(config.retry_timeout(Duration::from_millis(100))).await.unwrap();
    let refused = client.lock(LOCK).try_lock().await;
    let why = format!("{}", refused.unwrap_err());
    assert!(why.contains("NOAUTH"), "{why}");
    client.close().await.unwrap();

    // Also when the time ends during a copy that is not the first.
    let config = Config::from_url(server.url()).unwrap().lazy_connect(true);
    let config = config.command_timeout(Duration::from_secs(1));
    let client = Client::connect(config.retry_timeout(Duration::from_millis(1_500))).await.unwrap();
    let refused = client.lock(LOCK).lock().await;
    let why = format!("{}", refused.unwrap_err());
    assert!(why.contains("NOAUTH"), "{why}");
    client.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unix_socket_is_as_good_as_any() {
    let server = RedisServer::builder().unix_socket().start();
    let short = server.unix_url().replace("redis+unix://", "unix://");
    let (client, other) =
        (connect(server.unix_url()).await.unwrap(), connect(short).await.unwrap());
    let guard = client.lock(LOCK).lock().await.unwrap();
    assert!(other.lock(LOCK).try_lock().await.unwrap().is_none());
    let turn = waiter(&other, LOCK);
    let channel = harness::lock_channel(LOCK);
    let redis = server.inspector();
    eventually(PATIENCE, "a listener", || (redis.subscribers(&channel) == 1).then_some(())).await;
    guard.unlock().await.unwrap();
    let (guard, _) = gets_it(turn).await;
    guard.unlock().await.unwrap();
    client.close().await.unwrap();
    other.close().await.unwrap();
    assert_nothing_left(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn databases_keep_locks_apart_but_not_messages() {
    let stage = Stage::new().await;
    let zero = stage.client().await;
    let one = connect(format!("{}/1", stage.proxy.url())).await.unwrap();
    let in_zero = zero.lock(LOCK).lock().await.unwrap();
    let in_one = one.lock(LOCK).try_lock().await.unwrap().expect("free there");
    stage.assert_held_by(&in_zero, LOCK);
    assert_eq!(one.lock(LOCK).inspect().await.unwrap().holders[0].id, in_one.holder());

    // A message from the other database wakes, and no more.
    let turn = waiter(&zero, LOCK);
    stage.listening(LOCK, 1).await;
    in_one.unlock().await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!turn.is_finished());
    in_zero.unlock().await.unwrap();
    let (guard, _) = gets_it(turn).await;
    guard.unlock().await.unwrap();
    stage.end([zero, one]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_single_server_that_is_taken_for_a_cluster_says_so() {
    let open = RedisServer::start();
    let shut = RedisServer::builder().arg("--requirepass").arg("secret").start();
    for (login, server) in [("", &open), (":secret@", &shut)] {
        let result = connect(format!("redis-cluster://{login}127.0.0.1:{}", server.port())).await;
        let is_told =
            matches!(&result, Err(Error::Config(why)) if why.contains("use a redis:// URL"));
        assert!(is_told, "{result:?}");
    }
}

/// A server that says this to whatever it hears first, and closes the connection. It ends with the process.
fn serve(answer: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(answer);
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_speaks_http_is_told() {
    let port = serve(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    let error = connect(format!("redis://127.0.0.1:{port}")).await.unwrap_err().to_string();
    assert!(error.contains("does not speak the Redis protocol"), "{error}");
}

/// A proxy does so whose server is away. It may come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_closes_the_connection_is_no_stranger_to_the_protocol() {
    let port = serve(b"");
    for login in ["", "user:secret@"] {
        let error = connect(format!("redis://{login}127.0.0.1:{port}")).await.unwrap_err();
        let Error::Redis(why) = &error else { panic!("{error:?}") };
        let lost = [RedisErrorKind::Unreachable, RedisErrorKind::Disconnected];
        assert!(lost.contains(&why.kind()), "{login}: {error:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_does_not_exist_is_told() {
    let server = RedisServer::builder().arg("--databases").arg("2").start();
    let result = connect(format!("{}/7", server.url())).await;
    assert!(matches!(result, Err(Error::Redis(_) | Error::Config(_))), "{result:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_refuses_and_comes_back_is_found_again() {
    let mut stage = Stage::new().await;
    let client = stage.client().await;
    stage.server.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    stage.restart_server();
    let guard = within(SOON, "to acquire", client.lock(LOCK).lock()).await.unwrap();
    guard.unlock().await.unwrap();
    stage.end([client]).await;
}

/// A connection that breaks once the password has been changed is not made again: callers are told why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_changed_is_told_and_taken_back_is_no_harm() {
    let stage = Stage::new().await;
    let set_user = |rules: &[&str]| {
        stage.redis().query::<()>(cmd("ACL").arg(&["SETUSER", "service"]).arg(rules));
    };
    set_user(&["on", ">secret", "~*", "&*", "+@all"]);
    let url = format!("redis://service:secret@127.0.0.1:{}", stage.proxy.port());
    let config = Config::from_url(url).unwrap();
    let short = Duration::from_millis(800);
    let client = Client::connect(config.command_timeout(short).retry_timeout(short));
    let client = client.await.unwrap();
    let held = client.lock("held").lock().await.unwrap();

    set_user(&["resetpass", ">another"]);
    stage.proxy.cut_all();
    let told = async {
        loop {
            let told = client.lock(LOCK).try_lock().await.unwrap_err().to_string();
            assert!(!told.contains("secret"), "{told}");
            if told.contains("WRONGPASS") {
                return println!("{told}");
            }
        }
    };
    soon("the reason to be told", told).await;

    set_user(&[">secret"]);
    let let_in = async {
        loop {
            // The next try to connect may come later than a call waits for it.
            if let Ok(guard) = client.lock(LOCK).lock().await {
                return guard;
            }
        }
    };
    soon("to be let in", let_in).await.unlock().await.unwrap();
    held.unlock().await.unwrap();
    stage.end([client]).await;
}

async fn connect(url: impl Into<String>) -> Result<Client, Error> {
    let config = Config::from_url(url).unwrap();
    soon("for an answer", Client::connect(config)).await
}
