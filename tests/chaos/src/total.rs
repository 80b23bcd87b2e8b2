//! Figures of many rounds.

use std::collections::BTreeMap;
use std::fmt;

use judge::{Check, Class, Nanos, Toll};

use crate::figures::{ms, toll_text};
use crate::verdict::Judged;

/// Many rounds together.
#[derive(Debug, Default)]
pub(crate) struct Total {
    rounds: usize,
    clean: usize,
    violations: usize,
    operations: usize,
    grants: usize,
    faults: usize,
    everybody: Nanos,
    least_lead: Option<i64>,
    tolls: BTreeMap<(Class, Check), Toll>,
}

impl Total {
    pub(crate) fn add(&mut self, judged: &Judged) {
        self.rounds += 1;
        self.clean += usize::from(judged.is_clean());
        self.violations += judged.figures.violations;
        self.faults += judged.facts.faults.iter().map(|(_, count)| count).sum::<usize>();
        self.everybody = self.everybody.max(judged.figures.everybody.unwrap_or(0));
        let figures = &judged.verdict.figures;
        self.operations += figures.operations;
        self.grants += figures.grants;
        self.least_lead = self.least_lead.into_iter().chain(figures.least_lead).min();
        for (key, toll) in &figures.tolls {
            let all = self.tolls.entry(*key).or_default();
            all.count += toll.count;
            if toll.longest >= all.longest {
                (all.longest, all.bound) = (toll.longest, toll.bound);
            }
        }
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rounds, clean, violations, operations, grants, faults, .. } = self;
        writeln!(f, "{rounds} rounds, {clean} clean; {violations} violations")?;
        writeln!(f, "{operations} operations, {grants} grants, {faults} faults")?;
        writeln!(f, "everybody's turn after healing: {} at most", ms(self.everybody))?;
        if let Some(lead) = self.least_lead {
            writeln!(f, "least lead: {:.1} ms", lead as f64 / 1e6)?;
        }
        for ((class, check), toll) in &self.tolls {
            writeln!(f, "{}", toll_text(*class, *check, toll))?;
        }
        Ok(())
    }
}
