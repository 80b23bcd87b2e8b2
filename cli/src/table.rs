//! Tables of text.

/// The most characters of a cell: each row of a table is as wide as its widest.
const WIDEST: usize = 200;

/// Lays rows out in columns. The last column is not padded.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<_> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            text.push_str(cell);
            if column + 1 < row.len() {
                let pad = widths[column] - cell.chars().count() + 2;
                text.extend(std::iter::repeat_n(' ', pad));
            }
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    text
}

/// Makes a row of texts. What is longer than a cell may be ends with `…`.
pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(|cell| cut(printable(cell))).to_vec()
}

fn cut(mut cell: String) -> String {
    if cell.chars().nth(WIDEST).is_some() {
        let end = cell.char_indices().nth(WIDEST - 1).map_or(cell.len(), |(at, _)| at);
        cell.truncate(end);
        cell.push('…');
    }
    cell
}

/// The text without what a terminal would obey.
pub(crate) fn printable(text: &str) -> String {
    let obeyed = |c: char| c.is_control() || is_direction(c);
    let shown = |c: char| if obeyed(c) { c.escape_default().collect() } else { c.to_string() };
    text.chars().map(shown).collect()
}

/// Whether it sets the direction of the text after it, which is then shown in another order.
fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [row(["NAME", "TTL", "X"]), row(["a-long-name", "1s", "y z"])];
        assert_eq!(table(&rows), "NAME         TTL  X\na-long-name  1s   y z\n");
    }

    #[test]
    fn a_long_cell_is_cut() {
        let cells = row([&"ß".repeat(200), &"ß".repeat(201), &"\n".repeat(100_000), ""]);
        assert_eq!(cells[0], "ß".repeat(200));
        assert_eq!(cells[1], format!("{}…", "ß".repeat(199)));
        assert_eq!(cells[2].chars().count(), 200);
        let rows = [row([&"L".repeat(100_000), "x"]), row(["short", "y"])];
        assert!(table(&rows).lines().all(|line| line.chars().count() <= 203));
    }

    #[test]
    fn a_name_cannot_command_the_terminal() {
        assert_eq!(printable("a\u{1b}[2Jb\nc"), "a\\u{1b}[2Jb\\nc");
        for mark in ['\u{200e}', '\u{200f}', '\u{202a}', '\u{202e}', '\u{2066}', '\u{2069}'] {
            let escaped = format!("a{}b", mark.escape_default());
            assert_eq!(printable(&format!("a{mark}b")), escaped);
        }
        assert_eq!(printable("Straße 東京"), "Straße 東京");
    }
}
