//! What goes wrong, when the plan says so.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use tokio::{
    task::AbortHandle,
    time::{Instant, advance, sleep_until},
};

use super::{
    link::{Rest, Weather},
    plan::{Data, Mishap, What},
    world::World,
};

/// Longer than a run.
const FOREVER: Duration = Duration::from_secs(100_000);

/// `tasks`: with the client of each.
pub(super) async fn run(world: Arc<World>, mishaps: Vec<Mishap>, tasks: Vec<(usize, AbortHandle)>) {
    let begun = Instant::now();
    let end = begun + world.options.traffic;
    let mut happening = Vec::new();
    for Mishap { at, what } in mishaps {
        let at = begun + at;
        let tasks = match what {
            What::Kill { client } => {
                tasks.iter().filter(|(of, _)| *of == client).map(|(_, task)| task.clone()).collect()
            }
            _ => Vec::new(),
        };
        happening.push(tokio::spawn(happen(world.clone(), at, end, what, tasks)));
    }
    sleep_until(end).await;
    for mishap in happening {
        mishap.await.expect("a mishap of the plan");
    }
}

async fn happen(world: Arc<World>, at: Instant, end: Instant, what: What, tasks: Vec<AbortHandle>) {
    let behind = match what {
        What::FailOver { behind, .. } => behind,
        What::Restart { data: Data::Old(old), .. } => old,
        _ => Duration::ZERO,
    };
    let begin = at.checked_sub(behind).unwrap_or(at);
    sleep_until(begin).await;
    let old = match what {
        What::FailOver { server, .. } | What::Restart { server, data: Data::Old(_), .. } => {
            Some(world.servers[server].snapshot())
        }
        _ => None,
    };
    sleep_until(at).await;
    world.trace.note(format_args!("MISHAP {what:?}"));
    let link = |client: usize, server: usize| world.clients[client].links[server].clone();
    let until = |lasts: Duration| (at + lasts).min(end);
    match what {
        What::Weather { client, server, weather, lasts } => {
            link(client, server).set_weather(weather);
            sleep_until(until(lasts)).await;
            link(client, server).set_weather(Weather::default());
        }
        What::Break { client, server, rest } => link(client, server).break_commands(rest),
        What::Cut { client, server, rest, lasts } => link(client, server).cut(until(lasts), rest),
        What::Freeze { client, server, requests, replies, lasts } => {
            link(client, server).freeze(requests, replies, until(lasts));
        }
        What::Gap { client, server } => link(client, server).break_ear(),
        What::Deaf { client, server } => link(client, server).deafen(),
        What::Restart { server, lasts, data } => {
            if data != Data::All {
                world.take_state(server);
            }
            let stopped = &world.servers[server];
            if !stopped.is_up() {
                return;
            }
            let restored = match data {
                Data::None => Some(redis_in_process::Server::new().snapshot()),
                Data::All | Data::Old(_) => old,
            };
            stopped.stop();
            world.clients.iter().for_each(|client| client.links[server].break_all(Rest::Lost));
            sleep_until(until(lasts)).await;
            stopped.start(restored.as_ref(), false);
            if data != Data::All {
                // What came back may have been released since.
                world.take_state(server);
            }
        }
        What::FailOver { server, lasts, .. } => {
            let stopped = &world.servers[server];
            if !stopped.is_up() {
                return;
            }
            world.take_state(server);
            stopped.stop();
            world.clients.iter().for_each(|client| client.links[server].break_all(Rest::Lost));
            sleep_until(until(lasts)).await;
            stopped.start(old.as_ref(), true);
            world.take_state(server);
        }
        What::StepClock { server, by_ms } => {
            world.take_state(server);
            world.servers[server].step_clock(by_ms);
        }
        What::Refuse { server, why, lasts } => {
            world.servers[server].refuse(why, true);
            sleep_until(until(lasts)).await;
            world.servers[server].refuse(why, false);
        }
        What::ForgetScripts { server } => world.servers[server].forget_scripts(),
        What::Evict { server, key } => {
            world.take_state(server);
            world.servers[server].evict(&key);
        }
        What::Flush { server } => {
            world.take_state(server);
            world.servers[server].flush();
        }
        What::Block { lasts } => {
            world.block(lasts);
            advance(lasts).await;
        }
        What::Kill { client } => {
            let gone = &world.clients[client];
            gone.gone.store(true, Ordering::Relaxed);
            for link in &gone.links {
                link.cut(Instant::now() + FOREVER, Rest::Lost);
            }
            tasks.iter().for_each(AbortHandle::abort);
        }
        What::Close { client } => {
            let closed = &world.clients[client];
            closed.gone.store(true, Ordering::Relaxed);
            for client in &closed.by_server {
                let done = client.close().await;
                world.trace.note(format_args!("closed {done:?}"));
            }
        }
    }
}
