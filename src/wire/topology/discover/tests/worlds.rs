//! Random worlds of sentinels of two deployments whose masters have the same name. A client that asks them,
//! as production does, never follows the master of the other deployment, and comes back to that of its own.
//!
//! `WORLDS=0..1000` tries that many. One that fails is made shorter, and printed.
//!
//! What a client cannot know is left out:
//! - a client that has never heard its own deployment from most of the configured addresses;
//! - others that are followed when none that can be told to be its own has answered for 30 s;
//! - others that are still followed then, while they have more of the configured addresses that answer;
//! - a deployment that loses most of its sentinels, or of the configured addresses, to the other one;
//! - one that is moved while the deployments still list another that was moved;
//! - one that is moved back without a reset of those that it leaves;
//! - the loss of the only one that knows the last master;
//! - one that is set up anew with an old master;
//! - one that is reset while some hear nothing of their peers, or that leads a failover.
//!
//! Not made here: sentinels that tell no ids, slow ones, questions that are given up, lost replies.

mod judge;
mod network;
mod plan;
mod sentinels;

use std::{ops::Range, time::Duration};

use self::{judge::ask_on, network::Network, plan::Plan, sentinels::Truth};
use super::{ASK_TIMEOUT, REST_TIMEOUT};

/// Worlds of two mends: those from before that are reset come back, and a single doubtful one moves nobody.
const FOUND: [u64; 4] = [58, 78, 158, 287];

/// What was wrong in this world, and what had happened. The same each time.
fn run(plan: &Plan) -> (Option<String>, Vec<String>) {
    fastrand::seed(plan.seed);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.unwrap().block_on(async {
        let network = Network::new(Truth::new(plan.sizes));
        let finding = tokio::select! {
            biased;
            finding = ask_on(&network, plan) => Some(finding),
            () = plan.play(&network) => None,
        };
        let lines = std::mem::take(&mut network.lock().lines);
        (finding, lines)
    })
}

/// Leaves out what is not needed to fail.
fn explain(mut plan: Plan) {
    let fails = |plan: &Plan| run(plan).0.is_some();
    while let Some(shorter) = plan.shorter().into_iter().find(fails) {
        plan = shorter;
    }
    let (finding, lines) = run(&plan);
    println!("{plan:?}\n{}\n{}\n", lines.join("\n"), finding.unwrap_or_default());
}

#[test]
fn a_client_follows_no_other_deployment_and_comes_back_to_its_own() {
    let range = std::env::var("WORLDS").ok().map(|worlds| {
        let (from, to) = worlds.split_once("..").expect("WORLDS=0..1000");
        Range { start: from.parse().unwrap(), end: to.parse().unwrap() }
    });
    let worlds: Vec<u64> = range.map_or((0..24).chain(FOUND).collect(), Iterator::collect);
    let plans = worlds.into_iter().map(Plan::draw);
    let failed: Vec<_> = plans.filter(|plan| run(plan).0.is_some()).collect();
    failed.iter().take(3).cloned().for_each(explain);
    let seeds: Vec<_> = failed.iter().map(|plan| plan.seed).collect();
    assert!(seeds.is_empty(), "{} worlds fail: {seeds:?}", seeds.len());
}

#[test]
fn a_seed_has_one_world() {
    let plan = Plan::draw(1);
    assert_eq!(run(&plan), run(&plan));
}

/// As by a process that is stopped and goes on.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_read_long_after_the_question_is_not_used() {
    let network = Network::new(Truth::new([3, 0]));
    let mut discovery = judge::client(&network, &[0, 1, 2]);
    for stop in [Duration::ZERO, ASK_TIMEOUT / 2] {
        let mut asking = Box::pin(discovery.ask());
        assert!(futures::poll!(&mut asking).is_pending());
        tokio::time::advance(stop).await;
        asking.await.unwrap();
    }
    let mut asking = Box::pin(discovery.ask());
    assert!(futures::poll!(&mut asking).is_pending());
    tokio::time::advance(60 * ASK_TIMEOUT).await;
    asking.await.unwrap_err();
    discovery.ask().await.unwrap();
    // A little more than the time limit, which is the least now.
    let mut asking = Box::pin(discovery.ask());
    assert!(futures::poll!(&mut asking).is_pending());
    tokio::time::advance(ASK_TIMEOUT * 3 / 2).await;
    asking.await.unwrap_err();
    discovery.ask().await.unwrap();

    // One has answered before that, alone.
    for place in [1, 2] {
        network.lock().sentinels[place].delay = ASK_TIMEOUT / 2;
    }
    let mut asking = Box::pin(discovery.ask());
    let heard = tokio::time::timeout(ASK_TIMEOUT / 4, &mut asking).await;
    assert!(heard.is_err(), "one is not enough");
    tokio::time::advance(60 * ASK_TIMEOUT).await;
    asking.await.unwrap_err();
    discovery.ask().await.unwrap();

    // Most have answered, and this process was slow afterwards.
    for place in [0, 1, 2] {
        network.lock().sentinels[place].delay = Duration::from_millis(1);
    }
    discovery.ask().await.unwrap();
    network.lock().sentinels[2].is_silent = true;
    let mut asking = Box::pin(discovery.ask());
    let heard = tokio::time::timeout(REST_TIMEOUT / 2, &mut asking).await;
    assert!(heard.is_err(), "the third is waited for");
    tokio::time::advance(ASK_TIMEOUT * 11 / 10).await;
    asking.await.unwrap();

    // One has answered, and this process was stopped for less than the time limit after a round without an answer. The
    // others have answered meanwhile, or not yet.
    for is_silent in [false, true] {
        for stop in [ASK_TIMEOUT * 11 / 10, ASK_TIMEOUT * 14 / 10] {
            for place in [1, 2] {
                network.lock().sentinels[place].delay = ASK_TIMEOUT / 2;
                network.lock().sentinels[place].is_silent = is_silent;
            }
            let mut asking = Box::pin(discovery.ask());
            let heard = tokio::time::timeout(ASK_TIMEOUT / 4, &mut asking).await;
            assert!(heard.is_err(), "one is not enough");
            tokio::time::advance(stop).await;
            assert_eq!(asking.await.is_ok(), is_silent && stop < ASK_TIMEOUT * 5 / 4);
            discovery.ask().await.unwrap();
        }
    }
}
