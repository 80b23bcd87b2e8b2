//! What is put to the test: the plain reentrant lock, and the fenced one.

use super::Reentrant;
use super::overheard::Overheard;
use super::rules::{Rule, Rules};
use super::scripts::{LOCK, Scripts, TOKEN};
use crate::fuzz::Subject;
use crate::sim::Server;

/// The reentrant lock.
pub(crate) struct Plain {
    rules: Rules,
    scripts: Scripts,
}

/// The fenced lock: the same, and each grant has a token.
pub(crate) struct Fenced(Plain);

impl Plain {
    fn new(server: &mut Server, without: Option<Rule>, fenced: bool) -> Self {
        let rules = Rules::new(without);
        Self { rules, scripts: Scripts::load(server, rules, fenced) }
    }

    /// Redisson's threads take part.
    pub(crate) fn invite(&mut self, theirs: Overheard) {
        self.scripts.theirs = Some(theirs);
    }
}

impl Fenced {
    /// Redisson's threads take part.
    pub(crate) fn invite(&mut self, theirs: Overheard) {
        self.0.invite(theirs);
    }
}

impl Subject for Plain {
    type Model = Reentrant;
    type Rule = Rule;
    const WATCHED: &[&str] = &[LOCK];
    const SCHEDULES: u64 = 5_000;

    fn load(server: &mut Server, without: Option<Rule>) -> Self {
        Self::new(server, without, false)
    }

    fn model(&self) -> Reentrant {
        Reentrant::new(self.rules, &self.scripts)
    }
}

impl Subject for Fenced {
    type Model = Reentrant;
    type Rule = Rule;
    const WATCHED: &[&str] = &[LOCK, TOKEN];
    const SCHEDULES: u64 = 1_500;

    fn load(server: &mut Server, without: Option<Rule>) -> Self {
        Self(Plain::new(server, without, true))
    }

    fn model(&self) -> Reentrant {
        self.0.model()
    }
}
