//! Figures of a round.

use std::collections::{BTreeMap, BTreeSet};

use judge::{Answer, Call, Check, Class, History, Nanos, Toll, Verdict, What};

use crate::facts::Facts;
use crate::options::Options;

#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Operations by what was asked for.
    pub(crate) operations: BTreeMap<&'static str, usize>,
    /// How long acquisitions waited after the last fault, by language; in order.
    pub(crate) waits: BTreeMap<&'static str, Vec<Nanos>>,
    /// From the end of the last fault to the first turn, and to everybody's.
    pub(crate) first_turn: Option<Nanos>,
    pub(crate) everybody: Option<Nanos>,
    /// Processes that were alive then, and had none.
    pub(crate) without_turn: Vec<String>,
    /// How long each overlap of a class was.
    pub(crate) violations: usize,
}

impl Figures {
    pub(crate) fn of(history: &History, facts: &Facts, verdict: &Verdict) -> Self {
        let mut figures = Self { violations: verdict.violations().count(), ..Self::default() };
        let mut asked: BTreeMap<(&str, u64), Nanos> = BTreeMap::new();
        let mut turns: BTreeMap<&str, Nanos> = BTreeMap::new();
        let mut alive: BTreeSet<&str> = BTreeSet::new();
        for event in &history.events {
            let process = event.process.as_str();
            match &event.what {
                What::Start { .. } => drop(alive.insert(process)),
                What::End if event.at <= facts.healed => drop(alive.remove(process)),
                What::Invoke { op, call } => {
                    *figures.operations.entry(name_of(call)).or_default() += 1;
                    if matches!(call, Call::Acquire { .. }) {
                        asked.insert((process, *op), event.at);
                    }
                }
                What::Answer { op, answer: Answer::Granted { .. } } if event.at > facts.healed => {
                    turns.entry(process).or_insert(event.at);
                    if let Some(since) = asked.get(&(process, *op)).filter(|at| **at > facts.healed)
                    {
                        let language = if process.starts_with("java") { "Java" } else { "Rust" };
                        figures.waits.entry(language).or_default().push(event.at - since);
                    }
                }
                _ => {}
            }
        }
        figures.waits.values_mut().for_each(|waits| waits.sort_unstable());
        let since_healed = |at: Nanos| at - facts.healed;
        figures.first_turn = turns.values().copied().min().map(since_healed);
        figures.everybody = turns.values().copied().max().map(since_healed);
        let without = alive.iter().filter(|process| !turns.contains_key(*process));
        figures.without_turn = without.map(|process| (*process).to_owned()).collect();
        figures
    }

    /// Each line has a name and what there is to say.
    pub(crate) fn lines(
        &self,
        options: &Options,
        facts: &Facts,
        verdict: &Verdict,
    ) -> Vec<(String, String)> {
        let figures = &verdict.figures;
        let line = |name: &str, text: String| (name.to_owned(), text);
        let counted = |counts: &mut dyn Iterator<Item = (String, usize)>| {
            let counts: Vec<_> = counts
                .filter(|it| it.1 > 0)
                .map(|(name, count)| format!("{count} {name}"))
                .collect();
            counts.join(", ")
        };
        let mut lines = vec![
            line(
                "round",
                format!(
                    "{}, seed {}, {} s, {} Rust, {} Java, replicas {:?}",
                    options.topology,
                    options.seed,
                    options.seconds,
                    options.rust,
                    options.java,
                    options.replicas
                ),
            ),
            line("violations", self.violations.to_string()),
            line("faults", counted(&mut facts.faults.iter().cloned())),
            line(
                "operations",
                format!(
                    "{}: {}; of unknown result {}",
                    figures.operations,
                    counted(&mut self.operations.iter().map(|(name, it)| ((*name).into(), *it))),
                    figures.unknown
                ),
            ),
            line(
                "losses told",
                counted(&mut figures.losses.iter().map(|(why, it)| (format!("{why:?}"), *it))),
            ),
        ];
        if let Some(lead) = figures.least_lead {
            lines.push(line("least lead", format!("{:.1} ms", lead as f64 / 1e6)));
        }
        for ((class, check), toll) in &figures.tolls {
            lines.push(line("overlap", toll_text(*class, *check, toll)));
        }
        for (language, waits) in &self.waits {
            let rank = |percent: usize| waits[(waits.len() * percent).div_ceil(100).max(1) - 1];
            lines.push(line(
                "calm waits",
                format!(
                    "{language}: {}, p50 {}, p99 {}, longest {}",
                    waits.len(),
                    ms(rank(50)),
                    ms(rank(99)),
                    ms(rank(100))
                ),
            ));
        }
        if let (Some(first), Some(everybody)) = (self.first_turn, self.everybody) {
            let text = format!("first turn {}, everybody's {}", ms(first), ms(everybody));
            lines.push(line("after healing", text));
        }
        if !self.without_turn.is_empty() {
            lines.push(line("without turn", self.without_turn.join(", ")));
        }
        let machine = format!(
            "moments known within {}, log read after {}, timers late by {}, stopped {} times",
            ms(facts.vague),
            ms(facts.lag),
            ms(facts.lateness),
            facts.stops
        );
        lines.push(line("machine", machine));
        lines
    }
}

pub(crate) fn toll_text(class: Class, check: Check, toll: &Toll) -> String {
    let bound = toll.bound.map(|bound| format!(" of {} allowed", ms(bound))).unwrap_or_default();
    format!("{class}, {check}: {}, longest {}{bound}", toll.count, ms(toll.longest))
}

pub(crate) fn ms(nanos: Nanos) -> String {
    format!("{:.1} ms", nanos as f64 / 1e6)
}

fn name_of(call: &Call) -> &'static str {
    match call {
        Call::Acquire { .. } => "acquire",
        Call::Unlock { .. } => "unlock",
        Call::Check { .. } => "check",
        Call::Force { .. } => "force",
        Call::IsLocked { .. } => "is-locked",
        Call::Inspect { .. } => "inspect",
        Call::Remaining { .. } => "remaining",
        Call::Token { .. } => "token",
        Call::Use { .. } => "use",
        Call::Connect => "connect",
        Call::Close => "close",
    }
}
