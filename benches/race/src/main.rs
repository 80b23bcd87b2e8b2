//! This crate beside Redisson, other crates and bare commands: all in one run, by turns, on one server.
//!
//! `make bench` runs it and writes `benches/results/`. Every contestant is a process of its own. The rounds of a table are
//! interleaved, and medians are compared. `ARGS='contended wakeups' make bench` runs those alone and writes nothing.

mod cell;
mod contender;
mod crowds;
mod entrant;
mod field;
mod figures;
mod hoard;
mod machine;
mod meter;
mod plot;
mod report;
mod single;
mod wakeups;

use std::{env, fs, path::Path, time::Instant};

use harness::RedisServer;
use tokio::runtime::Runtime;

use field::Field;
use report::Section;

const CELLS: [&str; 5] = ["uncontended", "contended", "processes", "wakeups", "watchdog"];

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../results");

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if arguments.first().is_some_and(|first| first == "rust") {
        contender::run(arguments.into_iter().skip(1));
    }
    if let Some(stranger) = arguments.iter().find(|cell| !CELLS.contains(&cell.as_str())) {
        panic!("there is no {stranger}; there are {CELLS:?}");
    }
    let wanted = |cell: &str| arguments.is_empty() || arguments.iter().any(|other| other == cell);
    let begun = Instant::now();
    let load_before = machine::load();
    let server = RedisServer::start();
    let (field, sections) = Runtime::new().expect("a runtime").block_on(async {
        let field = Field::gather(&server).await;
        (field.notes(), run(&server, &field, wanted).await)
    });
    let head = machine::describe(&server, &load_before, begun.elapsed());
    let document = report::document(&head, &field, &sections);
    if !arguments.is_empty() {
        return print!("{document}");
    }
    let results = Path::new(RESULTS);
    fs::create_dir_all(results).expect("a folder for the results");
    fs::write(results.join("race.md"), document).expect("to write the tables");
    fs::write(results.join("race.svg"), plot::svg(&sections)).expect("to write the plot");
    println!(
        "\nwritten: benches/results/race.md, benches/results/race.svg ({:.0?})",
        begun.elapsed()
    );
}

async fn run(server: &RedisServer, field: &Field, wanted: impl Fn(&str) -> bool) -> Vec<Section> {
    let mut sections = Vec::new();
    let begun = Instant::now();
    let mut add = |section: Section| {
        eprintln!("\n{section}\n({:.0?} so far)\n", begun.elapsed());
        sections.push(section);
    };
    if wanted("uncontended") {
        for tasks in [1, 64, 1_000] {
            add(single::uncontended(server, field, tasks).await);
        }
    }
    if wanted("contended") {
        for tasks in [8, 64] {
            add(single::contended(server, field, tasks).await);
        }
    }
    if wanted("processes") {
        add(crowds::processes(server).await);
    }
    if wanted("wakeups") {
        add(wakeups::wakeups(server).await);
    }
    if wanted("watchdog") {
        add(hoard::watchdog().await);
    }
    sections
}
