//! A table whose rows take turns.

use std::{ops::Range, time::Duration};

use futures::future::join_all;
use harness::{Inspector, Load, LoadReport, OwnerReport, Party, RedisServer, redis::cmd};

use crate::{
    contestant::Contestant,
    figures::{median, readable},
    meter::{Meter, Usage},
    plot::{Bar, Chart},
    report::Section,
};

pub(crate) struct Table {
    pub(crate) title: String,
    pub(crate) note: String,
    pub(crate) columns: &'static [Column],
    pub(crate) time: Duration,
    /// Those that count; one before them does not.
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
}

pub(crate) struct Column {
    name: &'static str,
    /// In one round; `None` where there is nothing to tell.
    figure: fn(&Round) -> Option<f64>,
    /// It is told as so many times what the same round had of this one.
    beside: Option<Contestant>,
    /// From the figures of the rounds to the one that is told.
    among_rounds: fn(Vec<f64>) -> f64,
    plotted: bool,
}

impl Column {
    pub(crate) const fn new(name: &'static str, figure: fn(&Round) -> Option<f64>) -> Self {
        Self { name, figure, beside: None, among_rounds: median, plotted: false }
    }

    pub(crate) const fn plotted(name: &'static str, figure: fn(&Round) -> Option<f64>) -> Self {
        Self { plotted: true, ..Self::new(name, figure) }
    }

    /// The largest of all rounds, in place of the median.
    pub(crate) const fn longest(name: &'static str, figure: fn(&Round) -> Option<f64>) -> Self {
        Self { among_rounds: largest, ..Self::new(name, figure) }
    }

    /// Of rounds that follow each other closely: what slows one down slows the other down too.
    pub(crate) const fn beside(
        contestant: Contestant,
        name: &'static str,
        figure: fn(&Round) -> Option<f64>,
    ) -> Self {
        Self { beside: Some(contestant), ..Self::new(name, figure) }
    }
}

/// Owners in one or more processes who run together.
pub(crate) struct Row {
    pub(crate) parties: Vec<Party>,
    pub(crate) load: Load,
    pub(crate) lines: Vec<Line>,
    /// The key that writers count in, and how many of them did, the round before the first one included.
    counter: Option<(String, u64)>,
    rounds: Vec<(Vec<LoadReport>, Usage)>,
}

/// What is told of a row, or of some of its processes.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) share: Range<usize>,
    /// Of mixed processes nobody's.
    pub(crate) contestant: Option<Contestant>,
}

/// What a figure is made of.
pub(crate) struct Round<'a> {
    pub(crate) reports: &'a [LoadReport],
    /// Of all parties of the row.
    pub(crate) usage: &'a Usage,
    pub(crate) contestant: Option<Contestant>,
    pub(crate) time: Duration,
}

impl Row {
    pub(crate) fn new(parties: Vec<Party>, load: Load, lines: Vec<Line>) -> Self {
        Self { parties, load, lines, counter: None, rounds: Vec::new() }
    }

    /// Of a load that counts in this key: it is checked that no write is lost and no reader sees one.
    pub(crate) fn counting(self, key: Option<String>) -> Self {
        Self { counter: key.map(|key| (key, 0)), ..self }
    }

    async fn run(&mut self, meter: &mut Meter) -> (Vec<LoadReport>, Usage) {
        let before = meter.read();
        let reports = join_all(self.parties.iter().map(|party| party.run(&self.load))).await;
        if let Some((key, counted)) = &mut self.counter {
            *counted += reports.iter().map(|report| report.counted).sum::<u64>();
            let torn: u64 = reports.iter().map(|report| report.torn).sum();
            assert_eq!(torn, 0, "{key}: somebody wrote beside a reader");
        }
        (reports, meter.read().since(&before))
    }

    fn check(&self, inspector: &Inspector) {
        if let Some((key, counted)) = &self.counter {
            let count: u64 = inspector.query(cmd("GET").arg(key));
            assert_eq!(*counted, count, "{key}: writes were lost");
        }
    }
}

impl Table {
    pub(crate) async fn run(mut self, server: &RedisServer) -> Section {
        eprintln!("{} …", self.title);
        let mut meter = Meter::new(server.client());
        for round in 0..=self.rounds {
            // Nobody always comes behind the same one.
            for turn in 0..self.rows.len() {
                let at = (turn + round) % self.rows.len();
                let row = &mut self.rows[at];
                let outcome = row.run(&mut meter).await;
                if round > 0 {
                    row.rounds.push(outcome);
                }
            }
        }
        let inspector = server.inspector();
        self.rows.iter().for_each(|row| row.check(&inspector));
        self.section()
    }

    fn section(&self) -> Section {
        let lines: Vec<_> = self
            .rows
            .iter()
            .flat_map(|row| row.lines.iter().map(move |line| (row, line)))
            .collect();
        let figures: Vec<Vec<Option<f64>>> = self
            .columns
            .iter()
            .map(|column| lines.iter().map(|(row, line)| self.figure(column, row, line)).collect())
            .collect();
        let rows = lines.iter().enumerate().map(|(at, (row, line))| {
            let cells = figures.iter().map(|column| column[at].map_or("–".into(), readable));
            (line.name.clone() + &errors(row), cells.collect())
        });
        let charts = self.columns.iter().zip(&figures).filter(|(column, _)| column.plotted).map(
            |(column, figures)| Chart {
                title: format!("{}: {}", self.title, column.name),
                bars: lines
                    .iter()
                    .zip(figures)
                    .filter_map(|((_, line), value)| {
                        Some(Bar {
                            label: line.name.clone(),
                            value: (*value)?,
                            ours: line.contestant.is_some_and(Contestant::is_ours),
                        })
                    })
                    .collect(),
            },
        );
        Section {
            title: self.title.clone(),
            note: self.note.clone(),
            header: std::iter::once("")
                .chain(self.columns.iter().map(|c| c.name))
                .map(str::to_owned)
                .collect(),
            rows: rows.collect(),
            charts: charts.collect(),
        }
    }

    fn figure(&self, column: &Column, row: &Row, line: &Line) -> Option<f64> {
        let mut figures = self.figures(column, row, line)?;
        if let Some(contestant) = column.beside {
            let is_it = |line: &&Line| line.contestant == Some(contestant);
            let other = self.rows.iter().find_map(|row| Some((row, row.lines.iter().find(is_it)?)));
            let (row, line) = other?;
            let others = self.figures(column, row, line)?;
            figures.iter_mut().zip(others).for_each(|(figure, other)| *figure /= other);
        }
        Some((column.among_rounds)(figures))
    }

    /// Round by round.
    fn figures(&self, column: &Column, row: &Row, line: &Line) -> Option<Vec<f64>> {
        let figures = row.rounds.iter().map(|(reports, usage)| {
            let reports = &reports[line.share.clone()];
            (column.figure)(&Round { reports, usage, contestant: line.contestant, time: self.time })
        });
        figures.collect()
    }
}

fn errors(row: &Row) -> String {
    let errors: u64 =
        row.rounds.iter().flat_map(|(reports, _)| reports).map(|report| report.errors).sum();
    if errors == 0 { String::new() } else { format!(" ({errors} errors)") }
}

impl Round<'_> {
    pub(crate) fn acquired(&self) -> f64 {
        self.reports.iter().map(|report| report.acquired).sum::<u64>() as f64
    }

    pub(crate) fn per_second(&self) -> Option<f64> {
        Some(self.acquired() / self.time.as_secs_f64())
    }

    /// µs of the clients.
    pub(crate) fn client_cpu(&self) -> Option<f64> {
        let used: u64 = self.reports.iter().map(|report| report.cpu_us).sum();
        Some(used as f64 / self.acquired().max(1.0))
    }

    /// µs of the server.
    pub(crate) fn server_cpu(&self) -> Option<f64> {
        Some(self.usage.cpu.as_secs_f64() * 1e6 / self.acquired().max(1.0))
    }

    pub(crate) fn commands(&self) -> Option<f64> {
        Some(self.contestant?.commands(self.usage) / self.acquired().max(1.0))
    }

    /// What the usual owner waited, half of his times.
    pub(crate) fn usual_owner(&self) -> Option<f64> {
        Some(median(self.owners().map(|owner| owner.acquire_us.p50).collect()))
    }

    /// The 99th percentile of the owner in whose case it is longest.
    pub(crate) fn worst_owner(&self) -> Option<f64> {
        self.owners().map(|owner| owner.acquire_us.p99).max_by(f64::total_cmp)
    }

    fn owners(&self) -> impl Iterator<Item = &OwnerReport> {
        self.reports.iter().flat_map(|report| &report.per_owner)
    }

    /// Of the slowest process.
    pub(crate) fn worst(&self, figure: fn(&LoadReport) -> f64) -> Option<f64> {
        self.reports.iter().map(figure).max_by(f64::total_cmp)
    }
}

fn largest(values: Vec<f64>) -> f64 {
    values.into_iter().fold(0.0, f64::max)
}

/// The smallest as a share of the largest.
pub(crate) fn evenness(values: impl Iterator<Item = u64> + Clone) -> Option<f64> {
    Some(values.clone().min()? as f64 / values.max()?.max(1) as f64)
}
