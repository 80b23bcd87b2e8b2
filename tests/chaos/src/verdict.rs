//! A recorded round, read and judged.

use std::fs;
use std::path::Path;

use judge::{Bounds, History, Verdict, Witness};
use serde::de::DeserializeOwned;

use crate::facts::Facts;
use crate::figures::Figures;
use crate::options::{Options, Topology};

/// A round, and what the judge says of it.
#[derive(Debug)]
pub(crate) struct Judged {
    pub(crate) options: Options,
    pub(crate) facts: Facts,
    pub(crate) history: History,
    pub(crate) verdict: Verdict,
    pub(crate) figures: Figures,
}

impl Judged {
    pub(crate) fn is_clean(&self) -> bool {
        let all_had_turns = self.figures.without_turn.is_empty();
        self.verdict.is_clean() && self.facts.troubles.is_empty() && all_had_turns
    }

    /// The figures, each with a name.
    pub(crate) fn lines(&self) -> Vec<(String, String)> {
        self.figures.lines(&self.options, &self.facts, &self.verdict)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for finding in self.verdict.violations().take(10) {
            text += &finding.to_string();
        }
        for trouble in &self.facts.troubles {
            text += &format!("trouble: {trouble}\n");
        }
        for line in self.lines() {
            text += &format!("  {:<14} {}\n", line.0, line.1);
        }
        text
    }
}

/// Judges a round from its files.
pub(crate) fn judge(directory: &Path) -> Result<Judged, String> {
    let options: Options = read(directory, "options.json")?;
    let facts: Facts = read(directory, "facts.json")?;
    let bounds: Bounds = read(directory, "bounds.json")?;
    let malformed = |why: judge::Malformed| format!("{}: {why}", directory.display());
    let history = History::from_lines(&text(directory, "history.jsonl")?).map_err(malformed)?;
    let witness = Witness::from_lines(&text(directory, "witness.jsonl")?).map_err(malformed)?;
    let verdict = judge::judge(&history, Some(&witness), &bounds);
    fs::write(directory.join("verdict.txt"), verdict.to_string()).map_err(|it| it.to_string())?;
    let figures = Figures::of(&history, &facts, &verdict);
    Ok(Judged { options, facts, history, verdict, figures })
}

/// The same, and prints it. Whether no promise is broken.
pub(crate) fn judge_again(directory: &Path) -> Result<bool, String> {
    let judged = judge(directory)?;
    print!("{}", judged.text());
    Ok(judged.is_clean())
}

/// The label of the locks that the servers keep one after another.
pub(crate) fn label(topology: Topology, node: usize) -> String {
    match topology {
        // The first three are the masters, and each has the replica three behind it.
        Topology::Cluster => format!("shard{}", node % 3),
        _ => String::new(),
    }
}

fn read<T: DeserializeOwned>(directory: &Path, name: &str) -> Result<T, String> {
    serde_json::from_str(&text(directory, name)?).map_err(|error| format!("{name}: {error}"))
}

fn text(directory: &Path, name: &str) -> Result<String, String> {
    let path = directory.join(name);
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}
