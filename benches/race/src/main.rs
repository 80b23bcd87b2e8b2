//! This crate beside Redisson, other crates and bare commands: all in one run, by turns, on one server.
//!
//! `make bench` runs it and writes `benches/results/`. Every contestant is a process of its own. The rounds of a table are
//! interleaved, and medians are compared. `ARGS='contended wakeups' make bench` runs those alone and writes nothing.

mod capacity;
mod client;
mod compare;
mod contestant;
mod crowds;
mod fair;
mod family;
mod figures;
mod holds;
mod machine;
mod meter;
mod multi;
mod pairs;
mod plot;
mod processes;
mod read_write;
mod report;
mod single;
mod table;
mod wakeups;

use std::{
    env, fs,
    path::Path,
    time::{Duration, Instant},
};

use harness::RedisServer;
use tokio::runtime::Runtime;

use processes::Processes;
use report::Section;

const TABLES: [&str; 11] = [
    "uncontended",
    "contended",
    "processes",
    "wakeups",
    "watchdog",
    "read_write",
    "fair",
    "multi",
    "semaphore",
    "plain",
    "capacity",
];

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../results");

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "rust") {
        client::run(arguments.into_iter().skip(1));
    }
    if let [first, program, wanted @ ..] = &arguments[..]
        && first == "compare"
    {
        let server = RedisServer::start();
        let runtime = Runtime::new().expect("a runtime");
        let section = runtime.block_on(compare::with(program.into(), wanted, &server));
        return println!("{section}");
    }
    if let Some(stranger) = arguments.iter().find(|table| !TABLES.contains(&table.as_str())) {
        panic!("there is no {stranger}; there are {TABLES:?}");
    }
    let wanted = |table: &str| arguments.is_empty() || arguments.iter().any(|other| other == table);
    let begun = Instant::now();
    let load_before = machine::load();
    let server = RedisServer::start();
    let (notes, sections) = Runtime::new().expect("a runtime").block_on(async {
        let processes = Processes::gather(&server).await;
        (processes.notes(), run(&server, &processes, wanted).await)
    });
    let head = machine::describe(&server, &load_before, begun.elapsed());
    let document = report::document(&head, &notes, &sections);
    if !arguments.is_empty() {
        return print!("{document}");
    }
    let results = Path::new(RESULTS);
    fs::create_dir_all(results).expect("a folder for the results");
    fs::write(results.join("race.md"), document).expect("to write the tables");
    let charts = sections.iter().flat_map(|section| &section.charts);
    fs::write(results.join("race.svg"), plot::svg(charts)).expect("to write the plot");
    println!(
        "\nwritten: benches/results/race.md, benches/results/race.svg ({:.0?})",
        begun.elapsed()
    );
}

async fn run(
    server: &RedisServer,
    processes: &Processes,
    wanted: impl Fn(&str) -> bool,
) -> Vec<Section> {
    let mut sections = Vec::new();
    let begun = Instant::now();
    let mut add = |section: Section| {
        eprintln!("\n{section}\n({:.0?} so far)\n", begun.elapsed());
        sections.push(section);
    };
    if wanted("uncontended") {
        for tasks in [1, 64, 1_000] {
            add(single::uncontended(server, processes, tasks).await);
        }
    }
    if wanted("contended") {
        for tasks in [8, 64] {
            add(single::contended(server, processes, tasks).await);
        }
    }
    if wanted("processes") {
        add(crowds::crowds(server).await);
    }
    if wanted("wakeups") {
        add(wakeups::wakeups(server).await);
    }
    if wanted("watchdog") {
        add(holds::watchdog().await);
    }
    if wanted("read_write") {
        for hold in [Some(Duration::ZERO), Some(Duration::from_millis(1)), None] {
            add(read_write::read_write(server, hold).await);
        }
    }
    if wanted("fair") {
        add(fair::lines(server).await);
        add(fair::dead_heads(server).await);
    }
    if wanted("multi") {
        add(multi::overlapping(server).await);
        add(multi::majority().await);
    }
    if wanted("semaphore") {
        add(family::semaphores(server).await);
        add(family::expirable_semaphores(server).await);
    }
    if wanted("plain") {
        add(family::plain_locks(server).await);
    }
    if wanted("capacity") {
        add(capacity::growth().await);
        add(capacity::waiters().await);
    }
    sections
}
