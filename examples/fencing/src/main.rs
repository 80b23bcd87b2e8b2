//! A holder that sleeps past the end of its lease wakes up and writes. No lock can prevent that. A
//! storage that checks the fencing token can. Here are two such storages: a table of an SQL
//! database (SQLite, in this process), and a key in Redis that a script writes.
//!
//! `cargo run --package fencing`, with a Redis server on this machine or its URL in `REDIS_URL`.

use std::{
    error::Error,
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use redisson_lock::{Client, Config, FencingToken};

const ROUNDS: usize = 5;
const LEASE: Duration = Duration::from_millis(200);

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Result<()> {
    let url = std::env::var("REDIS_URL").unwrap_or("redis://127.0.0.1:6379".into());
    let client = Client::connect(Config::from_url(url.clone())?).await?;
    let lock = client.fenced_lock("ledger");
    let storage = Storage::open(&url)?;

    let mut refused = 0;
    for round in 1..=ROUNDS {
        // On a thread and a runtime of its own, so that all of it can be stopped. A pause of the
        // whole process would do the same: a long garbage collection, or a closed laptop.
        let (held, is_held) = mpsc::channel();
        let sleeper = thread::spawn({
            let (url, storage) = (url.clone(), storage.clone());
            move || sleep_while_holding(&url, &storage, held)
        });
        is_held.recv()?;

        let guard = lock.lock().await?; // waits until the sleeper's lease has ended
        let written = storage.write(guard.token(), guard.holder(), "by the new holder")?;
        println!("round {round}: the new holder, token {}: {written}", guard.token());
        guard.unlock().await?;

        let (token, written) = sleeper.join().expect("the sleeper wakes up")?;
        println!("round {round}: the sleeper,    token {token}: {written}");
        refused += usize::from(!written.sql && !written.redis);
    }
    println!("{refused} of {ROUNDS} stale writers were refused by both storages");
    client.close().await?;
    if refused < ROUNDS {
        return Err("a stale write went through".into());
    }
    Ok(())
}

fn sleep_while_holding(
    url: &str,
    storage: &Storage,
    held: mpsc::Sender<()>,
) -> Result<(FencingToken, Written)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(Config::from_url(url)?).await?;
        let guard = client.fenced_lock("ledger").lock().lease(LEASE).await?;
        held.send(())?;
        thread::sleep(3 * LEASE); // not tokio's: nothing of this runtime goes on
        let token = guard.token();
        // It has not looked at its guard since it woke up.
        let written = storage.write(token, guard.holder(), "by the sleeper")?;
        assert!(guard.unlock().await.is_err(), "the lock was lost long ago");
        client.close().await?;
        Ok((token, written))
    })
}

/// Two storages that keep the greatest token so far, and its holder. They refuse a smaller token,
/// and an equal one from another holder: after a failover of Redis two holders may have the same
/// token.
#[derive(Clone)]
struct Storage {
    sql: Arc<Mutex<rusqlite::Connection>>,
    redis: redis::Client,
}

/// Which storage has accepted a write.
struct Written {
    sql: bool,
    redis: bool,
}

impl Storage {
    fn open(url: &str) -> Result<Self> {
        let sql = rusqlite::Connection::open_in_memory()?;
        sql.execute_batch(
            "CREATE TABLE ledger (id INTEGER PRIMARY KEY, entry TEXT, token INTEGER NOT NULL, holder TEXT);
             INSERT INTO ledger VALUES (1, NULL, 0, NULL);",
        )?;
        Ok(Self { sql: Arc::new(Mutex::new(sql)), redis: redis::Client::open(url)? })
    }

    fn write(&self, token: FencingToken, holder: &str, entry: &str) -> Result<Written> {
        // The comparison and the write are one statement, so nothing comes in between.
        let rows = self.sql.lock().expect("nobody panics here").execute(
            "UPDATE ledger SET entry = ?1, token = ?2, holder = ?3
             WHERE id = 1 AND (token < ?2 OR (token = ?2 AND holder = ?3))",
            (entry, token.value(), holder),
        )?;
        let redis: bool = redis::cmd("EVAL")
            .arg(
                "local last, whose = unpack(redis.call('hmget', KEYS[1], 'token', 'holder'))
                 local token = tonumber(ARGV[1])
                 last = tonumber(last or 0)
                 if token < last or (token == last and whose ~= ARGV[2]) then
                     return 0
                 end
                 redis.call('hset', KEYS[1], 'token', ARGV[1], 'holder', ARGV[2], 'entry', ARGV[3])
                 return 1",
            )
            .arg(1)
            .arg("ledger:storage")
            .arg(token.value())
            .arg(holder)
            .arg(entry)
            .query(&mut self.redis.get_connection()?)?;
        Ok(Written { sql: rows == 1, redis })
    }
}

impl std::fmt::Display for Written {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let word = |taken| if taken { "written" } else { "refused" };
        write!(f, "SQL {}, Redis {}", word(self.sql), word(self.redis))
    }
}
