//! The scripts: this crate's as shipped, Redisson's as captured, and those that leave a rule out.

use super::call::{Call, Verb};
use super::rules::{Rule, Rules};
use super::terms::{CHANNEL, KEPT, NAME, OUT, REQUESTS};
use super::theirs::CapturedLeased;
use crate::PUBLISH;
use crate::known::Known;
use crate::model::{Arg, Change, Invocation, Ms, Script, Server, text};

const CHANGES: [Change<Rule>; 6] = [
    (Rule::WithdrawalMarks, "release", "if ARGV[2] ~= '' then", "if false then"),
    (Rule::AcquireFinds, "acquire", "if not ends then", "if true then"),
    (Rule::ChangeLooks, "change", "redis.call('zscore', KEYS[2], ARGV[1])", "false"),
    (Rule::SweepTells, "acquire", "if sweeps and free > 0 then", "if false then"),
    (Rule::ReleaseFinds, "release", "if ends then", "if true then"),
    (Rule::KeepsTtl, "acquire", "if ttl > 0 then", "if false then"),
];

/// All scripts, loaded.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    set: Script,
    change: Script,
    acquire: Script,
    release: Script,
    renew: Script,
    delete: Script,
    expire: Script,
    /// Without them there are no clients of Redisson's.
    pub(super) theirs: Option<CapturedLeased>,
    /// What Redisson's copies were seen to do.
    pub(super) known: Known,
}

impl Scripts {
    pub(super) fn load(server: &mut Server, rules: Rules) -> Self {
        let mut load = |name: &str, text: &str| server.load(&rules.apply(&CHANGES, name, text));
        Self {
            set: load("set", include_str!("../../../lua/counter/try_set.lua")),
            change: load("change", include_str!("../../../lua/expirable/change.lua")),
            acquire: load("acquire", include_str!("../../../lua/expirable/acquire.lua")),
            release: load("release", include_str!("../../../lua/expirable/release.lua")),
            renew: load("renew", include_str!("../../../lua/expirable/renew.lua")),
            delete: load("delete", "return redis.call('del', unpack(KEYS))"),
            expire: load(
                "expire",
                "for _, key in ipairs(KEYS) do redis.call('pexpire', key, ARGV[1]) end return 1",
            ),
            theirs: None,
            known: Known::default(),
        }
    }

    /// What goes to the server for this call, which is made now.
    pub(super) fn invocation(&self, call: &Call, now: Ms) -> Invocation {
        if let Some(ahead) = call.theirs {
            let theirs = self.theirs.as_ref().expect("Redisson's scripts");
            return theirs.invocation(call, now + ahead);
        }
        let id = |operation| text(format!("{}:{operation}", call.who));
        let own = id(call.operation);
        let ids: Vec<Arg> = call.permits().ids().iter().map(text).collect();
        let n = text(ids.len());
        let (not_after, kept) = (Arg::NotAfter(call.not_after), Arg::Lease(KEPT));
        let [channel, publish] = [text(CHANNEL), text(PUBLISH)];
        let all = [NAME, REQUESTS, OUT];
        let number_and_out = |both| if both { vec![NAME, OUT] } else { vec![NAME] };
        let settled: Vec<_> = call.settled.iter().map(|operation| id(*operation)).collect();
        let (script, keys, args) = match call.verb {
            Verb::Set(number) => {
                let args = vec![own, text(number), not_after, kept, channel, publish, text(number)];
                (&self.set, all.to_vec(), [args, settled].concat())
            }
            Verb::By(number) | Verb::To(number) => {
                let how = text(if matches!(call.verb, Verb::By(_)) { "by" } else { "to" });
                let args = vec![own, text(number), not_after, kept, channel, publish, how];
                (&self.change, all.to_vec(), [args, settled].concat())
            }
            Verb::Acquire { lease, .. } => {
                let lease = Arg::Lease(lease.expect("ours"));
                let args = vec![own, lease, not_after, channel, publish, n];
                (&self.acquire, all.to_vec(), [args, ids, settled].concat())
            }
            Verb::Release { permits, withdraws } => {
                let withdrawn = if withdraws { id(permits.of) } else { text("") };
                let args = vec![own, withdrawn, kept, channel, publish, text("each"), n];
                (&self.release, all.to_vec(), [args, ids, settled].concat())
            }
            Verb::Withdraw(_) => {
                let args = vec![text(""), own, kept, channel, publish, text("each"), n];
                (&self.release, all.to_vec(), [args, ids].concat())
            }
            Verb::Renew { lease, permits } => {
                (&self.renew, vec![OUT], vec![text(permits.ids().concat()), Arg::Lease(lease)])
            }
            Verb::Delete { both } => (&self.delete, number_and_out(both), vec![]),
            Verb::Expire { ttl, both } => {
                (&self.expire, number_and_out(both), vec![Arg::Lease(ttl)])
            }
            Verb::SetLease { .. } | Verb::Count => unreachable!("Redisson's calls"),
        };
        let keys = keys.into_iter().map(String::from).collect();
        Invocation { script: script.clone(), keys, args }
    }
}
