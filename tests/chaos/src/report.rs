//! The report of a round: one HTML file that needs nothing else.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::timeline::{self, escape};
use crate::verdict::{self, Judged};

const STYLE: &str = "body{font-family:sans-serif;margin:1.5em;color:#0f172a}table{border-collapse:collapse}\
td,th{padding:.25em .8em;text-align:left;border-bottom:1px solid #e2e8f0;vertical-align:top}\
.line{overflow-x:auto;border:1px solid #e2e8f0}.bad{color:#dc2626}.good{color:#15803d}pre{background:#f8fafc;\
padding:.8em;overflow-x:auto}";

/// Writes `report.html` into the directory of a round.
pub(crate) fn write(directory: &Path) -> Result<PathBuf, String> {
    let path = directory.join("report.html");
    fs::write(&path, page(&verdict::judge(directory)?)).map_err(|error| error.to_string())?;
    Ok(path)
}

fn page(judged: &Judged) -> String {
    let clean = judged.is_clean();
    let (class, word) = if clean { ("good", "no promise broken") } else { ("bad", "BROKEN") };
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>chaos, {} {}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{} seed {}: <span class=\"{class}\">{word}</span></h1>\n",
        judged.options.topology, judged.options.seed, judged.options.topology, judged.options.seed
    );
    let _ = writeln!(page, "<table>");
    for (name, text) in judged.lines() {
        let _ = writeln!(page, "<tr><th>{}</th><td>{}</td></tr>", escape(&name), escape(&text));
    }
    let _ = writeln!(page, "</table>\n<h2>Timeline</h2>");
    let _ = writeln!(
        page,
        "<p>Each process has a colour. Full bars are holds as their users believe in them, pale ones waits. \
         Red: faults, and violations as lines. Dashed: all faults have ended. Point at a bar for more.</p>\
         <div class=\"line\">{}</div>",
        timeline::svg(judged)
    );
    let _ = writeln!(page, "<h2>Findings</h2>");
    let mut findings: Vec<_> = judged.verdict.findings.iter().collect();
    findings.sort_by_key(|finding| (!finding.rating.is_violation(), finding.at));
    for finding in findings.iter().take(200) {
        let class = if finding.rating.is_violation() { "bad" } else { "" };
        let text = escape(&finding.to_string());
        let _ = writeln!(page, "<pre class=\"{class}\">{text}</pre>");
    }
    let options = serde_json::to_string_pretty(&judged.options).expect("options as JSON");
    let _ = writeln!(page, "<h2>Options</h2><pre>{}</pre></body></html>", escape(&options));
    page
}
