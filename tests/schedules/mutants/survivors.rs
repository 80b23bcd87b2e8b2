//! The list of mutants that no judge catches, each with the reason.

use std::collections::BTreeSet;

use super::mutate::Change;

const LIST: &str = include_str!("survivors.txt");

/// An entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Survivor {
    pub(super) script: String,
    pub(super) change: Change,
    pub(super) reason: Reason,
}

/// Why no judge catches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// No caller can tell it from the script as it ships.
    Equivalent,
    /// A test that this suite does not run catches it: the entry names the test.
    Elsewhere,
    /// It is not known to be equivalent, and nothing is known to catch it.
    Open,
}

pub(super) fn listed() -> Vec<Survivor> {
    read(LIST)
}

/// Reads entries of four lines: the scripts, and which of equal changes; `- ` what it was; `+ ` what it is; `= ` the reason.
fn read(list: &str) -> Vec<Survivor> {
    let is_content = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let lines: Vec<_> = list.lines().filter(is_content).collect();
    let (entries, rest) = lines.as_chunks::<4>();
    assert!(rest.is_empty(), "an entry has four lines: {rest:?}");
    let mut survivors = Vec::new();
    for [head, was, is, reason] in entries {
        let part = |line: &str, sign: &str| {
            let rest = line.strip_prefix(sign);
            rest.unwrap_or_else(|| panic!("{line:?} does not begin with {sign:?}")).trim().into()
        };
        let (was, is, why): (String, String, String) =
            (part(was, "-"), part(is, "+"), part(reason, "="));
        let reason = match why.split_once(": ") {
            Some(("Equivalent", _)) => Reason::Equivalent,
            Some(("Elsewhere", _)) => Reason::Elsewhere,
            Some(("Open", _)) => Reason::Open,
            _ => panic!("{why:?} begins with none of the reasons"),
        };
        for head in head.split(", ") {
            let (script, nth) = match head.split_once(' ') {
                Some((script, nth)) => (script, nth.parse().expect("a number")),
                None => (head, 1),
            };
            let change = Change { was: was.clone(), is: is.clone(), nth };
            survivors.push(Survivor { script: script.into(), change, reason });
        }
    }
    let keys: BTreeSet<_> = survivors.iter().map(|one| (&one.script, &one.change)).collect();
    assert_eq!(keys.len(), survivors.len(), "an entry stands twice in the list");
    survivors
}

#[cfg(test)]
mod tests {
    use super::{Reason, read};

    #[test]
    fn an_entry_may_name_several_scripts() {
        let list = "# a comment\n\na/x, a/y 2\n- return 0\n+\n= Equivalent: nothing follows.\n";
        let found: Vec<_> =
            read(list).into_iter().map(|one| (one.script, one.change.nth, one.reason)).collect();
        let reason = Reason::Equivalent;
        assert_eq!(found, [("a/x".to_owned(), 1, reason), ("a/y".to_owned(), 2, reason)]);
    }
}
