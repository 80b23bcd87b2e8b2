//! What a lock costs the server and the client, and how that grows with names, processes and masters.

use std::time::Duration;

use futures::future::join_all;
use harness::{
    Load, LoadReport, Party, Peer, RedisCluster, RedisServer,
    redis::{Connection, pipe},
};
use serde_json::json;

use crate::{
    client::{Cpu, LOCKS, MANY_WAITERS, WaiterCosts},
    contestant::{Contestant, start_client},
    figures::{median, readable},
    meter::Meter,
    report::Section,
};

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(500);
/// Of all processes.
const TASKS: usize = 48;
const OTHERS: usize = 1_000_000;
/// As many divide by 1, 2 and 3.
const PROCESSES: usize = 6;
const LIMIT: Duration = Duration::from_secs(300);

/// Tasks with a lock each, in more and more processes, beside more names, on more masters.
pub(crate) async fn growth() -> Section {
    let mut rows = Vec::new();
    {
        let server = RedisServer::start();
        for processes in [1, 2, 4, 8] {
            eprintln!("{processes} processes with locks of their own …");
            let peers = clients(&server.url(), processes).await;
            let parties = peers.iter().enumerate().map(|(i, peer)| party(peer, format!("own:{i}")));
            let name =
                format!("{processes} {}", if processes == 1 { "process" } else { "processes" });
            rows.push((name, measure(parties.collect(), vec![server.client()]).await));
        }
        eprintln!("beside {OTHERS} other locks …");
        hold(&mut server.client());
        let peers = clients(&server.url(), 1).await;
        let name = format!("1 process, beside {} held locks", readable(OTHERS as f64));
        rows.push((
            name,
            measure(vec![party(&peers[0], "own".into())], vec![server.client()]).await,
        ));
    }
    let cluster = RedisCluster::start();
    let tags = tags(&cluster);
    let url = format!("redis-cluster://{}", cluster.addresses()[0]);
    let peers = clients(&url, PROCESSES).await;
    for masters in 1..=tags.len() {
        eprintln!("{masters} masters of a cluster …");
        let parties = peers
            .iter()
            .enumerate()
            .map(|(i, peer)| party(peer, format!("{{{}}}:{i}", tags[i % masters])));
        let meters = cluster.masters().into_iter().map(|node| cluster.node(node).client());
        let name = format!("{PROCESSES} processes, {masters} of 3 masters");
        rows.push((name, measure(parties.collect(), meters.collect()).await));
    }
    Section {
        title: format!("{TASKS} tasks with a lock each, in more processes, on more masters"),
        note: format!(
            "Acquire and release, over and over; medians of {ROUNDS} rounds of {TIME:?}. The CPU of the servers is that of all masters together; each master of the cluster has a replica, which shares the cores."
        ),
        header: ["", "pairs/s", "clients' CPU, µs/pair", "servers' CPU, µs/pair"]
            .map(str::to_owned)
            .into(),
        rows,
        charts: Vec::new(),
    }
}

async fn clients(url: &str, processes: usize) -> Vec<Peer> {
    join_all((0..processes).map(|_| start_client(url, Contestant::Ours.name()))).await
}

fn party(peer: &Peer, name: String) -> Party {
    peer.party("crowd", "lock", name)
}

/// Another program's locks.
fn hold(connection: &mut Connection) {
    for first in (0..OTHERS).step_by(10_000) {
        let mut batch = pipe();
        for i in first..first + 10_000 {
            let name = format!("other:{i}");
            batch.hset(&name, "01234567-89ab-cdef-0123-456789abcdef:1", 1).ignore();
            batch.pexpire(&name, 3_600_000).ignore();
        }
        batch.exec(connection).expect("locks of others");
    }
}

/// A tag for each master.
fn tags(cluster: &RedisCluster) -> Vec<String> {
    let all = || (0..).map(|i| format!("t{i}"));
    let on = |master| all().find(|tag| cluster.master_of(tag) == master).expect("a tag");
    cluster.masters().into_iter().map(on).collect()
}

async fn measure(parties: Vec<Party>, servers: Vec<Connection>) -> Vec<String> {
    let load = Load::new(TASKS / parties.len(), TIME).each();
    let mut meters: Vec<_> = servers.into_iter().map(Meter::new).collect();
    let mut figures: [Vec<f64>; 3] = Default::default();
    for round in 0..=ROUNDS {
        let before: Vec<_> = meters.iter_mut().map(Meter::read).collect();
        let reports = join_all(parties.iter().map(|party| party.run(&load))).await;
        let used = meters.iter_mut().zip(&before).map(|(meter, before)| meter.read().since(before));
        let served: Duration = used.map(|usage| usage.cpu).sum();
        let sum = |of: fn(&LoadReport) -> u64| reports.iter().map(of).sum::<u64>() as f64;
        assert_eq!(sum(|report| report.errors), 0.0, "errors");
        let pairs = sum(|report| report.acquired).max(1.0);
        if round > 0 {
            let of_round = [
                pairs / TIME.as_secs_f64(),
                sum(|report| report.cpu_us) / pairs,
                served.as_secs_f64() * 1e6 / pairs,
            ];
            figures.iter_mut().zip(of_round).for_each(|(all, figure)| all.push(figure));
        }
    }
    figures.map(|all| readable(median(all))).into()
}

/// What waiting costs, and being woken.
pub(crate) async fn waiters() -> Section {
    eprintln!("{LOCKS} locks with a waiter each …");
    let server = RedisServer::start();
    let peer = start_client(&server.url(), MANY_WAITERS).await;
    let answer = peer.start(json!({ "op": "loop" })).within(LIMIT).await;
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    let of: WaiterCosts = serde_json::from_value(answer.value).expect("figures");
    let cpu =
        |name: &str, cpu: &Cpu| (name.to_owned(), vec![readable(cpu.client), readable(cpu.server)]);
    let of_server =
        |name: &str, value: u64| (name.to_owned(), vec!["–".to_owned(), readable(value as f64)]);
    let rows = vec![
        cpu("CPU until a waiter waits, µs", &of.begin),
        cpu("… of a second of waiting, µs", &of.second),
        cpu("… from a release over the waiter's grant to its release, µs", &of.wake),
        of_server("memory of a held lock, bytes", of.hold_bytes),
        of_server("… of a waiter's channel, bytes", of.channel_bytes),
        of_server("connections of a client", of.connections),
    ];
    Section {
        title: format!("{} held locks, with a waiter each", readable(LOCKS as f64)),
        note: "Two clients in one process: one holds, one waits. Figures of one lock.".into(),
        header: ["", "clients", "server"].map(str::to_owned).into(),
        rows,
        charts: Vec::new(),
    }
}
