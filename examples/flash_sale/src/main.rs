//! A flash sale: several processes sell from one stock, and every sale is a GET and a SET. Without
//! a lock they sell more than there is. With a lock they do not, even when a Redisson JVM sells
//! too.
//!
//! ```text
//! make demo                                  # or:
//! cargo run --package flash_sale             # with --release: faster, after a longer build
//! REDIS_URL=redis://host:6379 make demo      # on a server that runs already
//! ```

use std::{
    env,
    error::Error,
    io::{IsTerminal, Write, stdin, stdout},
    process::{ExitCode, Stdio, exit},
    thread,
    time::{Duration, Instant},
};

use futures::future::try_join_all;
use harness::{
    Lang, Peer, PeerArgs, PeerError, RedisServer, epoch_micros,
    redis::{self, cmd},
};
use redisson_lock::{Client, Config, Lock};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::{JoinSet, block_in_place},
    time::{MissedTickBehavior, interval, timeout},
};

const PROCESSES: usize = 4;
/// In each process.
const TASKS: usize = 4;
const STOCK: u64 = 25_000;
/// No run takes that long.
const RUN_LIMIT: Duration = Duration::from_secs(180);

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match env::args().nth(1).as_deref() {
        None => demo().await,
        Some("seller") => sell().await.map(|()| ExitCode::SUCCESS),
        Some(_) => Err("usage: flash_sale".into()),
    };
    done.unwrap_or_else(|error| {
        eprintln!("flash_sale: {error}");
        ExitCode::FAILURE
    })
}

// ---- The sellers ----------------------------------------------------------------------------------------------------

/// The orders for a selling process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    url: String,
    sold_key: String,
    /// The name of the lock, if there is one.
    lock: Option<String>,
}

/// One sale, and when its seller had the lock (microseconds since 1970).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sale {
    number: u64,
    acquired: u64,
    released: u64,
}

/// Sells until nothing is left.
async fn sell_out(mut shop: Shop, lock: Option<Lock>) -> Result<Vec<Sale>> {
    let mut sales = Vec::new();
    loop {
        let guard = match &lock {
            Some(lock) => Some(lock.lock().await?),
            None => None,
        };
        let acquired = epoch_micros();
        let sold = block_in_place(|| shop.sell_one())?;
        let released = epoch_micros();
        if let Some(guard) = guard {
            guard.unlock().await?;
        }
        match sold {
            Some(number) => sales.push(Sale { number, acquired, released }),
            None => return Ok(sales),
        }
    }
}

struct Shop {
    redis: redis::Connection,
    sold_key: String,
}

impl Shop {
    /// Sells one item, and returns its number. `None`: nothing is left. Wrong when two sellers do
    /// it at the same time.
    fn sell_one(&mut self) -> Result<Option<u64>> {
        let sold = self.sold()?;
        if sold >= STOCK {
            return Ok(None);
        }
        let number = sold + 1;
        cmd("SET").arg(&self.sold_key).arg(number).exec(&mut self.redis)?;
        Ok(Some(number))
    }

    fn sold(&mut self) -> Result<u64> {
        let sold: Option<u64> = cmd("GET").arg(&self.sold_key).query(&mut self.redis)?;
        Ok(sold.unwrap_or(0))
    }
}

/// A selling process: reads a [`Job`] from stdin, says that it is ready, waits for a line, sells,
/// and reports its sales.
async fn sell() -> Result<()> {
    let job: Job = serde_json::from_str(&next_order()?)?;
    let client = Client::connect(Config::from_url(&job.url)?).await?;
    let server = redis::Client::open(job.url)?;
    let shops = (0..TASKS)
        .map(|_| Ok(Shop { redis: server.get_connection()?, sold_key: job.sold_key.clone() }))
        .collect::<Result<Vec<_>>>()?;
    println!("ready");

    next_order()?;
    // The input ends with the process that started this one.
    thread::spawn(|| {
        while next_order().is_ok() {}
        exit(1);
    });
    let mut tasks = JoinSet::new();
    for shop in shops {
        let lock = job.lock.as_ref().map(|name| client.lock(name));
        tasks.spawn(sell_out(shop, lock));
    }
    let mut sales = Vec::new();
    while let Some(task) = tasks.join_next().await {
        sales.extend(task??);
    }
    client.close().await?;
    println!("{}", serde_json::to_string(&sales)?);
    Ok(())
}

fn next_order() -> Result<String> {
    let line = stdin().lines().next();
    Ok(line.ok_or("called off")??)
}

// ---- The demo -------------------------------------------------------------------------------------------------------

async fn demo() -> Result<ExitCode> {
    let market = Market::open()?;
    tokio::select! {
        verdict = compare(&market) => verdict,
        _ = tokio::signal::ctrl_c() => {
            println!("stopped");
            Ok(ExitCode::from(130))
        }
    }
}

async fn compare(market: &Market) -> Result<ExitCode> {
    println!(
        "{PROCESSES} processes of {TASKS} tasks each sell {STOCK} items; a sale is a GET and a SET."
    );
    let mut outcomes = vec![
        market.run("without lock", false, None).await?,
        market.run("with lock", true, None).await?,
    ];
    println!("starting a JVM (the first time it is built, which takes a while) ...");
    let left_out = match Peer::spawn(Lang::Java, &PeerArgs::redis(&market.url)).await {
        Ok(jvm) => {
            let name = "with lock and a JVM";
            outcomes.push(market.run(name, true, Some(&jvm)).await?);
            None
        }
        Err(PeerError::Unavailable(why)) => Some(why),
        Err(error) => return Err(error.into()),
    };
    print_table(&outcomes);
    if let Some(why) = left_out {
        println!("\nLeft out: the run with a Redisson JVM among the sellers ({why}).");
        println!(
            "It needs a JDK of version 17 or later and Maven; REQUIRE_JAVA=1 make demo installs them."
        );
    }
    Ok(judge(&outcomes))
}

/// The server, and the keys of this demo on it. They are removed in the end.
struct Market {
    url: String,
    keys: String,
    /// None: the server was already running.
    _server: Option<RedisServer>,
}

/// The result of a run.
struct Outcome {
    name: &'static str,
    processes: usize,
    sold: u64,
    sold_by_jvm: Option<u64>,
    time: Duration,
    /// In microseconds, ascending, for a run with a lock.
    hand_overs: Option<Vec<u64>>,
}

impl Market {
    fn open() -> Result<Self> {
        let (url, server) = match env::var("REDIS_URL") {
            Ok(url) => (url, None),
            Err(_) => {
                let server = RedisServer::start();
                (server.url(), Some(server))
            }
        };
        redis::Client::open(url.as_str())?
            .get_connection()
            .map_err(|error| format!("cannot use the Redis server: {error}"))?;
        let unique = format!("flash-sale:{}:{}", std::process::id(), epoch_micros());
        Ok(Self { url, keys: unique, _server: server })
    }

    fn sold_key(&self) -> String {
        format!("{}:sold", self.keys)
    }

    fn lock_name(&self) -> String {
        format!("{}:lock", self.keys)
    }

    fn shop(&self) -> Result<Shop> {
        Ok(Shop {
            redis: redis::Client::open(self.url.as_str())?.get_connection()?,
            sold_key: self.sold_key(),
        })
    }

    fn clean(&self) -> Result<()> {
        cmd("DEL").arg(self.sold_key()).arg(self.lock_name()).exec(&mut self.shop()?.redis)?;
        Ok(())
    }

    async fn run(&self, name: &'static str, locked: bool, jvm: Option<&Peer>) -> Result<Outcome> {
        self.clean()?;
        let mut shop = self.shop()?;
        let job = Job {
            url: self.url.clone(),
            sold_key: self.sold_key(),
            lock: locked.then(|| self.lock_name()),
        };
        let mut sellers = try_join_all((0..PROCESSES).map(|_| Seller::start(&job))).await?;

        let start = Instant::now();
        for seller in &mut sellers {
            seller.go().await?;
        }
        let by_jvm = jvm.map(|jvm| {
            jvm.start(json!({
                "op": "loop", "name": self.lock_name(), "owners": TASKS,
                "millis": RUN_LIMIT.as_millis() as u64, "counter": self.sold_key(), "until": STOCK,
            }))
        });
        let by_jvm = async {
            let Some(answer) = by_jvm else {
                return Ok(None);
            };
            let report = answer.within(RUN_LIMIT).await?.value;
            match (report["counted"].as_u64(), report["errors"].as_u64()) {
                (Some(counted), Some(0)) => Ok(Some(counted)),
                _ => Err(format!("the JVM reports {report}").into()),
            }
        };
        let finish = async {
            let sales = try_join_all(sellers.into_iter().map(Seller::finish));
            tokio::try_join!(sales, by_jvm)
        };
        let mut finish = std::pin::pin!(timeout(RUN_LIMIT, finish));

        let mut progress = Progress::new(name);
        let mut ticks = interval(Duration::from_millis(100));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (sales, sold_by_jvm) = loop {
            tokio::select! {
                finished = &mut finish => break finished.map_err(|_| format!("{name}: not over after {RUN_LIMIT:?}"))??,
                _ = ticks.tick() => progress.show(shop.sold()?, start.elapsed()),
            }
        };
        let time = start.elapsed();
        progress.end(shop.sold()?, time);

        let sold = sales.iter().map(Vec::len).sum::<usize>() as u64;
        Ok(Outcome {
            name,
            processes: PROCESSES + usize::from(jvm.is_some()),
            sold: sold + sold_by_jvm.unwrap_or(0),
            sold_by_jvm,
            time,
            hand_overs: locked.then(|| hand_overs(sales)),
        })
    }
}

impl Drop for Market {
    fn drop(&mut self) {
        if let Err(error) = self.clean() {
            eprintln!("flash_sale: {error}: the keys {}:* may be left", self.keys);
        }
    }
}

/// How long each change of the lock from one Rust process to another took: from the call of
/// `unlock` in one to the return of `lock` in the other. Sales are numbered, so their order is
/// known.
fn hand_overs(sales: Vec<Vec<Sale>>) -> Vec<u64> {
    let mut in_order: Vec<_> = sales
        .iter()
        .enumerate()
        .flat_map(|(process, sales)| sales.iter().map(move |&sale| (process, sale)))
        .collect();
    in_order.sort_unstable_by_key(|(_, sale)| sale.number);
    let mut times: Vec<_> = in_order
        .windows(2)
        .filter_map(|pair| {
            let [(from, sale), (to, next)] = pair else {
                return None;
            };
            let is_hand_over = from != to && next.number == sale.number + 1;
            is_hand_over.then(|| next.acquired.saturating_sub(sale.released))
        })
        .collect();
    times.sort_unstable();
    times
}

/// A selling process. Dropping it ends the process.
struct Seller {
    process: Child,
    orders: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
}

impl Seller {
    /// Starts a process and waits until it is ready.
    async fn start(job: &Job) -> Result<Self> {
        let mut process = Command::new(env::current_exe()?)
            .arg("seller")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut seller = Self {
            orders: process.stdin.take().ok_or("no pipe")?,
            reports: BufReader::new(process.stdout.take().ok_or("no pipe")?).lines(),
            process,
        };
        seller.order(&serde_json::to_string(job)?).await?;
        seller.report().await?;
        Ok(seller)
    }

    async fn go(&mut self) -> Result<()> {
        self.order("go").await
    }

    /// Returns its sales.
    async fn finish(mut self) -> Result<Vec<Sale>> {
        let sales = serde_json::from_str(&self.report().await?)?;
        self.process.wait().await?;
        Ok(sales)
    }

    async fn order(&mut self, line: &str) -> Result<()> {
        self.orders.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(self.orders.flush().await?)
    }

    async fn report(&mut self) -> Result<String> {
        let line = self.reports.next_line().await?;
        Ok(line.ok_or("a selling process has ended before its time")?)
    }
}

// ---- What is shown --------------------------------------------------------------------------------------------------

/// A line that changes on a terminal, and a line from time to time elsewhere.
struct Progress {
    name: &'static str,
    on_terminal: bool,
    next: Duration,
}

impl Progress {
    fn new(name: &'static str) -> Self {
        Self { name, on_terminal: stdout().is_terminal(), next: Duration::ZERO }
    }

    fn show(&mut self, sold: u64, time: Duration) {
        if self.on_terminal {
            print!("\r{}", self.line(sold, time));
            let _ = stdout().flush();
        } else if time >= self.next {
            println!("{}", self.line(sold, time));
            self.next = time + Duration::from_secs(2);
        }
    }

    fn end(mut self, sold: u64, time: Duration) {
        self.next = time;
        self.show(sold, time);
    }

    fn line(&self, sold: u64, time: Duration) -> String {
        const WIDTH: usize = 24;
        let filled = (sold.min(STOCK) as usize * WIDTH) / STOCK as usize;
        let bar = "#".repeat(filled) + &".".repeat(WIDTH - filled);
        let seconds = time.as_secs_f64();
        format!("{:<20} [{bar}] counted {sold:>6} of {STOCK} {seconds:>6.1} s", self.name)
    }
}

impl Drop for Progress {
    /// Also when the run fails, so that the next line starts at the left.
    fn drop(&mut self) {
        if self.on_terminal {
            println!();
        }
    }
}

fn print_table(outcomes: &[Outcome]) {
    let header = [
        "",
        "processes",
        "stock",
        "sold",
        "oversold",
        "by a JVM",
        "seconds",
        "sales/s",
        "handovers",
        "p50",
        "p99",
    ];
    println!();
    print_row(&header.map(str::to_owned));
    for outcome in outcomes {
        print_row(&outcome.row());
    }
    println!();
    println!(
        "handovers: how often the lock went from one Rust process to another, and how long that"
    );
    println!(
        "took, from the call of unlock() in the one to the return of lock() in the other. Those"
    );
    println!("to and from a JVM are not measured.");
}

fn print_row([name, numbers @ ..]: &[String; 11]) {
    print!("{name:<19}");
    for number in numbers {
        print!(" {number:>9}");
    }
    println!();
}

impl Outcome {
    fn row(&self) -> [String; 11] {
        let count = self.hand_overs.as_ref().map(Vec::len);
        let micros = |percent| self.percentile(percent).map(|us| format!("{us} us"));
        let seconds = self.time.as_secs_f64();
        [
            self.name.to_owned(),
            self.processes.to_string(),
            STOCK.to_string(),
            self.sold.to_string(),
            self.oversold().to_string(),
            or_dash(self.sold_by_jvm),
            format!("{seconds:.1}"),
            format!("{:.0}", self.sold as f64 / seconds),
            or_dash(count),
            or_dash(micros(50)),
            or_dash(micros(99)),
        ]
    }

    fn oversold(&self) -> i64 {
        self.sold as i64 - STOCK as i64
    }

    fn percentile(&self, percent: usize) -> Option<u64> {
        let times = self.hand_overs.as_ref()?;
        let rank = (times.len() * percent).div_ceil(100);
        times.get(rank.checked_sub(1)?).copied()
    }
}

fn or_dash(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

fn judge(outcomes: &[Outcome]) -> ExitCode {
    let mut verdict = ExitCode::SUCCESS;
    println!();
    for outcome in outcomes {
        let oversold = outcome.oversold();
        let is_locked = outcome.hand_overs.is_some();
        match (is_locked, oversold) {
            (true, 0) => println!("{}: sold what there was.", outcome.name),
            (true, _) => {
                println!("{}: WRONG: sold {oversold:+} against the stock.", outcome.name);
                verdict = ExitCode::FAILURE;
            }
            (false, 1..) => println!("{}: sold {oversold} more than there was.", outcome.name),
            (false, _) => {
                println!(
                    "{}: not oversold: the contention was too low to show anything.",
                    outcome.name
                );
                verdict = ExitCode::FAILURE;
            }
        }
    }
    verdict
}
