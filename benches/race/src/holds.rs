//! Very many holds of one client, in a process and on a server of their own.

use std::time::Duration;

use harness::RedisServer;
use serde_json::json;

use crate::{
    client::{HOLDS, HoldCosts, MANY_HOLDS},
    contestant::start_client,
    figures::readable,
    report::Section,
};

const LIMIT: Duration = Duration::from_secs(300);

pub(crate) async fn watchdog() -> Section {
    eprintln!("{HOLDS} holds …");
    let server = RedisServer::start();
    let peer = start_client(&server.url(), MANY_HOLDS).await;
    let answer = peer.start(json!({ "op": "loop" })).within(LIMIT).await;
    let answer = answer.unwrap_or_else(|error| panic!("{error}"));
    let of: HoldCosts = serde_json::from_value(answer.value).expect("figures");
    let row = |name: &str, value: f64| (name.to_owned(), vec![readable(value)]);
    let rows = vec![
        row("client CPU, µs a renewal", of.client_us),
        row("server CPU, µs a renewal", of.server_us),
        row("renewals seen", of.renewals as f64),
        row("renewals in a script call", of.renewals as f64 / of.scripts.max(1) as f64),
        row("another lock and unlock, no holds: p50, µs", of.alone.p50 as f64),
        row("… p99, µs", of.alone.p99 as f64),
        row("… longest, µs", of.alone.max as f64),
        row("the same beside the renewals: p50, µs", of.beside.p50 as f64),
        row("… p99, µs", of.beside.p99 as f64),
        row("… longest, µs", of.beside.max as f64),
        row("memory of an idle `Lock`, bytes", of.idle_lock_bytes as f64),
        row("… of a hold, bytes", of.hold_bytes as f64),
        row("… of a waiter and its task, bytes", of.waiter_bytes as f64),
        row("holds lost", of.lost as f64),
    ];
    Section {
        title: format!("{} holds of one client", readable(HOLDS as f64)),
        note: "Watchdog of 30 s, renewed for 20 s; CPU less that of the idle client and server. Memory is what the process grew by.".into(),
        header: ["", "redisson-lock"].map(str::to_owned).into(),
        rows,
        charts: Vec::new(),
    }
}
