//! The setting of each test: a server, a network that fails on demand, and clients.

use std::fmt::Debug;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use harness::redis::cmd;
use harness::{
    Inspector, PATIENCE, Proxy, RedisServer, RedisServerBuilder, assert_nothing_left, eventually,
    lock_channel,
};
pub(crate) use harness::{SOON, soon, within};
use redisson_lock::{Client, Config, Error, LockGuard, Loss};
use tokio::task::JoinHandle;

/// A watchdog that is seen at work soon.
pub(crate) const SHORT: Duration = Duration::from_secs(3);

/// The lease of a watched hold by default: who gets the lock much sooner did not wait for its end.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(30);

/// The lock of a test that needs but one.
pub(crate) const LOCK: &str = "order:42";

/// A server, and the network in front of it.
pub(crate) struct Stage {
    pub(crate) server: RedisServer,
    pub(crate) proxy: Proxy,
    inspector: Inspector,
}

impl Stage {
    pub(crate) async fn new() -> Self {
        Self::with(RedisServer::builder()).await
    }

    pub(crate) async fn with(server: RedisServerBuilder) -> Self {
        let server = server.start();
        let proxy = Proxy::start(server.port()).await;
        let inspector = server.inspector();
        Self { server, proxy, inspector }
    }

    /// The server's whole truth.
    pub(crate) fn redis(&self) -> &Inspector {
        &self.inspector
    }

    /// For a client behind the network that fails.
    pub(crate) fn config(&self) -> Config {
        // So long closing takes, too, where answers were lost: the copies must be too late first.
        let reuse_holds = std::env::var("REUSE_HOLDS").map_or(true, |word| word != "off");
        let config = Config::from_url(self.proxy.url()).unwrap().reuse_holds(reuse_holds);
        config.command_timeout(Duration::from_secs(2))
    }

    /// A client behind the network that fails.
    pub(crate) async fn client(&self) -> Client {
        connect(self.config()).await
    }

    /// A client with a way of its own to the server, which never fails.
    pub(crate) async fn far_client(&self) -> Client {
        connect(Config::from_url(self.server.url()).unwrap()).await
    }

    /// The server has died and is back: what looked at it must connect anew.
    pub(crate) fn restart_server(&mut self) {
        self.server.restart();
        self.inspector = self.server.inspector();
    }

    /// How often the lock is held.
    pub(crate) fn hold_count(&self, lock: &str) -> i64 {
        self.redis().holder(lock).map_or(0, |holder| holder.count)
    }

    /// Asserts that this guard's hold, and no other, is on the server.
    pub(crate) fn assert_held_by(&self, guard: &LockGuard, lock: &str) {
        let holders: Vec<_> = self.redis().hash(lock).into_keys().collect();
        assert_eq!(holders, [guard.holder()]);
    }

    /// Waits until nothing is held any more, for longer than [`assert_nothing_left`] does.
    pub(crate) async fn nothing_held(&self) {
        self.nothing_held_but(&[]).await;
    }

    /// The same but for keys that are to stay.
    pub(crate) async fn nothing_held_but(&self, stay: &[&str]) {
        eventually(PATIENCE, "an end of all holds", || {
            self.redis().keys().iter().all(|key| stay.contains(&&**key)).then_some(())
        })
        .await;
    }

    /// Waits until so many connections listen for the lock.
    pub(crate) async fn listening(&self, lock: &str, count: usize) {
        self.listening_on(&lock_channel(lock), count).await;
    }

    /// Waits until so many connections listen on the channel.
    pub(crate) async fn listening_on(&self, channel: &str, count: usize) {
        let what = format!("{count} listeners on {channel}");
        eventually(PATIENCE, &what, || (self.redis().subscribers(channel) == count).then_some(()))
            .await;
    }

    /// How many connections the server has, our own included.
    pub(crate) fn connections(&self) -> usize {
        let list: String = self.redis().query(cmd("CLIENT").arg("LIST"));
        list.lines().count()
    }

    /// Waits until the server has no more than so many connections.
    pub(crate) async fn connections_down_to(&self, count: usize) {
        eventually(PATIENCE, "connections to be closed", || {
            (self.connections() <= count).then_some(())
        })
        .await;
    }

    /// The last line of a test: the clients close in peace and nothing is left.
    pub(crate) async fn end(&self, clients: impl AsRef<[Client]>) {
        self.proxy.heal();
        for client in clients.as_ref() {
            soon("to close", client.close()).await.unwrap();
        }
        assert_nothing_left(&self.server).await;
    }
}

/// Connects; on a busy machine perhaps not at the first try.
pub(crate) async fn connect(config: Config) -> Client {
    let connecting = async {
        loop {
            match Client::connect(config.clone()).await {
                Ok(client) => return client,
                Err(error) => println!("connecting again: {error}"),
            }
        }
    };
    soon("to connect", connecting).await
}

/// The SHA-1 by which the server knows a script of the crate: it stands in every call of that script but the first.
pub(crate) fn sha(script: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua").join(script).with_extension("lua");
    let source = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    sha1_smol::Sha1::from(source).digest().to_string()
}

/// Makes the server know the scripts, so that each later use is one request.
pub(crate) async fn warm_up(client: &Client) {
    let lock = client.lock("warm-up");
    let mut me = client.owner();
    let outer = lock.lock().by(&mut me).await.unwrap();
    let inner = lock.lock().by(&mut me).await.unwrap();
    inner.unlock().await.unwrap();
    outer.unlock().await.unwrap();
}

/// A task that waits for the lock, for as long as it takes.
pub(crate) fn waiter(client: &Client, lock: &str) -> JoinHandle<Result<LockGuard, Error>> {
    let lock = client.lock(lock);
    tokio::spawn(async move { lock.lock().await })
}

/// A task that waits for the lock and gives it back as soon as it has it.
pub(crate) fn visitor(client: &Client, lock: &str) -> JoinHandle<Result<(), Error>> {
    let lock = client.lock(lock);
    tokio::spawn(async move { lock.lock().await?.unlock().await })
}

/// Until when the guard is trusted, as things stand.
pub(crate) fn trusted_until(guard: &LockGuard) -> Instant {
    let remaining = guard.remaining();
    Instant::now() + remaining
}

/// Waits until the guard is trusted for longer than it is now.
pub(crate) async fn renewed(guard: &LockGuard) {
    let before = trusted_until(guard);
    eventually(PATIENCE, "a renewal", || {
        assert!(guard.is_held(), "lost instead of renewed");
        (trusted_until(guard) > before + Duration::from_millis(20)).then_some(())
    })
    .await;
}

/// Waits until the client, which has been cut off for a while, gets through to the server again.
pub(crate) async fn gets_through(client: &Client) {
    let lock = client.lock("is there anybody?");
    let asked = async { while lock.is_locked().await.is_err() {} };
    soon("to get through", asked).await;
}

/// The waiter gets the lock soon; also says how soon.
pub(crate) async fn gets_it(waiter: JoinHandle<Result<LockGuard, Error>>) -> (LockGuard, Duration) {
    let begun = Instant::now();
    let guard = soon("for the waiter to get the lock", waiter).await;
    (guard.unwrap().unwrap(), begun.elapsed())
}

/// Waits until a process that was sent SIGSTOP has stopped: its threads may run on for a moment, and on a busy machine
/// that may be a long one.
pub(crate) async fn stopped(process: u32) {
    let stat = format!("/proc/{process}/stat");
    if !Path::new(&stat).exists() {
        return tokio::time::sleep(Duration::from_millis(300)).await;
    }
    eventually(PATIENCE, "the process to stop", || {
        let stat = fs::read_to_string(&stat).expect("a process");
        let (_, state) = stat.rsplit_once(") ")?;
        state.starts_with('T').then_some(())
    })
    .await;
}

/// Why the lock was not held any more.
pub(crate) fn why_not_held<T: Debug>(result: Result<T, Error>) -> Loss {
    match result {
        Err(Error::NotHeld { why }) => why,
        other => panic!("not a lock that is not held, but {other:?}"),
    }
}

/// The operation fails for Redis' sake.
pub(crate) fn assert_redis_error<T: Debug>(result: Result<T, Error>) {
    assert!(matches!(result, Err(Error::Redis(_))), "{result:?}");
}
