//! Uncontended acquire + release, beside two bare EVALSHA of the same scripts through fred.
//!
//! `cargo bench --bench uncontended` starts a redis-server of its own and runs both sides in turn,
//! round by round; the medians of the rounds are compared.

use std::{
    future::Future,
    time::{Duration, Instant},
};

use fred::{
    clients::Client as Fred,
    interfaces::ClientLike,
    types::{
        Builder, ClusterHash, CustomCommand, Value,
        config::{Config as FredConfig, TcpConfig},
    },
};
use harness::{RedisServer, redis};
use redisson_lock::{Client, Config, Lock};

const ROUNDS: usize = 9;
const ROUND: Duration = Duration::from_millis(700);

fn main() {
    let server = RedisServer::start();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::connect(Config::from_url(server.url()).unwrap()).await.unwrap();
        let bare = Bare::connect(&server).await;
        println!("acquire + release, pairs/s, medians of {ROUNDS} rounds of {ROUND:?} a side");
        println!("{:>5} {:>10} {:>10} {:>7}", "tasks", "ours", "bare", "ratio");
        for tasks in [1, 64, 1000] {
            let (mut ours, mut theirs) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let locks = (0..tasks).map(|i| client.lock(format!("bench:{i}")));
                ours.push(round(locks, lock_unlock).await);
                let pairs = (0..tasks).map(|i| bare.pair(&format!("bench:{i}")));
                theirs.push(round(pairs, |pair| pair.run()).await);
            }
            let (ours, theirs) = (median(ours), median(theirs));
            println!("{tasks:>5} {ours:>10.0} {theirs:>10.0} {:>7.3}", ours / theirs);
        }
        client.close().await.unwrap();
    });
}

async fn lock_unlock(lock: Lock) -> Lock {
    let guard = lock.lock().await.unwrap();
    guard.unlock().await.unwrap();
    lock
}

/// Does the work over and over in a task for each subject; says how often a second.
async fn round<T, F>(
    subjects: impl Iterator<Item = T>,
    work: impl Fn(T) -> F + Copy + Send + 'static,
) -> f64
where
    T: Send + 'static,
    F: Future<Output = T> + Send,
{
    let begun = Instant::now();
    let tasks: Vec<_> = subjects
        .map(|mut subject| {
            tokio::spawn(async move {
                let mut done = 0_u64;
                while begun.elapsed() < ROUND {
                    subject = work(subject).await;
                    done += 1;
                }
                done
            })
        })
        .collect();
    let mut done = 0;
    for task in tasks {
        done += task.await.unwrap();
    }
    done as f64 / begun.elapsed().as_secs_f64()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// fred with nothing around it.
struct Bare {
    fred: Fred,
    acquire: String,
    release: String,
}

/// The two commands of one lock, arguments prepared.
struct Pair {
    fred: Fred,
    acquire: Vec<Value>,
    release: Vec<Value>,
}

impl Bare {
    async fn connect(server: &RedisServer) -> Self {
        let config = FredConfig::from_url(&server.url()).unwrap();
        let fred = Builder::from_config(config)
            .with_connection_config(|connection| {
                connection.tcp = TcpConfig { nodelay: Some(true), ..TcpConfig::default() };
            })
            .build()
            .unwrap();
        fred.init().await.unwrap();
        let mut redis = server.client();
        let mut load = |source: &str| -> String {
            redis::cmd("SCRIPT").arg("LOAD").arg(source).query(&mut redis).unwrap()
        };
        let acquire = load(include_str!("../lua/reentrant/acquire.lua"));
        let release = load(include_str!("../lua/reentrant/release.lua"));
        Self { fred, acquire, release }
    }

    fn pair(&self, name: &str) -> Pair {
        let id = "01234567-89ab-cdef-0123-456789abcdef:1";
        let channel = format!("redisson_lock__channel:{{{name}}}");
        let value = |text: &str| Value::from(text.to_owned());
        Pair {
            fred: self.fred.clone(),
            acquire: vec![
                value(&self.acquire),
                1.into(),
                value(name),
                value(id),
                30_000.into(),
                i64::MAX.into(),
            ],
            release: vec![
                value(&self.release),
                1.into(),
                value(name),
                value(id),
                0.into(),
                value(&channel),
                value("publish"),
            ],
        }
    }
}

impl Pair {
    async fn run(self) -> Self {
        for args in [&self.acquire, &self.release] {
            let command = CustomCommand::new_static("EVALSHA", ClusterHash::FirstKey, false);
            let _: Value = self.fred.custom(command, args.clone()).await.unwrap();
        }
        self
    }
}
