//! [`ask_on`]: a client that asks, and whether it may follow whom it follows, after what it has heard.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use fastrand::Rng;
use tokio::time::{Instant, sleep};

use super::{
    super::super::Discovery,
    network::{Network, address},
    plan::Plan,
    sentinels::{OTHER, OWN, Sentinel, Truth, server},
};
use crate::wire::{
    connection::{ConnectionSettings, OnBreak},
    deployment::{Address, Credentials, Deployment, Nat, Servers},
};

/// Others may be believed when none of its own deployment has answered for so long.
const SILENCE: Duration = Duration::from_secs(30);

/// Asks until something is wrong. Says what.
pub(super) async fn ask_on(network: &Network, plan: &Plan) -> String {
    let mut rng = Rng::with_seed(plan.seed);
    let mut client = client(network, &plan.configured);
    let mut judge = Judge { configured: plan.configured.clone(), ..Judge::default() };
    sleep(Duration::from_millis(rng.u64(0..4_000))).await;
    loop {
        let begun = Instant::now();
        network.lock().heard.clear();
        let answer = client.ask().await;
        let follows = answer.ok().map(|map| map.slots[0].1.address.clone());
        let is_answered = follows.is_some();
        if let Err(finding) = judge.judge(&mut network.lock(), begun, follows) {
            return finding.to_owned();
        }
        let is_well = network.lock().due.is_some();
        sleep(Duration::from_millis(match is_answered {
            true if is_well => rng.u64(3_000..9_000),
            true => [1_050, 1_050, 3_050, 8_000][rng.usize(0..4)],
            false => [250, 250, 1_050][rng.usize(0..3)],
        }))
        .await;
    }
}

/// Of a client with these places in its configuration.
pub(super) fn client(network: &Network, configured: &[usize]) -> Discovery {
    let settings = ConnectionSettings::for_tests(Arc::new(network.clone()), OnBreak::End);
    let configured = configured.iter().map(|place| address(*place)).collect();
    let deployment = Deployment {
        servers: Servers::Sentinels(configured, "service".into(), Credentials::default()),
        credentials: Credentials::default(),
        password_file: None,
        database: None,
        uses_tls: false,
        tls: None,
        nat: Nat::default(),
    };
    Discovery::new(&deployment, &settings)
}

#[derive(Default)]
struct Judge {
    /// The places of the configured addresses.
    configured: Vec<usize>,
    /// Whether the client has followed its own deployment when most of them answered so.
    is_sure: bool,
    /// Whether it follows the other one.
    strays: bool,
    /// The last master of its own deployment that it has followed.
    last: Option<Address>,
    /// When one of its own deployment was last heard that can be told to be.
    own_heard: Option<Instant>,
    /// The ids that those told.
    ids: BTreeSet<char>,
    /// Whom the trace says that it follows.
    told: Option<Option<Address>>,
}

impl Judge {
    fn judge(
        &mut self,
        truth: &mut Truth,
        begun: Instant,
        follows: Option<Address>,
    ) -> Result<(), &'static str> {
        let judged = self.hear(truth, begun, follows.as_ref());
        if judged.is_err() || self.told.as_ref() != Some(&follows) {
            let whom = follows.as_ref().map_or("nobody".to_owned(), Address::to_string);
            truth.say(format!("the client follows {whom}, and has heard:"));
            let heard = truth.heard.iter().map(|(place, one)| format!("    @{place} {one}"));
            truth.lines.extend(heard.collect::<Vec<_>>());
            self.told = Some(follows);
        }
        judged
    }

    fn hear(
        &mut self,
        truth: &Truth,
        begun: Instant,
        follows: Option<&Address>,
    ) -> Result<(), &'static str> {
        let own: Vec<_> = truth.heard.iter().filter(|(_, one)| self.is_own(one)).collect();
        let is_configured = |(place, _): &&(usize, Sentinel)| self.configured.contains(place);
        let ours = own.iter().copied().filter(is_configured).count();
        let others = truth.heard.iter().filter(|(_, one)| one.of == OTHER);
        // One that strays stays with others of which more are configured.
        if !own.is_empty() && (!self.strays || ours >= others.filter(is_configured).count()) {
            self.own_heard = Some(Instant::now());
            self.ids = own.iter().flat_map(|(_, one)| one.ids()).collect();
        }
        if let Some(master) = follows {
            self.strays = master.host != server(OWN, 0).host;
            let is_long_ago = self.own_heard.is_none_or(|at| Instant::now() >= at + SILENCE);
            if self.strays && self.is_sure && !is_long_ago {
                return Err("it follows the master of the other deployment");
            }
            if !self.strays {
                self.is_sure |= 2 * ours > self.configured.len();
                self.last = Some(master.clone());
            }
        }
        let is_due = truth.due.is_some_and(|due| begun >= due);
        if is_due && follows != Some(&server(OWN, truth.masters[OWN])) {
            return Err("it does not follow the master although all is well");
        }
        Ok(())
    }

    /// Whether it is of its own deployment, and can be told to be: it lists two of those that were heard last,
    /// or one and names the master that was followed.
    fn is_own(&self, one: &Sentinel) -> bool {
        let in_common = one.ids().intersection(&self.ids).count();
        let names_last = self.last.as_ref() == Some(&server(OWN, one.master));
        let is_known = in_common > 1 || in_common > 0 && names_last || self.ids.is_empty();
        one.of == OWN && is_known
    }
}
