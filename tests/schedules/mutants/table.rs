//! The table of all mutants, script by script.

use std::collections::BTreeMap;

use super::judges::Sort;
use super::mutate::Mutant;
use super::survivors::Reason;

/// What became of a mutant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Caught(Sort),
    Listed(Reason),
    Survived,
}

#[derive(Debug, Default, Clone, Copy)]
struct Row {
    all: usize,
    examples: usize,
    schedules: usize,
    with_redisson: usize,
    elsewhere: usize,
    equivalent: usize,
    survived: usize,
}

impl Row {
    fn add(&mut self, fate: Fate) {
        self.all += 1;
        *match fate {
            Fate::Caught(Sort::Examples) => &mut self.examples,
            Fate::Caught(Sort::Schedules) => &mut self.schedules,
            Fate::Caught(Sort::WithRedisson) => &mut self.with_redisson,
            Fate::Listed(Reason::Elsewhere) => &mut self.elsewhere,
            Fate::Listed(Reason::Equivalent) => &mut self.equivalent,
            Fate::Listed(Reason::Open) | Fate::Survived => &mut self.survived,
        } += 1;
    }

    fn caught(&self) -> usize {
        self.examples + self.schedules + self.with_redisson
    }

    fn line(&self, name: &str) -> String {
        let share = 100.0 * self.caught() as f64 / (self.all - self.equivalent).max(1) as f64;
        format!(
            "{name:<24} {:>7} {:>8} {:>9} {:>8} {:>9} {:>10} {:>8} {share:>7.1} %",
            self.all,
            self.examples,
            self.schedules,
            self.with_redisson,
            self.elsewhere,
            self.equivalent,
            self.survived,
        )
    }
}

/// Of each script how many mutants there are and what caught them. The share is of those that are not equivalent, and counts only
/// what was caught here.
pub(super) fn table(mutants: &[Mutant], fates: &[Fate]) -> String {
    let mut rows = BTreeMap::<&str, Row>::new();
    let mut total = Row::default();
    for (mutant, fate) in mutants.iter().zip(fates) {
        rows.entry(&mutant.script).or_default().add(*fate);
        total.add(*fate);
    }
    let head = format!(
        "{:<24} {:>7} {:>8} {:>9} {:>8} {:>9} {:>10} {:>8} {:>9}",
        "script",
        "mutants",
        "examples",
        "schedules",
        "redisson",
        "elsewhere",
        "equivalent",
        "survived",
        "caught"
    );
    let lines = rows.into_iter().map(|(script, row)| row.line(script));
    [head].into_iter().chain(lines).chain([total.line("all")]).collect::<Vec<_>>().join("\n")
}
