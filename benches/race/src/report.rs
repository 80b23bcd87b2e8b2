//! The report, as Markdown.

use std::fmt;

use crate::plot::Chart;

/// A table and its plots.
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) note: String,
    /// That of the names first.
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<(String, Vec<String>)>,
    pub(crate) charts: Vec<Chart>,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = table(&self.header, &self.rows, "--:");
        write!(f, "## {}\n\n{}\n\n{table}", self.title, self.note)
    }
}

pub(crate) fn document(head: &str, contestants: &str, sections: &[Section]) -> String {
    let sections: Vec<_> = sections.iter().map(ToString::to_string).collect();
    format!("# Side by side\n\n{head}\n\n{contestants}\n{}", sections.join("\n"))
}

/// Names to the left; the others are aligned as said.
pub(crate) fn table(header: &[String], rows: &[(String, Vec<String>)], others: &str) -> String {
    let line = |cells: &mut dyn Iterator<Item = &String>| {
        format!("| {} |\n", cells.map(String::as_str).collect::<Vec<_>>().join(" | "))
    };
    let mut table = line(&mut header.iter());
    table += &format!("|:--|{}\n", format!("{others}|").repeat(header.len() - 1));
    for (name, cells) in rows {
        table += &line(&mut std::iter::once(name).chain(cells));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let text = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let rows = [("a".to_owned(), text(&["1", "2"]))];
        let table = table(&text(&["", "x", "y"]), &rows, "--:");
        assert_eq!(table, "|  | x | y |\n|:--|--:|--:|\n| a | 1 | 2 |\n");
    }
}
