//! Questions to holders: three clients hold and read whether they were asked, and somebody asks whoever holds.
//!
//! Questions come late, twice or never. The judge knows when a copy of a question to each hold has run. Redisson has nothing of
//! the sort: its clients take no part.

mod call;
mod rules;
mod scripts;
mod tests;

use std::collections::BTreeMap;

use harness::RedisServer;
use harness::redis::Value;

use crate::clients::Name;
use crate::fuzz::Fuzzed;
use crate::model::{self, Closing, Kind, Model, Ms, REAL_MS_PER_MS, Server, StepId};
use call::{Action, Call, Hold};
use rules::{Rule, Rules};
use scripts::{KEPT, QUESTIONS, Scripts};

type World<'s> = model::World<'s, Call>;

/// The model.
#[derive(Debug)]
pub(crate) struct Asking {
    scripts: Scripts,
    /// The hold of each client, if it has one.
    clients: BTreeMap<Name, Option<Hold>>,
    last_question: Option<Vec<Hold>>,
    /// When a question to it has run last.
    asked: BTreeMap<Hold, Ms>,
}

impl Asking {
    fn holds(&self) -> Vec<Hold> {
        self.clients.values().copied().flatten().collect()
    }

    /// The call that an action is, of those that are calls and can be made now.
    fn call(&self, action: Action) -> Option<Call> {
        match action {
            Action::Ask => Some(self.holds()).filter(|holds| !holds.is_empty()).map(Call::Ask),
            Action::AskAgain => self.last_question.clone().map(Call::Ask),
            Action::Read(who) => self.clients[&who].map(Call::Read),
            Action::Begin(_) | Action::End(_) => None,
        }
    }

    fn can(&self, action: Action) -> bool {
        match action {
            Action::Begin(who) => self.clients[&who].is_none(),
            Action::End(who) => self.clients[&who].is_some(),
            _ => self.call(action).is_some(),
        }
    }

    /// A question has run: those it names are asked, others hear of it, and what is old is gone.
    fn has_asked(&mut self, holds: &[Hold], world: &mut World<'_>) {
        let now = world.now();
        self.asked.extend(holds.iter().map(|hold| (*hold, now)));
        let is_told =
            |message: &model::Message| message.channel == QUESTIONS && message.text == "1";
        if !matches!(world.server.messages(), [message] if is_told(message)) {
            let what = format!("the question is told by {:?}", world.server.messages());
            world.violation(Kind::NotWoken, what);
        }
        let Some(questions) = world.server.seen(QUESTIONS).cloned() else {
            return world.violation(Kind::Vanished, "there are no questions".into());
        };
        match questions.until {
            None => world.violation(Kind::NoTtl, "the questions never expire".into()),
            Some(until) if until != now + KEPT => {
                let what = format!("at {now} the questions are kept until {until}");
                world.violation(Kind::TtlTooLong, what);
            }
            Some(_) => {}
        }
        for (hold, asked) in questions.moments {
            if asked + KEPT as f64 <= now as f64 {
                let what = format!("{hold} was asked at {asked}, and it is {now}");
                world.violation(Kind::Orphan, what);
            }
        }
    }

    /// A holder was told that it was asked so long ago, or was not.
    fn has_read(&self, hold: Hold, answer: &Value, world: &mut World<'_>) {
        let now = world.now();
        let told = match answer {
            Value::Int(-1) => None,
            Value::Int(ago) => Some(ago.unsigned_abs() / REAL_MS_PER_MS),
            other => panic!("it was asked {other:?} ago"),
        };
        let ago = self.asked.get(&hold).map(|asked| now - asked);
        let is_forgotten = told.is_none() && ago.is_some_and(|ago| ago >= KEPT);
        if told != ago && !is_forgotten {
            let what = format!("{hold} was asked {ago:?} ago, and is told {told:?}");
            world.violation(Kind::FalseAnswer, what);
        }
    }
}

impl Model for Asking {
    type Action = Action;
    type Call = Call;

    fn choices(&self, _world: &World<'_>) -> Vec<(u32, Action)> {
        let mut choices = vec![(4, Action::Ask), (2, Action::AskAgain)];
        for who in self.clients.keys().copied() {
            choices.extend([
                (4, Action::Begin(who)),
                (2, Action::End(who)),
                (4, Action::Read(who)),
            ]);
        }
        choices.retain(|(_, action)| self.can(*action));
        choices
    }

    fn class(action: &Action) -> usize {
        action.class()
    }

    fn act(&mut self, action: &Action, world: &mut World<'_>) -> bool {
        if !self.can(*action) {
            return false;
        }
        match *action {
            Action::Begin(owner) => {
                let hold = Hold { owner, number: world.step() };
                self.clients.insert(owner, Some(hold));
            }
            Action::End(owner) => {
                self.clients.insert(owner, None);
            }
            action => {
                let call = self.call(action).expect("a call that can be made");
                if let Call::Ask(holds) = &call {
                    self.last_question = Some(holds.clone());
                }
                let invocation = self.scripts.invocation(&call);
                world.send(call, invocation);
            }
        }
        true
    }

    fn ran(&mut self, call: &Call, answer: &Value, world: &mut World<'_>) -> bool {
        match call {
            Call::Ask(holds) => self.has_asked(holds, world),
            Call::Read(hold) => self.has_read(*hold, answer, world),
        }
        false
    }

    /// What an answer says was judged when its copy ran.
    fn answered(
        &mut self,
        _name: StepId,
        _sent: Ms,
        _call: &Call,
        _answer: &Value,
        _world: &mut World<'_>,
    ) {
    }

    fn alarm(&self) -> Option<Ms> {
        None
    }

    fn ring(&mut self, _world: &mut World<'_>) {}

    fn expired(&mut self, _keys: &[String], _world: &mut World<'_>) {}

    fn check(&self, _world: &mut World<'_>) {}

    fn closing(&self, _world: &World<'_>) -> Option<Closing<Action>> {
        let hold = self.holds().into_iter().next()?;
        Some(Closing::Act(Action::End(hold.owner)))
    }

    /// The questions expire by themselves.
    fn owed(&self, world: &World<'_>) -> Option<Closing<Action>> {
        world.server.seen(QUESTIONS)?.until.map(Closing::Wait)
    }

    /// A late question makes the key anew, which again expires.
    fn may_stay(&self, _key: &str, _world: &World<'_>) -> bool {
        true
    }
}

impl Fuzzed for Asking {
    type Model = Self;
    type Rule = Rule;
    type Scripts = Scripts;

    const SCHEDULES: u64 = 1_000;
    const WATCHED: &[&str] = &[QUESTIONS];

    fn load(server: &mut Server, rules: Rules) -> Scripts {
        Scripts::load(server, rules)
    }

    fn invite_redisson(_: &mut Scripts, _: &RedisServer, _: &str) -> bool {
        unreachable!("Redisson asks nobody")
    }

    fn model(_: Rules, scripts: &Scripts) -> Self {
        Self {
            scripts: scripts.clone(),
            clients: "ABC".chars().map(|who| (who, None)).collect(),
            last_question: None,
            asked: BTreeMap::new(),
        }
    }
}
