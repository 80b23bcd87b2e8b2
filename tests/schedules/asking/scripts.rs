//! The scripts: as shipped, and those that leave a rule out.

use super::call::{Call, Hold};
use super::rules::{Rule, Rules};
use crate::PUBLISH;
use crate::model::{Arg, Change, Invocation, Ms, Script, Server, text};

/// How long the server keeps a question.
pub(super) const KEPT: Ms = 60;
/// The questions, and their channel.
pub(super) const QUESTIONS: &str = "redisson_lock_asked:{lock}";

const CHANGES: [Change<Rule>; 4] = [
    (Rule::AsksEach, "ask", "for n = 4,", "for n = 5,"),
    (Rule::ForgetsTheOld, "ask", "redis.call('zremrangebyscore', KEYS[1], '-inf',", "tostring("),
    (Rule::Expires, "ask", "redis.call('pexpire', KEYS[1], ARGV[1])", ""),
    (Rule::Tells, "ask", "redis.call(ARGV[3], ARGV[2], '1')", "0"),
];

/// Both, loaded.
#[derive(Debug, Clone)]
pub(crate) struct Scripts {
    ask: Script,
    asked: Script,
    /// Whether the id of a client is the id of all its holds.
    one_id: bool,
}

impl Scripts {
    pub(super) fn load(server: &mut Server, rules: Rules) -> Self {
        let mut load = |name: &str, text: &str| server.load(&rules.apply(&CHANGES, name, text));
        Self {
            ask: load("ask", include_str!("../../../lua/asking/ask.lua")),
            asked: load("asked", include_str!("../../../lua/asking/asked.lua")),
            one_id: !rules.keep(Rule::OneIdAHold),
        }
    }

    /// What goes to the server for this call.
    pub(super) fn invocation(&self, call: &Call) -> Invocation {
        let id = |hold: &Hold| match self.one_id {
            true => text(hold.owner),
            false => text(hold),
        };
        let (script, args) = match call {
            Call::Ask(holds) => {
                let head = [Arg::Lease(KEPT), text(QUESTIONS), text(PUBLISH)];
                (&self.ask, head.into_iter().chain(holds.iter().map(id)).collect())
            }
            Call::Read(hold) => (&self.asked, vec![id(hold)]),
        };
        Invocation { script: script.clone(), keys: vec![QUESTIONS.into()], args }
    }
}
