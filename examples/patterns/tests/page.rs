//! The page of the patterns has the code that runs, and no other.

use std::{fs, path::Path};

#[test]
fn the_page_has_the_code_that_runs() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(example.join("../../docs/patterns.md")).expect("the page");
    let sources = ["cache", "read_write", "sale"].map(|pattern| {
        let file = example.join("src").join(pattern).join("mod.rs");
        flat(&fs::read_to_string(file).expect("a source"))
    });
    let shown: Vec<_> =
        page.split("```rust\n").skip(1).map(|rest| rest.split("```").next()).collect();
    assert!(shown.len() >= 7, "{} pieces of code", shown.len());
    for code in shown {
        let code = code.expect("its end");
        let is_there = sources.iter().any(|source| source.contains(&flat(code)));
        assert!(is_there, "not in the example:\n{code}");
    }
}

/// Without the space at the beginning of lines.
fn flat(code: &str) -> String {
    code.lines().map(|line| line.trim_start().to_owned() + "\n").collect()
}
