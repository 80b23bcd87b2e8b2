//! Tables and percentiles.

use std::fmt::Write;

/// Of a hundred, in ascending order; 0 if there is none.
#[must_use]
pub fn percentile(ascending: &[u64], percent: usize) -> u64 {
    let rank = (ascending.len() * percent).div_ceil(100);
    rank.checked_sub(1).and_then(|at| ascending.get(at)).copied().unwrap_or(0)
}

/// Microseconds, for people.
#[must_use]
pub fn time(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", micros as f64 / 1e3),
        10_000..1_000_000 => format!("{} ms", micros / 1_000),
        _ => format!("{:.2} s", micros as f64 / 1e6),
    }
}

/// A table in Markdown. The first column is text, the others are figures.
#[must_use]
pub fn table<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count(), 3]).max().unwrap_or(0)
    };
    let line = |cells: [&str; N]| {
        let mut line = String::from("|");
        for (column, cell) in cells.into_iter().enumerate() {
            let space = " ".repeat(width(column) - cell.chars().count());
            let (left, right) = if column == 0 { ("", space) } else { (&*space, String::new()) };
            write!(line, " {left}{cell}{right} |").expect("a string to grow");
        }
        line + "\n"
    };
    let mut table = line(header);
    let rule = |column| match column {
        0 => format!("|{}", "-".repeat(width(column) + 2)),
        _ => format!("|{}:", "-".repeat(width(column) + 1)),
    };
    table.extend((0..N).map(rule));
    table.push_str("|\n");
    table.extend(rows.iter().map(|row| line(row.each_ref().map(String::as_str))));
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!([50, 99, 100].map(|percent| percentile(&values, percent)), [100, 198, 200]);
        assert_eq!(percentile(&[], 99), 0);
    }

    #[test]
    fn figures_stand_to_the_right() {
        let table = table(["", "n"], &[["a".into(), "12345".into()], ["long".into(), "1".into()]]);
        assert_eq!(
            table,
            "|      |     n |\n|------|------:|\n| a    | 12345 |\n| long |     1 |\n"
        );
    }
}
