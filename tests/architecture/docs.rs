//! Tests that the docs name.

use std::fs;

use crate::{below, root};

/// A name of a test in the docs: long, in snake case, between backticks.
fn is_of_a_test(piece: &str) -> bool {
    piece.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase())
        && piece.matches('_').count() >= 4
}

/// The tests that the lines name.
fn named(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).filter(|piece| is_of_a_test(piece)).collect()
}

#[test]
fn tests_that_the_docs_name_exist() {
    let sources: String =
        ["tests", "src", "examples"].into_iter().flat_map(|of| below(of).into_values()).collect();
    let page = |name: &str| fs::read_to_string(root().join("docs").join(name)).unwrap();
    let testing = page("testing.md");
    let (_, errors) = testing.split_once("## Redisson's errors").expect("a section of that name");
    let (errors, _) = errors.split_once("Runs of").expect("a table of runs");
    let which = page("which-lock.md");
    for (page, text, least) in [("which-lock.md", &*which, 20), ("testing.md", errors, 20)] {
        let names = named(text);
        assert!(names.len() >= least, "{page} names {} tests", names.len());
        for name in names {
            assert!(sources.contains(&format!("fn {name}(")), "{page}: there is no test {name}");
        }
    }
    assert_eq!(named("`a_test_of_one_thing`, `lost`, `SIM_X`"), ["a_test_of_one_thing"]);
}
