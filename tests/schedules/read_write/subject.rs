//! What is put to the test: the read/write lock, and who takes part.

use super::ReadWrite;
use super::rules::{Rule, Rules};
use super::scripts::{CHANNEL, LOCK, Scripts, TIMEOUTS};
use crate::fuzz::Subject;
use crate::reentrant::Overheard;
use crate::sim::Server;

/// The read/write lock.
pub(crate) struct BothSides {
    rules: Rules,
    scripts: Scripts,
    alone: bool,
}

impl BothSides {
    /// Redisson's threads take part; the first of their scripts are for reading, the second for writing.
    pub(crate) fn invite(&mut self, theirs: [Overheard; 2]) {
        self.scripts.theirs = Some(theirs);
    }

    /// Nobody of ours takes part, and Redisson is judged as we are.
    pub(crate) fn leave_alone(&mut self) {
        self.alone = true;
    }
}

impl Subject for BothSides {
    type Model = ReadWrite;
    type Rule = Rule;
    const WATCHED: &[&str] = &[LOCK, TIMEOUTS, CHANNEL];
    const SCHEDULES: u64 = 2_000;

    fn load(server: &mut Server, without: Option<Rule>) -> Self {
        let rules = Rules::new(without);
        Self { rules, scripts: Scripts::load(server, rules), alone: false }
    }

    fn model(&self) -> ReadWrite {
        ReadWrite::new(self.rules, &self.scripts, self.alone)
    }
}
