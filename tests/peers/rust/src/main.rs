//! A program that reads requests for locks from stdin and answers on stdout: the counterpart of `tests/peers/java`, on this
//! crate. `tests/peers/README.md` describes the protocol.

mod answers;
mod connection;
mod counter;
mod latencies;
mod locks;
mod looping;
mod ops;
mod options;
mod owner;
mod peer;
mod request;
mod room;
mod synchronizers;
mod traffic;

use std::io;
use std::process::{ExitCode, exit};
use std::thread;

use redisson_lock::Client;
use tokio::runtime::Builder;
use tracing_subscriber::filter::{ParseError, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use options::Options;
use peer::Peer;

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(bad) => return failed(2, &bad),
    };
    if let Err(bad) = log_to_stderr() {
        return failed(2, &format!("RUST_LOG: {bad}"));
    }
    let mut runtime = Builder::new_multi_thread();
    if let Some(threads) = options.threads() {
        runtime.worker_threads(threads);
    }
    let runtime = runtime.enable_all().build().expect("a runtime");
    match runtime.block_on(connect(options)) {
        Ok(peer) => {
            let _entered = runtime.enter();
            serve(peer)
        }
        Err(error) => failed(1, &format!("cannot connect: {error}")),
    }
}

fn failed(status: u8, why: &str) -> ExitCode {
    eprintln!("peer: {why}");
    ExitCode::from(status)
}

/// Only when `RUST_LOG` is set.
fn log_to_stderr() -> Result<(), ParseError> {
    let Ok(wanted) = std::env::var("RUST_LOG") else {
        return Ok(());
    };
    tracing_subscriber::registry()
        .with(tracing_subscriber::fmt::layer().with_writer(io::stderr))
        .with(wanted.parse::<Targets>()?)
        .init();
    Ok(())
}

async fn connect(options: Options) -> Result<Peer, redisson_lock::Error> {
    let client = Client::connect(options.config()?).await?;
    Ok(Peer::new(client, options.counters()))
}

/// Reads to the end of stdin. Never returns: with the process everything is gone at once, and nothing is released.
fn serve(mut peer: Peer) -> ! {
    for line in io::stdin().lines() {
        match line {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => peer.serve(&line),
            Err(_) => break,
        }
    }
    while peer.is_closing() {
        thread::park(); // who closes ends the process
    }
    exit(0)
}
