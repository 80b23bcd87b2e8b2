//! The rules of a client and its scripts, which are left out one by one.

/// All rules but one, or all.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules<R> {
    without: Option<R>,
}

/// What a script reads without a rule: the rule, the script's name, what goes, what comes in its place.
pub(crate) type Change<R> = (R, &'static str, &'static str, &'static str);

impl<R: Copy + PartialEq> Rules<R> {
    pub(crate) fn all() -> Self {
        Self { without: None }
    }

    pub(crate) fn without(rule: R) -> Self {
        Self { without: Some(rule) }
    }

    pub(crate) fn are_all_kept(&self) -> bool {
        self.without.is_none()
    }

    pub(crate) fn keep(&self, rule: R) -> bool {
        self.without != Some(rule)
    }

    /// A script as it is shipped, or as it reads without the rule that is left out.
    pub(crate) fn apply(&self, changes: &[Change<R>], name: &str, shipped: &str) -> String {
        let change = changes.iter().find(|(rule, of, ..)| *of == name && !self.keep(*rule));
        let Some((_, _, from, to)) = change else { return shipped.to_string() };
        assert!(shipped.contains(from), "{name}.lua has no {from:?}");
        shipped.replacen(from, to, 1)
    }
}
