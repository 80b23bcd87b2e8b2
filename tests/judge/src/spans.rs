//! [`Span`] and [`Spans`]: times, and many of them.

use crate::history::Nanos;

/// A time from one moment up to another, that other left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) from: Nanos,
    pub(crate) to: Nanos,
}

impl Span {
    pub(crate) fn length(self) -> Nanos {
        self.to.saturating_sub(self.from)
    }

    /// What both have in common, if that is more than a moment.
    pub(crate) fn overlap(self, other: Self) -> Option<Self> {
        let common = Self { from: self.from.max(other.from), to: self.to.min(other.to) };
        (common.from < common.to).then_some(common)
    }

    /// Its pieces outside of the others, which are in order and apart.
    pub(crate) fn without(self, others: &[Self]) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut from = self.from;
        for other in others {
            if other.to <= from {
                continue;
            }
            if other.from >= self.to {
                break;
            }
            pieces.push(Self { from, to: other.from });
            from = other.to;
        }
        pieces.push(Self { from, to: self.to });
        pieces.retain(|piece| piece.from < piece.to);
        pieces
    }
}

/// Spans of things with a number, which may overlap, to be asked for those of a time.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    /// By their begin.
    spans: Vec<(Span, usize)>,
    /// The latest end up to and with each.
    latest: Vec<Nanos>,
}

impl Spans {
    pub(crate) fn new(mut spans: Vec<(Span, usize)>) -> Self {
        spans.sort();
        let mut latest = Vec::with_capacity(spans.len());
        let mut so_far = 0;
        for (span, _) in &spans {
            so_far = so_far.max(span.to);
            latest.push(so_far);
        }
        Self { spans, latest }
    }

    /// Those that have a moment in common with the span, both ends included, the latest first.
    pub(crate) fn touching(&self, span: Span) -> impl Iterator<Item = (Span, usize)> + '_ {
        let begun = self.spans.partition_point(|(other, _)| other.from <= span.to);
        let within = (0..begun).rev().take_while(move |at| self.latest[*at] >= span.from);
        within.map(|at| self.spans[at]).filter(move |(other, _)| other.to >= span.from)
    }
}
