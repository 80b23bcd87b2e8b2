//! The page has the code that is tested, and no other.

use std::{fs, path::Path};

#[test]
fn the_page_has_the_code_that_is_tested() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |file| fs::read_to_string(root.join(file)).expect("a file of the repository");
    let page = read("docs/redisson-by-task.md");
    let shown: Vec<&str> = page
        .split("```rust\n")
        .skip(1)
        .map(|rest| rest.split("```").next().expect("its end"))
        .flat_map(str::lines)
        .filter(|line| !line.is_empty())
        .collect();
    let tasks = read("tests/by_task/tasks.rs").replace("pub(crate) ", "");
    let tested: Vec<&str> =
        tasks.lines().filter(|line| !line.is_empty() && !line.starts_with("//!")).collect();
    let differs = shown.iter().zip(&tested).find(|(shown, tested)| shown != tested);
    assert_eq!(differs, None, "on the page, and in the tests");
    assert_eq!(shown.len(), tested.len());
    assert!(shown.len() > 100, "{} lines", shown.len());
}
