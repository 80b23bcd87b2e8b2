//! What goes wrong, when the plan says so.

use std::{pin::pin, sync::Arc, time::Duration};

use futures::FutureExt;
use judge::Fault;
use tokio::{
    task::AbortHandle,
    time::{Instant, advance, sleep, sleep_until},
};

use super::{
    link::{Rest, Weather},
    mishap::{Data, Mishap, What},
    server::Replica,
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
            What::Kill { client } | What::EndRuntime { client } => {
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
    let begin = at.checked_sub(behind).unwrap_or(at).max(Instant::now());
    sleep_until(begin).await;
    let old = match what {
        What::FailOver { server, gone, .. } if world.servers[server].is_up() => {
            let master = &world.servers[server];
            master.set_replica(if gone { Replica::Gone } else { Replica::Behind });
            Some(master.save())
        }
        What::Restart { server, data: Data::Old(_), .. } => Some(world.servers[server].save()),
        _ => None,
    };
    sleep_until(at).await;
    world.trace.note(format_args!("MISHAP {what:?}"));
    if !what.is_harmless() {
        world.trouble();
    }
    let class = match what {
        What::FailOver { .. } => Fault::Failover,
        What::Restart { data: Data::None | Data::Old(_), .. } => Fault::Data,
        What::Evict { .. } | What::Flush { .. } => Fault::Data,
        What::StepClock { .. } => Fault::Clock,
        _ => Fault::Delay,
    };
    let begin = || world.recorder.begin(class, format!("{what:?}"));
    let _fault = begin();
    // What is on its way then comes late.
    if let What::Break { rest: Rest::Runs(later), .. } | What::Cut { rest: Rest::Runs(later), .. } =
        what
    {
        let late = begin();
        tokio::spawn(async move {
            sleep(later).await;
            drop(late);
        });
    }
    let link = |client: usize, server: usize| world.clients[client].links[server].clone();
    let until = |lasts: Duration| (at + lasts).min(end);
    match what {
        What::Weather { client, server, weather, lasts } => {
            link(client, server).set_weather(weather);
            sleep_until(until(lasts)).await;
            link(client, server).set_weather(Weather::default());
        }
        What::Break { client, server, rest } => link(client, server).break_commands(rest),
        What::Cut { client, server, rest, lasts } => {
            link(client, server).cut(until(lasts), rest);
            sleep_until(until(lasts)).await;
        }
        What::Freeze { client, server, requests, replies, lasts } => {
            link(client, server).freeze(requests, replies, until(lasts));
            sleep_until(until(lasts)).await;
        }
        What::Gap { client, server } => link(client, server).break_ear(),
        What::Deaf { client, server } => link(client, server).deafen(),
        What::Restart { server, lasts, data } => {
            let stopped = &world.servers[server];
            if !stopped.is_up() {
                return;
            }
            if data != Data::All {
                world.take_state();
            }
            stopped.stop();
            world.clients.iter().for_each(|client| client.links[server].break_all(Rest::Lost));
            sleep_until(until(lasts)).await;
            match old.filter(|_| data != Data::All) {
                Some(old) => stopped.start_with(&old, false),
                None => stopped.start(data == Data::None),
            }
        }
        What::FailOver { server, lasts, .. } => {
            let stopped = &world.servers[server];
            let Some(old) = old.filter(|_| stopped.is_up()) else {
                return stopped.set_replica(Replica::Follows);
            };
            world.take_state();
            stopped.stop();
            world.clients.iter().for_each(|client| client.links[server].break_all(Rest::Lost));
            sleep_until(until(lasts)).await;
            stopped.start_with(&old, true);
        }
        What::Unreplicated { server, gone, lasts } => {
            let replica = if gone { Replica::Gone } else { Replica::Behind };
            world.servers[server].set_replica(replica);
            sleep_until(until(lasts)).await;
            world.servers[server].set_replica(Replica::Follows);
        }
        What::StepClock { server, by_ms } => {
            world.take_state();
            world.servers[server].step_clock(by_ms);
        }
        What::Refuse { server, why, lasts } => {
            world.servers[server].refuse(why, true);
            sleep_until(until(lasts)).await;
            world.servers[server].refuse(why, false);
        }
        What::ForgetScripts { server } => world.servers[server].forget_scripts(),
        What::Evict { server, ref key, times, every } => {
            world.take_state();
            for _ in 0..times {
                // One that is down loses nothing more.
                if world.servers[server].is_up() {
                    world.servers[server].evict(key);
                }
                sleep(every).await;
            }
        }
        What::Flush { server } => {
            world.take_state();
            if world.servers[server].is_up() {
                world.servers[server].flush();
            }
        }
        What::Block { lasts } => {
            world.recorder.sleep(world.clients.len(), true);
            let mut advancing = pin!(advance(lasts));
            // The first poll sets the clock, and lets others run after that.
            let _ = advancing.as_mut().now_or_never();
            world.recorder.sleep(world.clients.len(), false);
            advancing.await;
        }
        What::Kill { client } => {
            world.set_gone(client);
            world.recorder.end(client);
            for link in &world.clients[client].links {
                link.cut(Instant::now() + FOREVER, Rest::Lost);
            }
            tasks.iter().for_each(AbortHandle::abort);
        }
        What::EndRuntime { .. } => tasks.iter().for_each(AbortHandle::abort),
        What::Close { client } => {
            world.set_gone(client);
            // Its server may be gone, too.
            if world.close(client).await.is_err() {
                world.leave_places();
            }
        }
    }
}
