//! A flash sale: several processes sell from one stock, and every sale is a GET and a SET. Without
//! a lock they sell more than there is. With a lock they do not, even when a Redisson JVM sells
//! too.
//!
//! ```text
//! make demo                                  # or:
//! cargo run --package flash_sale             # with --release: faster, after a longer build
//! REDIS_URL=redis://host:6379 make demo      # on a server that runs already
//! ```
//!
//! It also compares one lock with segments, each of which has its part of the stock:
//!
//! ```text
//! cargo run --release --package flash_sale -- --segments 1,4,16 [--work-ms 2] [--stock 5000] [--svg FILE]
//! ```

mod plot;

use std::{
    env,
    error::Error,
    fs,
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
use redisson_lock::{AnySegment, Client, Config, Lock};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    task::{JoinSet, block_in_place},
    time::{MissedTickBehavior, interval, sleep, timeout},
};

const PROCESSES: usize = 4;
/// In each process.
const TASKS: usize = 4;
/// If no other number is asked for.
const STOCK: u64 = 25_000;
/// No run takes that long.
const RUN_LIMIT: Duration = Duration::from_secs(180);

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

#[tokio::main]
async fn main() -> ExitCode {
    let done = match env::args().nth(1).as_deref() {
        Some("seller") => sell().await.map(|()| ExitCode::SUCCESS),
        _ => match Plan::of(env::args().skip(1)) {
            Some(plan) => demo(plan).await,
            None => Err(
                "usage: flash_sale [--segments 1,4,16] [--work-ms MS] [--stock ITEMS] [--svg FILE]"
                    .into(),
            ),
        },
    };
    done.unwrap_or_else(|error| {
        eprintln!("flash_sale: {error}");
        ExitCode::FAILURE
    })
}

/// What is asked for on the command line.
#[derive(Clone, Debug)]
struct Plan {
    /// Runs with this many segments, beside a run with one lock. None: the demo.
    segments: Vec<usize>,
    /// How long each sale takes beside its GET and SET.
    work: Duration,
    stock: u64,
    /// Where a picture of the sales per second is written.
    svg: Option<String>,
}

impl Plan {
    fn of(mut args: impl Iterator<Item = String>) -> Option<Self> {
        let mut plan = Self { segments: Vec::new(), work: Duration::ZERO, stock: STOCK, svg: None };
        while let Some(option) = args.next() {
            let value = args.next()?;
            match option.as_str() {
                "--segments" => {
                    let numbers = value.split(',').map(|number| number.parse().ok());
                    plan.segments = numbers.collect::<Option<_>>()?;
                }
                "--work-ms" => plan.work = Duration::from_millis(value.parse().ok()?),
                "--stock" => plan.stock = value.parse().ok()?,
                "--svg" => plan.svg = Some(value),
                _ => return None,
            }
        }
        let fits = |&n: &usize| (1..=1024).contains(&n) && n as u64 <= plan.stock;
        (plan.stock > 0 && plan.segments.iter().all(fits)).then_some(plan)
    }
}

// ---- The sellers ----------------------------------------------------------------------------------------------------

/// The orders for a selling process.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Job {
    url: String,
    stock: Stock,
    /// The name of the lock, if there is one.
    lock: Option<String>,
    work: Duration,
    /// The number of this process.
    process: usize,
}

/// What is for sale, and where it is counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stock {
    key: String,
    items: u64,
    /// None: it is not divided.
    segments: Option<usize>,
}

impl Stock {
    fn parts(&self) -> usize {
        self.segments.unwrap_or(1)
    }

    /// The key that counts the sales of this segment.
    fn key_of(&self, segment: usize) -> String {
        match self.segments {
            Some(_) => format!("{}:{segment}", self.key),
            None => self.key.clone(),
        }
    }

    /// How many items there are in this segment.
    fn items_of(&self, segment: usize) -> u64 {
        let parts = self.parts() as u64;
        self.items / parts + u64::from((segment as u64) < self.items % parts)
    }
}

/// The lock of a seller, if there is one.
enum SellersLock {
    None,
    One(Lock),
    Any(AnySegment),
}

/// One sale, and when its seller had the lock (microseconds since 1970).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Sale {
    segment: usize,
    /// In its segment.
    number: u64,
    acquired: u64,
    released: u64,
}

/// Sells until nothing is left.
async fn sell_out(mut shop: Shop, lock: SellersLock, work: Duration) -> Result<Vec<Sale>> {
    let mut sales = Vec::new();
    match lock {
        SellersLock::None => while shop.sell(0, work, &mut sales).await?.is_some() {},
        SellersLock::One(lock) => loop {
            let guard = lock.lock().await?;
            let sold = shop.sell(0, work, &mut sales).await?;
            guard.unlock().await?;
            if sold.is_none() {
                break;
            }
        },
        SellersLock::Any(mut any) => {
            while !any.is_empty() {
                let guard = any.lock().await?;
                if shop.sell(guard.segment(), work, &mut sales).await?.is_none() {
                    any = any.except([guard.segment()]); // sold out
                }
                guard.unlock().await?;
            }
        }
    }
    Ok(sales)
}

struct Shop {
    redis: redis::Connection,
    stock: Stock,
}

impl Shop {
    /// Sells one item of a segment, and notes the sale. `None`: nothing is left there.
    async fn sell(
        &mut self,
        segment: usize,
        work: Duration,
        sales: &mut Vec<Sale>,
    ) -> Result<Option<()>> {
        let acquired = epoch_micros();
        let sold = block_in_place(|| self.sell_one(segment))?;
        if sold.is_some() && !work.is_zero() {
            sleep(work).await;
        }
        let released = epoch_micros();
        sales.extend(sold.map(|number| Sale { segment, number, acquired, released }));
        Ok(sold.map(|_| ()))
    }

    /// Sells one item of a segment, and returns its number. Wrong when two sellers do it at the same
    /// time.
    fn sell_one(&mut self, segment: usize) -> Result<Option<u64>> {
        let sold = self.sold_of(segment)?;
        if sold >= self.stock.items_of(segment) {
            return Ok(None);
        }
        let number = sold + 1;
        cmd("SET").arg(self.stock.key_of(segment)).arg(number).exec(&mut self.redis)?;
        Ok(Some(number))
    }

    fn sold_of(&mut self, segment: usize) -> Result<u64> {
        let sold: Option<u64> =
            cmd("GET").arg(self.stock.key_of(segment)).query(&mut self.redis)?;
        Ok(sold.unwrap_or(0))
    }

    fn sold(&mut self) -> Result<u64> {
        (0..self.stock.parts()).map(|segment| self.sold_of(segment)).sum()
    }
}

/// A selling process: reads a [`Job`] from stdin, says that it is ready, waits for a line, sells,
/// and reports its sales.
async fn sell() -> Result<()> {
    let job: Job = serde_json::from_str(&next_order()?)?;
    let client = Client::connect(Config::from_url(&job.url)?).await?;
    let server = redis::Client::open(job.url)?;
    let shops = (0..TASKS)
        .map(|_| Ok(Shop { redis: server.get_connection()?, stock: job.stock.clone() }))
        .collect::<Result<Vec<_>>>()?;
    println!("ready");

    next_order()?;
    // The input ends with the process that started this one.
    thread::spawn(|| {
        while next_order().is_ok() {}
        exit(1);
    });
    let mut tasks = JoinSet::new();
    for (task, shop) in shops.into_iter().enumerate() {
        let lock = match (&job.lock, job.stock.segments) {
            (None, _) => SellersLock::None,
            (Some(name), None) => SellersLock::One(client.lock(name)),
            (Some(name), Some(segments)) => {
                // Each seller begins with a segment of its own, if there are enough. Otherwise those
                // of one process begin with the same one, and hand it to each other.
                let seller = job.process * TASKS + task;
                let any = client.segmented(name, segments).any();
                SellersLock::Any(any.starting_at(seller * segments / (PROCESSES * TASKS)))
            }
        };
        tasks.spawn(sell_out(shop, lock, job.work));
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

async fn demo(plan: Plan) -> Result<ExitCode> {
    let market = Market::open(plan)?;
    tokio::select! {
        verdict = compare(&market) => verdict,
        _ = tokio::signal::ctrl_c() => {
            println!("stopped");
            Ok(ExitCode::from(130))
        }
    }
}

/// One way to sell the stock.
#[derive(Clone, Copy, Debug)]
struct Way {
    locked: bool,
    segments: Option<usize>,
}

const ONE_LOCK: Way = Way { locked: true, segments: None };

impl Way {
    fn name(self, jvm: bool) -> String {
        let lock = match (self.locked, self.segments) {
            (false, _) => "without lock".to_owned(),
            (true, None) => "with lock".to_owned(),
            (true, Some(1)) => "1 segment".to_owned(),
            (true, Some(n)) => format!("{n} segments"),
        };
        if jvm { format!("{lock} and a JVM") } else { lock }
    }
}

async fn compare(market: &Market) -> Result<ExitCode> {
    let Plan { segments, work, stock, svg } = &market.plan;
    let more = if work.is_zero() { String::new() } else { format!(", and {work:?} of other work") };
    let told = format!(
        "{PROCESSES} processes of {TASKS} tasks each sell {stock} items; a sale is a GET and a SET{more}."
    );
    println!("{told}");
    let segmented = segments.iter().map(|&n| Way { locked: true, segments: Some(n) });
    let locked: Vec<_> = [ONE_LOCK].into_iter().chain(segmented).collect();
    let unlocked = Way { locked: false, segments: None };
    let mut outcomes = Vec::new();
    for way in segments.is_empty().then_some(unlocked).iter().chain(&locked) {
        outcomes.push(market.run(*way, None).await?);
    }
    println!("starting a JVM (the first time it is built, which takes a while) ...");
    let left_out = match Peer::spawn(Lang::Java, &PeerArgs::redis(&market.url).optimized()).await {
        Ok(jvm) => {
            for way in &locked {
                outcomes.push(market.run(*way, Some(&jvm)).await?);
            }
            None
        }
        Err(PeerError::Unavailable(why)) => Some(why),
        Err(error) => return Err(error.into()),
    };
    print_table(&outcomes);
    if let Some(file) = svg {
        let bars: Vec<_> = outcomes.iter().map(Outcome::bar).collect();
        fs::write(file, plot::svg(&told, "sales/s", &bars))?;
    }
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
    plan: Plan,
    url: String,
    keys: String,
    /// None: the server was already running.
    _server: Option<RedisServer>,
}

/// The result of a run.
struct Outcome {
    name: String,
    processes: usize,
    stock: u64,
    sold: u64,
    sold_by_jvm: Option<u64>,
    time: Duration,
    /// In microseconds, ascending, for a run with a lock.
    hand_overs: Option<Vec<u64>>,
}

impl Market {
    fn open(plan: Plan) -> Result<Self> {
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
        Ok(Self { plan, url, keys: unique, _server: server })
    }

    fn stock(&self, segments: Option<usize>) -> Stock {
        Stock { key: format!("{}:sold", self.keys), items: self.plan.stock, segments }
    }

    fn lock_name(&self) -> String {
        format!("{}:lock", self.keys)
    }

    fn shop(&self, stock: Stock) -> Result<Shop> {
        let redis = redis::Client::open(self.url.as_str())?.get_connection()?;
        Ok(Shop { redis, stock })
    }

    fn clean(&self) -> Result<()> {
        let mut redis = self.shop(self.stock(None))?.redis;
        for way in [None].into_iter().chain(self.plan.segments.iter().map(|&n| Some(n))) {
            let stock = self.stock(way);
            let mut del = cmd("DEL");
            del.arg(self.lock_name());
            for segment in 0..stock.parts() {
                del.arg(stock.key_of(segment)).arg(format!("{}:{segment}", self.lock_name()));
            }
            del.exec(&mut redis)?;
        }
        Ok(())
    }

    /// A JVM sells too, by one lock or by the locks of all segments. It sells from each segment with
    /// a thread at least.
    async fn sell_by(&self, jvm: &Peer, stock: &Stock) -> Result<u64> {
        let name = |segment| match stock.segments {
            Some(_) => format!("{}:{segment}", self.lock_name()),
            None => self.lock_name(),
        };
        let answers = (0..stock.parts()).map(|segment| {
            jvm.start(json!({
                "op": "loop", "name": name(segment), "owners": TASKS.div_ceil(stock.parts()),
                "millis": RUN_LIMIT.as_millis() as u64, "counter": stock.key_of(segment),
                "until": stock.items_of(segment), "hold_us": self.plan.work.as_micros() as u64,
            }))
        });
        // All begin before the first one is waited for.
        let answers: Vec<_> = answers.collect();
        let mut sold = 0;
        for answer in answers {
            let report = answer.within(RUN_LIMIT).await?.value;
            match (report["counted"].as_u64(), report["errors"].as_u64()) {
                (Some(counted), Some(0)) => sold += counted,
                _ => return Err(format!("the JVM reports {report}").into()),
            }
        }
        Ok(sold)
    }

    async fn run(&self, way: Way, jvm: Option<&Peer>) -> Result<Outcome> {
        self.clean()?;
        let name = way.name(jvm.is_some());
        let stock = self.stock(way.segments);
        let mut shop = self.shop(stock.clone())?;
        let job = |process| Job {
            url: self.url.clone(),
            stock: stock.clone(),
            lock: way.locked.then(|| self.lock_name()),
            work: self.plan.work,
            process,
        };
        let mut sellers =
            try_join_all((0..PROCESSES).map(async |process| Seller::start(&job(process)).await))
                .await?;

        let start = Instant::now();
        for seller in &mut sellers {
            seller.go().await?;
        }
        let by_jvm = async {
            match jvm {
                Some(jvm) => self.sell_by(jvm, &stock).await.map(Some),
                None => Ok(None),
            }
        };
        let finish = async {
            let sales = try_join_all(sellers.into_iter().map(Seller::finish));
            tokio::try_join!(sales, by_jvm)
        };
        let mut finish = std::pin::pin!(timeout(RUN_LIMIT, finish));

        let mut progress = Progress::new(&name, stock.items);
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
            stock: stock.items,
            sold: sold + sold_by_jvm.unwrap_or(0),
            sold_by_jvm,
            time,
            hand_overs: way.locked.then(|| hand_overs(sales)),
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
    in_order.sort_unstable_by_key(|(_, sale)| (sale.segment, sale.number));
    let mut times: Vec<_> = in_order
        .windows(2)
        .filter_map(|pair| {
            let [(from, sale), (to, next)] = pair else {
                return None;
            };
            let follows = (next.segment, next.number) == (sale.segment, sale.number + 1);
            let is_hand_over = from != to && follows;
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
    name: String,
    stock: u64,
    on_terminal: bool,
    next: Duration,
}

impl Progress {
    fn new(name: &str, stock: u64) -> Self {
        Self {
            name: name.to_owned(),
            stock,
            on_terminal: stdout().is_terminal(),
            next: Duration::ZERO,
        }
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
        let filled = (sold.min(self.stock) as usize * WIDTH) / self.stock as usize;
        let bar = "#".repeat(filled) + &".".repeat(WIDTH - filled);
        let seconds = time.as_secs_f64();
        let (name, stock) = (&self.name, self.stock);
        format!("{name:<21} [{bar}] counted {sold:>6} of {stock} {seconds:>6.1} s")
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
    print!("{name:<21}");
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
            self.name.clone(),
            self.processes.to_string(),
            self.stock.to_string(),
            self.sold.to_string(),
            self.oversold().to_string(),
            or_dash(self.sold_by_jvm),
            format!("{seconds:.1}"),
            format!("{:.0}", self.sales_a_second()),
            or_dash(count),
            or_dash(micros(50)),
            or_dash(micros(99)),
        ]
    }

    fn sales_a_second(&self) -> f64 {
        self.sold as f64 / self.time.as_secs_f64()
    }

    fn bar(&self) -> plot::Bar {
        let (label, second) = (self.name.clone(), self.sold_by_jvm.is_some());
        plot::Bar { label, value: self.sales_a_second(), second }
    }

    fn oversold(&self) -> i64 {
        self.sold as i64 - self.stock as i64
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
