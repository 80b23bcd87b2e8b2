//! One process for each contestant: each owner at its own lock, or all at one.

use std::time::Duration;

use harness::{Load, RedisServer};

use crate::{
    contestant::Contestant,
    processes::{Process, Processes},
    report::Section,
    table::{Column, Line, Row, Table, evenness},
};

/// Rounds with one lock for all take longer: the turns of those who poll are rare.
const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(800);

const SHORT_ROUNDS: usize = 15;
const SHORT_TIME: Duration = Duration::from_millis(300);

const UNCONTENDED: &[Column] = &[
    Column::plotted("pairs/s", |s| s.per_second()),
    Column::beside(Contestant::Bare, "× bare", |s| s.per_second()),
    Column::new("pair p50, µs", |s| s.worst(|r| r.turn_us.p50)),
    Column::beside(Contestant::Bare, "× bare", |s| s.worst(|r| r.turn_us.p50)),
    Column::new("client CPU, µs/pair", |s| s.client_cpu()),
    Column::new("server CPU, µs/pair", |s| s.server_cpu()),
    Column::new("commands/pair", |s| s.commands()),
];

const CONTENDED: &[Column] = &[
    Column::plotted("acquisitions/s", |s| s.per_second()),
    Column::new("commands each", |s| s.commands()),
    Column::new("least/most turns of a task", |s| {
        evenness(s.reports.iter().flat_map(|r| [r.min_per_owner, r.max_per_owner]))
    }),
    Column::new("wait p50, µs", |s| s.worst(|r| r.acquire_us.p50)),
    Column::new("wait p99, µs", |s| s.worst(|r| r.acquire_us.p99)),
    Column::plotted("p99 of the worst-off task, µs", |s| s.worst_owner()),
];

pub(crate) async fn uncontended(
    server: &RedisServer,
    processes: &Processes,
    tasks: usize,
) -> Section {
    let load = Load::new(tasks, SHORT_TIME).each();
    let rows =
        processes.iter().map(|process| row(process, format!("own {tasks}"), &load)).collect();
    let title = format!("{tasks} {}, each at a lock of its own", plural(tasks));
    let note = format!(
        "Acquire and release, over and over; medians of {SHORT_ROUNDS} rounds of {SHORT_TIME:?}, and of what each round is beside bare EVALSHA's. CPU is that of the whole process."
    );
    let (time, rounds) = (SHORT_TIME, SHORT_ROUNDS);
    Table { title, note, columns: UNCONTENDED, time, rounds, rows }.run(server).await
}

pub(crate) async fn contended(
    server: &RedisServer,
    processes: &Processes,
    tasks: usize,
) -> Section {
    let load = Load::new(tasks, TIME);
    let rows = processes
        .iter()
        .filter(|process| process.contestant.can_wait())
        // A lock that is handed off needs no driver.
        .filter(|process| process.contestant != Contestant::OursOverRedisRs)
        .map(|process| row(process, format!("one for {tasks}"), &load))
        .collect();
    let title = format!("{tasks} tasks of one process at one lock");
    let note = format!(
        "Each releases at once what it was granted and asks again; medians of {ROUNDS} rounds of {TIME:?}. Who polls is often alone: the one who has just released takes the lock again while the others sleep, so look at the turns, and at the waits of the task worst off."
    );
    let (time, rounds) = (TIME, ROUNDS);
    Table { title, note, columns: CONTENDED, time, rounds, rows }.run(server).await
}

fn row(process: &Process, what: String, load: &Load) -> Row {
    let name = process.contestant.name();
    let party = process.peer.party("crowd", "lock", format!("{what}: {name}"));
    let line = Line { name: name.into(), share: 0..1, contestant: Some(process.contestant) };
    Row::new(vec![party], load.clone(), vec![line])
}

fn plural(tasks: usize) -> &'static str {
    if tasks == 1 { "task" } else { "tasks" }
}
