//! Runs the trials and prints their tables. README.md says how.

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use patterns::{
    cache::{self, Times, trial::Reads},
    error::Result,
    figures::table,
    plot::{self, Bar, Bars, Line, Lines},
    read_write::{self, Order, Terms},
    sale,
};

const USAGE: &str = "usage: patterns cache|read_write|sale|all [--svg FILE]";

// In the picture.
const WORSE: &str = "#94a3b8";
const MIDDLE: &str = "#2563eb";
const BETTER: &str = "#c2410c";

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<_> = env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["worker", "cache"] => cache::trial::work().await,
        ["worker", "read_write"] => read_write::trial::work().await,
        ["worker", "sale"] => sale::trial::work().await,
        [which] => measure(which, None).await,
        ["all", "--svg", file] => measure("all", Some(file.into())).await,
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("patterns: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn measure(which: &str, picture: Option<PathBuf>) -> Result<()> {
    let program = env::current_exe()?;
    match which {
        "cache" => drop(measure_cache(&program).await?),
        "read_write" => drop(measure_read_write(&program).await?),
        "sale" => measure_sale(&program).await?,
        "all" => {
            let lines = measure_cache(&program).await?;
            let bars = measure_read_write(&program).await?;
            measure_sale(&program).await?;
            if let Some(file) = picture {
                std::fs::write(file, plot::svg(&lines, &bars))?;
            }
        }
        _ => return Err(USAGE.into()),
    }
    Ok(())
}

fn secs(secs: f64) -> Duration {
    Duration::from_secs_f64(secs)
}

// ---- The cache

const HOT: cache::trial::Plan = cache::trial::Plan {
    processes: 4,
    tasks: 16,
    every: Duration::from_millis(20),
    lasts: Duration::from_secs(12),
    orders: 200_000,
    way: cache::trial::Way::WithLock,
    reads: Reads::Hot,
    times: Times {
        fresh: Duration::from_secs(2),
        jitter: Duration::ZERO,
        stale: Duration::ZERO,
        empty: None,
        wait: Duration::from_secs(5),
    },
};

async fn measure_cache(program: &Path) -> Result<Lines> {
    use cache::trial::{Plan, Way, run};
    let span = secs(0.1);
    println!(
        "### A hot key\n\n{} processes of {} tasks read one key every {:?} each, for {:?}. It is fresh for {:?}.\n\
         The database adds up {} orders for it.\n",
        HOT.processes, HOT.tasks, HOT.every, HOT.lasts, HOT.times.fresh, HOT.orders
    );
    let stale = Times { stale: secs(10.0), ..HOT.times };
    let ways = [
        ("without lock", WORSE, Way::WithoutLock, HOT.times),
        ("once in each process", MIDDLE, Way::OncePerProcess, HOT.times),
        ("with lock", "#16a34a", Way::WithLock, HOT.times),
        ("with lock, stale meanwhile", BETTER, Way::WithLock, stale),
    ];
    let (mut rows, mut lines) = (Vec::new(), Vec::new());
    for (name, color, way, times) in ways {
        let outcome = run(program, Plan { way, times, ..HOT }).await?;
        let [reads, queries, p50, p99, slowest, busy] = outcome.row();
        // With a stale value the key does not expire.
        let expired = if times.stale.is_zero() { outcome.expired.to_string() } else { "-".into() };
        rows.push([name.into(), reads, expired, queries, p50, p99, slowest, busy]);
        lines.push(Line { label: name.into(), color, points: outcome.slowest_of_each(span) });
    }
    let header = ["", "reads", "expired", "queries", "p50", "p99", "slowest", "busy"];
    println!("{}", table(header, &rows));

    let absent = Plan { reads: Reads::Absent(100), lasts: secs(6.0), orders: 1, ..HOT };
    println!(
        "### Rows that do not exist\n\nThe same load for {:?}, on 100 rows that do not exist.\n",
        absent.lasts
    );
    let mut rows = Vec::new();
    for (name, empty) in [("not kept", None), ("kept for 2 s", Some(secs(2.0)))] {
        let times = Times { empty, ..absent.times };
        let outcome = run(program, Plan { times, ..absent }).await?;
        let [reads, queries, p50, p99, ..] = outcome.row();
        rows.push([name.into(), reads, queries, p50, p99]);
    }
    println!("{}", table(["that there is no row is", "reads", "queries", "p50", "p99"], &rows));

    let many = Plan { reads: Reads::Rows(400), lasts: secs(8.0), orders: 1, ..HOT };
    println!(
        "### Many keys written together\n\nThe same load for {:?}, on 400 rows.\n",
        many.lasts
    );
    let mut rows = Vec::new();
    for (name, jitter) in [("all 2 s", 0.0), ("2 to 3 s", 1.0)] {
        let times = Times { jitter: secs(jitter), ..many.times };
        let outcome = run(program, Plan { times, ..many }).await?;
        let mut later = outcome.queries.clone();
        // Without the start, where every key is new.
        later.retain(|&at| at > outcome.began + 1_500_000);
        let later = cache::trial::Outcome { queries: later, ..outcome };
        let most = later.most_queries_within(span).to_string();
        rows.push([
            name.into(),
            later.reads.len().to_string(),
            later.queries.len().to_string(),
            most,
        ]);
    }
    println!("{}", table(["fresh for", "reads", "queries", "most in 0.1 s"], &rows));
    Ok(Lines {
        title: "A hot key expires every 2 s: the slowest read of each 0.1 s (logarithmic)".into(),
        across: format!("0 to {:?}", HOT.lasts),
        unit: "ms",
        lines,
    })
}

// ---- A cache that never shows less than the database

async fn measure_read_write(program: &Path) -> Result<Bars> {
    use read_write::trial::{Plan, run};
    let plan = Plan {
        processes: 3,
        readers: 4,
        writers: 1,
        rows: 8,
        write_every: Duration::from_millis(5),
        rounds: 40,
        lasts: secs(0.25),
        terms: Terms { locked: true, order: Order::DeleteFirst, copy_lasts: secs(60.0) },
        watchdog: secs(30.0),
    };
    println!(
        "### Stale reads\n\n{} processes, each with {} readers and {} writer, on {} rows, for {} times {:?}.\n",
        plan.processes, plan.readers, plan.writers, plan.rows, plan.rounds, plan.lasts
    );
    let ways = [
        ("without lock: commit, delete", WORSE, false, Order::CommitFirst),
        ("without lock: delete, commit, put", WORSE, false, Order::DeleteFirst),
        ("with lock: commit, delete", MIDDLE, true, Order::CommitFirst),
        ("with lock: delete, commit, put", BETTER, true, Order::DeleteFirst),
    ];
    let (mut rows, mut bars) = (Vec::new(), Vec::new());
    for (name, color, locked, order) in ways {
        let terms = Terms { locked, order, ..plan.terms };
        let outcome = run(program, Plan { terms, ..plan }).await?;
        let [reads, writes, stale, differ, p50, p99, write_p50] = outcome.row();
        let value = outcome.stale as f64 * 1e4 / outcome.reads.len().max(1) as f64;
        let text = format!("{value:.1}, at rest {differ} of {}", plan.rows * plan.rounds);
        bars.push(Bar { label: name.into(), color, value, text });
        rows.push([name.into(), reads, writes, stale, differ, p50, p99, write_p50]);
    }
    let header =
        ["", "reads", "writes", "stale reads", "differ at rest", "read p50", "p99", "write p50"];
    println!("{}", table(header, &rows));
    Ok(Bars { title: "Stale reads of 10 000".into(), bars })
}

// ---- A sale

async fn measure_sale(program: &Path) -> Result<()> {
    use sale::trial::{Plan, Way, run};
    let plan = Plan {
        way: Way::WithTokens,
        stock: 200,
        clerks: 3,
        pauses: 5,
        sales_in_a_pause: 5,
        lease: secs(0.5),
    };
    println!(
        "### A sale\n\n{} clerks sell {} items. Another is stopped {} times, for longer than its lease of {:?}.\n",
        plan.clerks, plan.stock, plan.pauses, plan.lease
    );
    let ways = [
        ("without lock", Way::WithoutLock),
        ("with lock", Way::WithLock),
        ("with lock and token", Way::WithTokens),
        ("without lock, one statement", Way::ByOneStatement),
    ];
    let mut rows = Vec::new();
    for (name, way) in ways {
        let [stock, sold, oversold, late, refused] =
            run(program, Plan { way, ..plan }).await?.row();
        rows.push([name.into(), stock, sold, oversold, late, refused]);
    }
    let header = ["", "stock", "sold", "oversold", "late sales accepted", "refused"];
    println!("{}", table(header, &rows));
    Ok(())
}
