//! Secrets that a client was given must not appear anywhere.

use std::error::Error as _;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use futures::stream::{StreamExt, iter};
use harness::redis::cmd;
use harness::{EndlessScript, PATIENCE, RedisServer, eventually};
use redisson_lock::{Client, Config, Driver, Error};

use crate::stage::{LOCK, SOON, within};
use crate::warnings::{Warnings, listen_to_everything};

/// So many credentials in each form of URL.
const MANY: usize = 1_000;

#[test]
fn no_credential_is_shown_by_a_configuration_or_by_what_is_wrong_with_it() {
    for form in FORMS {
        for _ in 0..MANY {
            let secrets = Secrets::new();
            let url = secrets.fill(form, encoded, 1);
            let config = Config::from_url(&url);
            let (plain, pretty) = (format!("{config:?}"), format!("{config:#?}"));
            secrets.assert_not_in(&[plain, pretty, chain_of(config.err())], form);
            // As one writes it who does not know that some characters must be encoded.
            let config = Config::from_url(secrets.fill(form, str::to_owned, 1));
            secrets.assert_not_in(&[format!("{config:?}"), chain_of(config.err())], form);
            let written: Config =
                serde_json::from_str(&serde_json::json!({ "url": url }).to_string()).unwrap();
            secrets.assert_not_in(&[format!("{written:?}")], form);
        }
    }
}

#[tokio::test]
async fn a_server_that_does_not_know_auth_makes_nobody_tell_the_password() {
    let log = listen_to_everything();
    let builder = RedisServer::builder().unix_socket();
    let server = builder.arg("--rename-command").arg("AUTH").arg("").start();
    are_refused(&server, &log).await;
}

/// It refuses what comes before AUTH, and would repeat the password.
#[tokio::test]
async fn a_busy_server_that_does_not_know_auth_makes_nobody_tell_the_password() {
    let log = listen_to_everything();
    let builder = RedisServer::builder().unix_socket();
    let server = builder.arg("--rename-command").arg("AUTH").arg("").start();
    let script = EndlessScript::begin(&server);
    are_refused(&server, &log).await;
    script.kill();
}

#[tokio::test]
async fn a_server_that_refuses_a_password_makes_nobody_tell_it() {
    let log = listen_to_everything();
    let builder = RedisServer::builder().unix_socket();
    let server = builder.arg("--requirepass").arg("another").start();
    are_refused(&server, &log).await;
}

/// The nodes of a cluster and the master behind sentinels are connected to by other ways than those that name them.
#[tokio::test]
async fn a_node_that_repeats_a_password_makes_nobody_tell_it() {
    let log = listen_to_everything();
    let is_asked_its_way = |form: &&&str| form.contains("-cluster") || form.contains("@{host}");
    let tries = FORMS.iter().filter(is_asked_its_way).flat_map(|form| {
        (0..20).map(move |n| async move {
            // It may know passwords once or a few times, and repeat them then.
            let secrets = Secrets::new();
            let gossip = Gossip::start(n % 5);
            let answer = connect(&secrets.fill(form, encoded, gossip.port)).await;
            secrets.assert_not_in(&[format!("{answer:?}"), chain_of(answer.err())], form);
            secrets.core
        })
    });
    let cores: Vec<_> = iter(tries).buffer_unordered(16).collect().await;
    log.assert_without_any(&cores);
}

#[tokio::test]
async fn a_server_that_forgets_auth_while_it_is_connected_to_makes_nobody_tell_the_password() {
    let log = listen_to_everything();
    let forms = ["redis://{user}:{password}@{host}", "redis-cluster://{user}:{password}@{host}"];
    for form in forms {
        let secrets = Secrets::new();
        let gossip = Gossip::start(usize::MAX);
        let client = connect(&secrets.fill(form, encoded, gossip.port)).await.unwrap();
        let asked = gossip.forget();
        eventually(PATIENCE, "somebody to connect again", || {
            (gossip.asked() > asked).then_some(())
        })
        .await;
        let answer = within(SOON, "an answer", client.lock(LOCK).try_lock()).await;
        secrets.assert_not_in(&[format!("{answer:?}"), chain_of(answer.err())], form);
        secrets.assert_not_in(&[format!("{client:?}")], form);
        let _ = within(SOON, "to close", client.close()).await;
        log.assert_without(&secrets.core);
    }
}

#[tokio::test]
async fn whoever_is_let_in_shows_no_credential() {
    let log = listen_to_everything();
    let server = RedisServer::builder().unix_socket().start();
    for form in FORMS.iter().filter(|form| !form.contains("s://") && !form.contains('-')) {
        for _ in 0..3 {
            let secrets = Secrets::new();
            let mut user = vec!["SETUSER".into(), secrets.user.clone(), "on".into()];
            user.extend(["~*", "&*", "+@all", "nopass"].map(String::from));
            server.inspector().query::<()>(cmd("ACL").arg(user));
            let url = secrets.fill(form, encoded, server.port());
            let url = url.replace("/socket", &server.unix_path().display().to_string());
            let Ok(client) = connect(&url).await else {
                // The default user has a password of its own here: none.
                assert!(!form.contains("{user}"), "{form}");
                continue;
            };
            let lock = client.lock(LOCK);
            let guard = lock.lock().await.unwrap();
            let shown = [format!("{client:?}"), format!("{lock:?}"), format!("{guard:?}")];
            secrets.assert_not_in(&shown, form);
            guard.unlock().await.unwrap();
            client.close().await.unwrap();
            log.assert_without(&secrets.core);
        }
    }
}

/// Many connect in vain.
async fn are_refused(server: &RedisServer, log: &Warnings) {
    let socket = server.unix_path().display().to_string();
    let forms: Vec<_> =
        FORMS.iter().filter(|form| !form.contains("s://") && !form.contains("s-")).collect();
    let tries = (0..MANY).map(|i| {
        let (form, secrets) = (forms[i % forms.len()], Secrets::new());
        let url = secrets.fill(form, encoded, server.port()).replace("/socket", &socket);
        async move {
            let answer = connect(&url).await;
            assert!(matches!(answer, Err(Error::Redis(_))), "{form}: {answer:?}");
            secrets.assert_not_in(&[format!("{answer:?}"), chain_of(answer.err())], form);
            secrets.core
        }
    });
    let cores: Vec<_> = iter(tries).buffer_unordered(16).collect().await;
    // redis-rs logs nothing.
    let is_logged = log.count("") > MANY || Driver::default() == Driver::RedisRs;
    assert!(is_logged, "nothing was logged: {}", log.count(""));
    log.assert_without_any(&cores);
}

async fn connect(url: &str) -> Result<Client, Error> {
    let config = Config::from_url(url)?.command_timeout(Duration::from_secs(2));
    // Each try of a TLS client takes the whole time: nobody answers it. And the log is long.
    within(PATIENCE, "an answer", Client::connect(config)).await
}

/// All that an error has to say.
fn chain_of(error: Option<Error>) -> String {
    let Some(error) = error else { return String::new() };
    let mut text = format!("{error} {error:?} {error:#?}");
    let mut source = error.source();
    while let Some(cause) = source {
        text += &format!(" {cause} {cause:?}");
        source = cause.source();
    }
    text
}

/// Every form of URL that is documented.
const FORMS: &[&str] = &[
    "redis://{user}:{password}@{host}",
    "redis://:{password}@{host}",
    "redis://{user}:{password}@{host}/2",
    "rediss://{user}:{password}@{host}",
    "valkey://{user}:{password}@{host}",
    "valkeys://:{password}@{host}/1",
    "redis-cluster://{user}:{password}@{host}",
    "redis-cluster://:{password}@{host}?node={host}",
    "rediss-cluster://{user}:{password}@{host}?node={host}",
    "valkey-cluster://{user}:{password}@{host}?node={host}",
    "valkeys-cluster://{user}:{password}@{host}",
    "redis-sentinel://{host}?sentinelServiceName=m&sentinelUsername={user}&sentinelPassword={password}",
    "redis-sentinel://{host}/1?sentinelPassword={password}&sentinelServiceName=m&node={host}",
    "redis-sentinel://{user}:{password}@{host}/1?sentinelServiceName=m&sentinelUsername={user}&sentinelPassword={password}",
    "rediss-sentinel://{user}:{password}@{host}?sentinelServiceName=m&sentinelPassword={password}",
    "valkey-sentinel://{host}?sentinelServiceName=m&sentinelPassword={password}",
    "valkeys-sentinel://{host}?sentinelServiceName=m&sentinelPassword={password}",
    "unix://{user}:{password}@localhost/socket",
    "redis+unix://:{password}@localhost/socket",
    "valkey+unix://{user}:{password}@localhost/socket",
];

/// A user and a password that occur nowhere else, nor does what is at the core of them, however they are written.
struct Secrets {
    user: String,
    password: String,
    core: String,
}

impl Secrets {
    fn new() -> Self {
        let core: String = (0..12).map(|_| fastrand::alphanumeric()).collect();
        let odd = || -> String {
            let odd: Vec<char> = "@:/?#[]%&=+ \"'\\é<{1a".chars().collect();
            (0..fastrand::usize(..5)).map(|_| *fastrand::choice(&odd).unwrap()).collect()
        };
        let password = odd() + &core + &odd();
        Self { user: format!("u{core}"), password, core }
    }

    fn fill(&self, form: &str, write: impl Fn(&str) -> String, port: u16) -> String {
        form.replace("{user}", &write(&self.user))
            .replace("{password}", &write(&self.password))
            .replace("{host}", &format!("127.0.0.1:{port}"))
    }

    fn assert_not_in(&self, texts: &[String], form: &str) {
        for text in texts {
            assert!(!text.contains(&self.core), "{form}: {:?} is in {text}", self.password);
        }
    }
}

fn encoded(text: &str) -> String {
    let encode = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(encode).collect()
}

/// Takes itself for a server, a node of a cluster and a sentinel, and repeats what it is told.
struct Gossip {
    port: u16,
    /// So many it lets in.
    lets_in: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
    connections: Arc<std::sync::Mutex<Vec<TcpStream>>>,
}

impl Gossip {
    fn start(lets_in: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let lets_in = Arc::new(AtomicUsize::new(lets_in));
        let (asked, connections) =
            (Arc::<AtomicUsize>::default(), Arc::<std::sync::Mutex<_>>::default());
        let this = Self { port, lets_in, asked, connections };
        let (lets_in, asked, connections) =
            (this.lets_in.clone(), this.asked.clone(), this.connections.clone());
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                connections.lock().unwrap().push(connection.try_clone().unwrap());
                let (lets_in, asked) = (lets_in.clone(), asked.clone());
                thread::spawn(move || talk(connection, port, &lets_in, &asked));
            }
        });
        this
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Lets nobody in any more, and ends what there is. How often it was asked until now.
    fn forget(&self) -> usize {
        self.lets_in.store(0, Ordering::Relaxed);
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
        self.asked()
    }
}

fn talk(
    connection: TcpStream,
    port: u16,
    lets_in: &AtomicUsize,
    asked: &AtomicUsize,
) -> Option<()> {
    let mut writer = connection.try_clone().ok()?;
    let mut reader = BufReader::new(connection);
    loop {
        let words = read_request(&mut reader)?;
        let word = |i: usize| words.get(i).map(|word| word.to_uppercase()).unwrap_or_default();
        let bulk = |text: &str| format!("${}\r\n{text}\r\n", text.len());
        let reply = match (&*word(0), &*word(1)) {
            ("AUTH", _) => {
                asked.fetch_add(1, Ordering::Relaxed);
                let one_less = |left: usize| match left {
                    usize::MAX => Some(left),
                    _ => left.checked_sub(1),
                };
                let is_in = lets_in.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
                let args = words[1..].join("' '");
                match (is_in, asked.load(Ordering::Relaxed) % 3) {
                    (Ok(_), _) => "+OK\r\n".into(),
                    (_, 0) => format!(
                        "-ERR unknown command 'AUTH', with args beginning with: '{args}' \r\n"
                    ),
                    (_, 1) => format!("-WRONGPASS {args}\r\n"),
                    _ => format!("+{args}\r\n"),
                }
            }
            ("PING", _) => "+PONG\r\n".into(),
            ("EVALSHA", _) => "-ERR wrong number of arguments for 'evalsha' command\r\n".into(),
            ("SELECT" | "QUIT", _) => "+OK\r\n".into(),
            ("CLIENT", "ID") => ":1\r\n".into(),
            ("INFO", _) => bulk("redis_version:7.0.15\r\n"),
            ("CLUSTER", "INFO") => bulk("cluster_state:ok\r\n"),
            ("CLUSTER", "NODES") => bulk(&format!(
                "{} 127.0.0.1:{port}@1{port} myself,master - 0 0 1 connected 0-16383\n",
                "a".repeat(40)
            )),
            ("SENTINEL", "MASTER") => {
                let (port, fields) = (port.to_string(), ["ip", "127.0.0.1", "port"]);
                let fields =
                    fields.into_iter().chain([&*port, "flags", "master", "config-epoch", "1"]);
                "*8\r\n".to_owned() + &fields.map(bulk).collect::<String>()
            }
            ("SENTINEL", _) | ("PUBSUB", _) => "*0\r\n".into(),
            ("TIME", _) => "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n".into(),
            (command, _) => format!("-ERR unknown command '{command}'\r\n"),
        };
        writer.write_all(reply.as_bytes()).ok()?;
    }
}

fn read_request(reader: &mut impl BufRead) -> Option<Vec<String>> {
    let number = |reader: &mut dyn BufRead| {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        line.trim_end().get(1..)?.parse::<usize>().ok()
    };
    let count = number(reader)?;
    (0..count)
        .map(|_| {
            let mut word = vec![0; number(reader)? + 2];
            reader.read_exact(&mut word).ok()?;
            word.truncate(word.len() - 2);
            Some(String::from_utf8_lossy(&word).into_owned())
        })
        .collect()
}
